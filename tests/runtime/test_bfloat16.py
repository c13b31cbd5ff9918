"""Processors that announce instructions which they do not have: the tests survive them, and the doctor says so."""

import inspect
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pixtree.runtime.bfloat16 import LIMIT, WITHOUT_AMX, bfloat16_fault, diagnosis, fault_of, precaution

TESTS = Path(__file__).parents[1]


def fine(limit):
    return None


def without_amx(limit):
    """A virtual CPU that announces AMX and has none."""
    return None if limit == WITHOUT_AMX else "SIGILL"


def hopeless(limit):
    return "SIGILL"


def test_a_process_that_dies_of_an_instruction_is_survived_and_named():
    assert fault_of(f"import os; os.kill(os.getpid(), {signal.SIGILL.value})") == "SIGILL"


def test_the_last_line_of_an_error_is_the_fault():
    assert fault_of("raise ValueError('no such product')") == "ValueError: no such product"
    assert fault_of("raise SystemExit(3)") == "exit code 3"


def test_a_process_that_ends_well_has_no_fault_and_sees_the_cap():
    assert fault_of(f"import os; assert os.environ['{LIMIT}'] == 'X'", {LIMIT: "X"}) is None


def test_the_probe_is_loaded_without_torch_so_that_a_cap_comes_in_time():
    path = TESTS.parent / "src" / "pixtree" / "runtime" / "bfloat16.py"
    assert fault_of(f"import runpy, sys; runpy.run_path({str(path)!r}); assert 'torch' not in sys.modules") is None


@pytest.mark.bfloat16
def test_the_probe_agrees_with_this_process():
    assert bfloat16_fault() is None


@pytest.mark.parametrize(
    ("probe", "variables", "fault", "words"),
    [
        (fine, {}, None, "ok"),
        (without_amx, {LIMIT: WITHOUT_AMX}, None, f"broken (SIGILL): set {LIMIT}={WITHOUT_AMX} before Python starts"),
        (hopeless, {}, "SIGILL", "broken (SIGILL): use float32"),
    ],
)
def test_the_instruction_set_is_capped_where_that_helps(probe, variables, fault, words):
    assert precaution(probe) == (variables, fault)
    assert diagnosis(probe).startswith(words)


@pytest.mark.parametrize(("probe", "outcome"), [("without_amx", "1 passed"), ("hopeless", "1 skipped")])
def test_the_tests_survive_a_cpu_without_the_instructions(tmp_path, probe, outcome):
    """A run of its own, whose probe is replaced before its conftest asks it; nothing in it loads torch, which takes seconds."""
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "interpreted.py").write_text("")  # which the conftest imports first, and which loads torch
    (tmp_path / "test_product.py").write_text(
        f"import os, pytest\n@pytest.mark.bfloat16\ndef test_product():\n    assert os.environ['{LIMIT}'] == '{WITHOUT_AMX}'\n"
    )
    function = inspect.getsource({"without_amx": without_amx, "hopeless": hopeless}[probe])
    run = (
        "import runpy, sys, pytest\n"
        f"{function}\n"
        f"load, WITHOUT_AMX = runpy.run_path, {WITHOUT_AMX!r}\n"
        f"runpy.run_path = lambda path: {{'precaution': lambda: load(path)['precaution']({probe})}}\n"
        "sys.exit(pytest.main(['-q', '-rs', '-p', 'no:cacheprovider', '-o', 'markers=bfloat16', sys.argv[1]]))"
    )
    command = [sys.executable, "-c", run, str(tmp_path)]
    clean = {name: value for name, value in os.environ.items() if name not in (LIMIT, "PIXTREE_TESTS_BFLOAT16")}
    clean |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # of which napari's load it
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    assert outcome in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
    if probe == "hopeless":
        assert "torch cannot multiply in bfloat16 on this CPU: SIGILL" in " ".join(done.stdout.split())
