"""Whether torch can multiply in bfloat16 here: some virtual CPUs announce AMX instructions that they do not have.

A program dies of such an instruction, so a child process tries it. Capping oneDNN's instruction set avoids it, but only before
torch is loaded; nothing here loads torch.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache

LIMIT = "ONEDNN_MAX_CPU_ISA"  # the environment variable that oneDNN reads when torch is loaded
WITHOUT_AMX = "AVX512_CORE_VNNI"
SECONDS = 120.0
PRODUCTS = """
import torch
torch.set_num_threads(1)
layers = torch.nn.Conv2d(3, 32, 3), torch.nn.Flatten(2), torch.nn.Linear(196, 256)
with torch.autocast("cpu", torch.bfloat16):
    torch.nn.Sequential(*layers)(torch.ones(2, 3, 16, 16)).sum().backward()
"""
Probe = Callable[[str | None], str | None]


@cache
def bfloat16_fault(limit: str | None = None) -> str | None:
    """How a process ends that multiplies in bfloat16, such as "SIGILL"; None if all is well. Takes seconds, once.

    limit: the cap of oneDNN's instruction set in that process; None leaves the environment as it is.
    """
    return fault_of(PRODUCTS, {} if limit is None else {LIMIT: limit})


def fault_of(code: str, variables: dict[str, str] | None = None) -> str | None:
    """How a Python process that runs `code` ends: a signal's name, the last line of its error, or None if all is well."""
    try:
        command, environment = [sys.executable, "-c", code], os.environ | (variables or {})
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"no end after {SECONDS:.0f} s"
    if done.returncode < 0:
        return signal.Signals(-done.returncode).name
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1] if done.returncode else None


def precaution(probe: Probe = bfloat16_fault) -> tuple[dict[str, str], str | None]:
    """Environment variables that make bfloat16 work, if it does not; and, where none do, the fault."""
    fault = probe(None)
    if fault is None:
        return {}, None
    return ({LIMIT: WITHOUT_AMX}, None) if probe(WITHOUT_AMX) is None else ({}, fault)


def diagnosis(probe: Probe = bfloat16_fault) -> str:
    """One sentence for users: whether bfloat16 works, and the fix if it does not."""
    fault = probe(None)
    if fault is None:
        return "ok"
    variables, _ = precaution(probe)
    if not variables:
        return f"broken ({fault}): use float32, for no cap of the instruction set helps"
    return f"broken ({fault}): set {LIMIT}={WITHOUT_AMX} before Python starts, or use float32"
