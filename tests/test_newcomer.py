"""What a newcomer meets first: the README's commands, and the time that an import takes."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from commands import invoke

from pixtree.cli.main import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NEWCOMER = runpy.run_path(str(ROOT / "benchmarks" / "newcomer.py"))


def test_the_path_of_a_newcomer_is_in_the_readme():
    for start in (NEWCOMER["INSTALL"], NEWCOMER["LABELS"], NEWCOMER["DRAWING"], *NEWCOMER["PYTHON"]):
        assert NEWCOMER["line_of"](README, start)
    with pytest.raises(ValueError, match="the README must have a line that starts with 'make tea', found none"):
        NEWCOMER["line_of"](README, "make tea")


def test_the_first_lines_of_python_download_nothing():
    program = NEWCOMER["program_of"](README)
    compile(program, "README.md", "exec")
    assert "pretrained" not in program


@pytest.mark.parametrize("line", [line for line in README.splitlines() if line.startswith("pixtree ") and "--" in line])
def test_the_options_in_the_readme_exist(line):
    words = line.split()
    command = words[1:3] if words[1] == "evaluate" else words[1:2]
    known = invoke(app, [*command, "--help"]).stdout
    assert [word for word in words if word.startswith("--") and word not in known] == []


def test_an_import_adds_little_to_that_of_torch():
    code = "import torch, time; start = time.process_time(); import pixtree; print(time.process_time() - start)"
    runs = (subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3))
    assert any(float(run.stdout) <= 0.3 for run in runs)  # one is enough; others may be disturbed
