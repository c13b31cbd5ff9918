"""Compile every Triton kernel for GPUs that are not here, and check its machine code: `python benchmarks/device_code.py -o FILE`.

A batch passes the drivers with kernels that only note how they were called; each call is then compiled for every target. Checked
are registers that spill to memory (NVIDIA), arithmetic that is not exact (fused or approximate operations, flushed subnormals), and
loads that may read stale values; and budgets of bytes and atomic updates per pixel, which `device_traffic.py` counts in the
interpreter. Mutants show that the checks notice what they are for. Nothing runs on a GPU.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

os.environ.pop("TRITON_INTERPRET", None)

import torch
import triton
from evidence.records import provenance, write_record
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from pixtree.kernels import kernels_for
from pixtree.kernels.tree import Cost, Energy, MergeRule
from pixtree.kernels.tree.build.triton import grow
from pixtree.kernels.tree.build.triton.leaves import Leaves
from pixtree.kernels.tree.choice import Choice
from pixtree.kernels.tree.criterion import Penalty, Scoring
from pixtree.runtime.launch import EXACT

TARGETS = {
    **{f"sm_{arch}": GPUTarget("cuda", arch, 32) for arch in (80, 90, 120)},
    **{arch: GPUTarget("hip", arch, 64) for arch in ("gfx90a", "gfx942")},
}
TYPES = {torch.float32: "*fp32", torch.float64: "*fp64", torch.uint8: "*u8"}
TYPES |= {torch.int16: "*i16", torch.int32: "*i32", torch.int64: "*i64"}
CUDA = torch.device("cuda")
TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"
# In PTX: approximate or flushing operations, products fused with sums, and loads through the read-only cache.
INEXACT_PTX = re.compile(
    r"\b(div\.full\S*|div\.approx\S*|sqrt\.approx\S*|rcp\.approx\S*|rsqrt\S*|ex2\S*|lg2\S*|"
    r"fma\.rn\.\S*f(?:32|64)|mad\.\S*f32|\S*\.ftz\S*|ld\.global\.nc\S*)"
)
# In LLVM's intermediate language for AMD. Divisions and roots in float64 are made of fused steps by the compiler, exactly.
INEXACT_LLVM = re.compile(r"fmuladd|llvm\.fma\.f32|\bfast\b|\bcontract\b|\bafn\b|\barcp\b|llvm\.amdgcn\.(?:rcp|sqrt|rsq)\S*")
# Per pixel of a cut: bytes that kernels and operators of torch move with a perfect cache, and atomic updates.
BUDGETS = {"bytes": 1500.0, "atomics": 8.0}
COLUMNS = [
    ["kernel", "Kernel", ""],
    ["variants", "variants", ".0f"],
    ["registers", "registers, most on sm_80", ".0f"],
    ["spills", "bytes spilled on NVIDIA", ".0f"],
    ["vector_registers", "vector registers, most on gfx90a", ".0f"],
    ["inexact", "inexact operations", ""],
    ["bytes", "bytes per pixel", ".0f"],
    ["atomics", "atomics per pixel", ".2f"],
]


class Call(NamedTuple):
    """One way in which a kernel is launched."""

    kernel: JITFunction
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Any], ...]


@contextmanager
def noted(calls: dict[Call, int]) -> Iterator[None]:
    """Count launches instead of running them. The drivers read no value, so it does not matter that none is computed."""
    before = JITFunction.run
    replaced = {"empty": torch.zeros, "empty_like": torch.zeros_like, "_assert_async": lambda *_: None}
    originals = {name: getattr(torch, name) for name in replaced}

    def run(self, *arguments, grid, warmup, **named):
        constants = {name: value for name, value in named.items() if name not in EXACT}
        types = zip(self.arg_names, map(type_of, arguments), strict=False)
        call = Call(self, tuple(types), tuple(sorted(constants.items())))
        calls[call] = calls.get(call, 0) + 1

    JITFunction.run = run
    for name, function in replaced.items():  # what no kernel fills is used as indices by torch
        setattr(torch, name, function)
    try:
        yield
    finally:
        JITFunction.run = before
        for name, function in originals.items():
            setattr(torch, name, function)


def type_of(value: Any) -> str:
    """The type of a kernel's argument."""
    if isinstance(value, torch.Tensor):
        return TYPES[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"


def launches(images: int, channels: int, rule: MergeRule, calls: dict[Call, int], colour: bool = True) -> int:
    """Note the launches of a cut of a batch, and count them."""
    side, before = 48, sum(calls.values())
    pixels = torch.rand(images, 3, side, side) if colour else torch.zeros(images, 3, side, side, dtype=torch.uint8)
    features = torch.rand(images, channels - (3 if colour else 0), side * side)
    with noted(calls):
        kernels_for("triton", CUDA).cut_batch(pixels, features, 1.0, 9, colour, 0.0, rule, True)
    return sum(calls.values()) - before


def choose(choice: Choice, calls: dict[Call, int]) -> None:
    """Note the launches of a cut by a criterion."""
    with noted(calls):
        images, nothing = torch.zeros(1, 3, 48, 48, dtype=torch.uint8), torch.zeros(1, 0, 48 * 48)
        kernels_for("triton", CUDA).choose_batch(images, nothing, 1.0, choice, True, 1.0, MergeRule(), True)


def all_calls() -> dict[Call, int]:
    """Every kernel as it is launched for all similarities, energies, and some numbers of channels; inside a mask as well."""
    calls: dict[Call, int] = {}
    for cost in Cost:
        launches(1, 3, MergeRule(cost), calls)
    for channels in (4, 8, 16):
        launches(1, channels, MergeRule(), calls)
    launches(1, 3, MergeRule(Cost.LIKELIHOOD, Energy.SQUARED_ERROR, ward_rounds=0), calls)
    for quarters in range(5):
        launches(1, 3, MergeRule(length_quarters=quarters), calls)
    for cost in (Cost.GAUSSIAN, Cost.COSINE, Cost.TANIMOTO):
        launches(1, 3, MergeRule(cost, weighted=True), calls)
    for penalty in Penalty:
        scoring = Scoring(penalty, 1.0, 0.5, True)
        choose(Choice(scoring, 10.0, True), calls)
        choose(Choice(scoring._replace(single_volume=0.0, levels=False), 10.0, at_most=9), calls)
    with noted(calls):
        near = torch.zeros(4, 4096, dtype=torch.int32)
        grow(torch.rand(1, 3, 4096), Leaves((64, 64), 4096, near, 3), MergeRule(), True)
    return calls


def compiled(call: Call, target: GPUTarget, **options: Any) -> Any:
    """A kernel's machine code for a target."""
    constants = {name: min(value, target.warp_size) if name == "BLOCK" and value < 128 else value for name, value in call.constants}
    signature = {name: dict(call.signature).get(name, "constexpr") for name in call.kernel.arg_names}
    source = ASTSource(fn=call.kernel, signature=signature, constexprs=constants)
    return triton.compile(source, target=target, options={**EXACT, **options})


def resources(code: Any) -> tuple[int, int]:
    """Registers of a kernel for NVIDIA, and the bytes of stack and local memory that it spills to."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code.asm["cubin"])
        file.flush()
        told = subprocess.run([str(TOOLS / "cuobjdump"), "-res-usage", file.name], capture_output=True, text=True, check=True)
    found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", told.stdout + told.stderr)
    if found is None:
        raise RuntimeError(f"cuobjdump names no registers: {told.stdout[:200]}")
    return int(found[1]), int(found[2]) + int(found[3])


def inexact(code: Any, target: GPUTarget) -> list[str]:
    """Operations in machine code that may give other bits than the CPU, or read stale values."""
    if target.backend == "cuda":
        return sorted(set(INEXACT_PTX.findall(code.asm["ptx"])))
    return sorted(set(INEXACT_LLVM.findall(code.asm["llir"])))


def checked(calls: dict[Call, int], targets: dict[str, GPUTarget]) -> list[dict[str, Any]]:
    """One row per kernel over all its variants and targets."""
    rows: dict[str, dict[str, Any]] = {}
    for call in calls:
        row = rows.setdefault(call.kernel.__name__, {"kernel": call.kernel.__name__, "variants": 0, "inexact": []})
        row["variants"] += 1
        for name, target in targets.items():
            code = compiled(call, target)
            row["inexact"] = sorted({*row["inexact"], *inexact(code, target)})
            if target.backend == "cuda":
                registers, spills = resources(code)
                row["spills"] = max(row.get("spills", 0), spills)
                if name == "sm_80":
                    row["registers"] = max(row.get("registers", 0), registers)
            elif name == "gfx90a":
                count = re.search(r"\.vgpr_count:\s*(\d+)", code.asm["amdgcn"])
                row["vector_registers"] = max(row.get("vector_registers", 0), int(count[1]) if count else 0)
    return [{**row, "inexact": ", ".join(row["inexact"]) or "none"} for row in rows.values()]


def mutated(call: Call, change: Callable[[str], str]) -> Call:
    """A call of a kernel whose source was changed."""
    source = change(call.kernel.src)
    if source == call.kernel.src:
        raise RuntimeError(f"the mutant of {call.kernel.__name__} changes nothing")
    kernel = JITFunction(call.kernel.fn)
    kernel._unsafe_update_src(source)
    return call._replace(kernel=kernel)


def mutants(calls: dict[Call, int]) -> dict[str, list[str]]:
    """What the checks find in kernels that were made inexact on purpose; every mutant must be found."""
    target = TARGETS["sm_80"]
    # inside flat zones edges cost nothing, so there is nothing to fuse
    cost = next(call for call in calls if call.kernel.__name__ == "key_edges" and dict(call.constants)["COST"] >= 0)
    energies = next(call for call in calls if call.kernel.__name__ == "region_energies")
    divided = mutated(energies, lambda source: re.sub(r"tl\.div_rn\((.*), size\)", r"\1 / size", source))
    return {
        "fusion of products and sums": inexact(compiled(cost, target, enable_fp_fusion=True), target),
        "/ instead of div_rn": inexact(compiled(divided, target), target),
        "dropped tie rule": [] if interpreted("--ties", "dropped")["equal"] else ["other labels"],
    }


def interpreted(*words: str) -> dict[str, Any]:
    """What `device_traffic.py` finds, in a process in which Triton interprets."""
    command = [sys.executable, str(Path(__file__).with_name("device_traffic.py")), *words]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def traffic(side: int) -> dict[str, Any]:
    """Bytes and atomic updates per pixel of a cut."""
    if not interpreted("--ties", "kept")["equal"]:
        raise RuntimeError("the interpreter does not cut as defined, so its counts mean nothing")
    counted = interpreted("--side", str(side))
    return {**counted, "bytes": counted["once"] + counted["torch"]}


def main() -> int:
    """Write the record; fails if a kernel spills or is inexact, a budget is exceeded, or a mutant is not noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--side", type=int, default=64, help="Side of the photo on which bytes and atomic updates are counted.")
    parser.add_argument("--targets", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    given = parser.parse_args()
    calls = all_calls()
    rows = checked(calls, {name: TARGETS[name] for name in given.targets})
    found = mutants(calls)
    per_batch = {images: launches(images, 3, MergeRule(), {}) for images in (1, 7)}
    counted = traffic(given.side)
    over = [f"{name} {counted[name]:.1f} > {budget:.0f}" for name, budget in BUDGETS.items() if counted[name] > budget]
    for row in rows:
        row["bytes"], row["atomics"] = (counted["kernels"].get(row["kernel"], {}).get(key, 0.0) for key in ("once", "atomics"))
    record = {
        "benchmark": "table",
        "title": "Machine code of the Triton kernels, for GPUs that were not there",
        **provenance(" ".join(["python", "benchmarks/device_code.py", *sys.argv[1:]])),
        "triton": triton.__version__,
        "targets": given.targets,
        "columns": COLUMNS,
        "rows": rows,
        "mutants": found,
        "launches_per_batch": {str(images): count for images, count in per_batch.items()},
        "per_pixel": {name: counted[name] for name in ("once", "always", "torch", "bytes", "atomics")},
        "budgets": BUDGETS,
        "notes": [
            "Compiled by Triton without a GPU. Launches are those of a cut of a batch of 1 and of 7 images of 48 px. Bytes and "
            f"atomic updates are those of a cut of a photo of {given.side} px without gradients, in the interpreter, with a "
            "perfect cache."
        ],
    }
    write_record(record, given.output)
    bad = [row["kernel"] for row in rows if row["inexact"] != "none" or row.get("spills")]
    unnoticed = [name for name, operations in found.items() if not operations]
    for row in rows:
        print(row)
    print(f"launches {per_batch}; mutants {found}; bad {bad}; unnoticed {unnoticed}; over budget {over}")
    return int(bool(bad or unnoticed or over or len(set(per_batch.values())) > 1))


if __name__ == "__main__":
    sys.exit(main())
