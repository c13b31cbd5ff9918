"""What people see: a bar for long work, colours in terminals only, first steps, examples, completion, and the log."""

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import invoke
from PIL import Image

from pixtree import messages
from pixtree.cli.main import app
from pixtree.cli.progress import Progress
from pixtree.vector.presets import ABOUT, PRESETS

# The real program on images whose cuts take as long as `seconds` has it.
SLOW = """
import sys, time
import pixtree.tasks.segment as tasks
whole, seconds = tasks.segment, {seconds}
def segment(*arguments, **options):
    time.sleep(seconds.pop(0))
    return whole(*arguments, **options)
tasks.segment = segment
from pixtree.cli.main import main
sys.argv = ["pixtree", "segment", *{images}, "-o", "{output}", "--tokens", "4"]
main()
"""


@pytest.fixture
def folder(tmp_path):
    return filled(tmp_path)


def filled(folder):
    """The folder, with two images and a folder for results."""
    for name in ("a.png", "b.png"):
        Image.fromarray(np.arange(48, dtype=np.uint8).reshape(6, 8) * 5).save(folder / name)
    (folder / "out").mkdir()
    return folder


def in_terminal(folder, code):
    """Everything that a program prints to a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    with subprocess.Popen([sys.executable, "-c", code], cwd=folder, env=environment, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                some = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            said += some
    os.close(ours)
    return process.returncode, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode()), said.decode()


@pytest.fixture(scope="module")
def two_slow_images(tmp_path_factory):
    """The exit code and the words of a program on two images in a terminal, of which the first takes long."""
    folder = filled(tmp_path_factory.mktemp("slow"))
    return in_terminal(folder, SLOW.format(seconds=[2.0, 0.5], images=["a.png", "b.png"], output="out"))[:2]


def test_a_bar_appears_when_work_takes_longer_than_a_second(two_slow_images):
    code, words = two_slow_images
    assert code == 0, words
    assert "a.png: cutting" in words
    assert "━" in words
    assert "0:00:0" in words


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_quick_work_has_no_bar(monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr("pixtree.cli.progress.PATIENCE", 60)
    with Progress(1) as progress:
        progress.stage("quick")
    assert sys.stderr.getvalue() == ""
    assert progress.timer.finished.is_set()


def test_the_bar_shows_what_a_step_waits_for_and_then_the_step_again(monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr("pixtree.cli.progress.PATIENCE", 60)
    with Progress(1) as progress:
        progress.stage("cutting")
        progress._appear()
        messages.show("compiling kernel 3")
        assert progress.bar.tasks[0].description == "compiling kernel 3"
        messages.show("")
        assert progress.bar.tasks[0].description == "cutting"
    assert messages.displays == []


def test_several_images_are_counted_and_end_in_a_table(two_slow_images):
    code, words = two_slow_images
    assert code == 0, words
    assert "1/2" in words
    assert re.search(r"image +result *\r?\na.png +4 regions: out/a.png *\r?\nb.png +4 regions: out/b.png", words)


def test_the_bar_of_one_image_leaves_its_result(monkeypatch, capsys):
    monkeypatch.setattr("pixtree.cli.progress.PATIENCE", 0.01)
    monkeypatch.setattr("sys.stderr", Terminal())
    with Progress(1) as progress:
        progress.stage("a.png: cutting")
        progress.timer.join()  # the bar has appeared
        progress.report(["4 regions: out/a.png"], Path("a.png"), "4 regions")
    assert "a.png: cutting" in sys.stderr.getvalue()
    assert "━" in sys.stderr.getvalue()
    assert "4 regions: out/a.png" in capsys.readouterr().out


def test_nothing_is_coloured_or_moved_outside_of_a_terminal(folder):
    code = SLOW.format(seconds=[1.5, 0], images=["a.png", "b.png"], output="out")
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == "4 regions: out/a.png\n4 regions: out/b.png\n"
    assert done.stderr == "" or done.stderr.startswith("pixtree: compiling")


def test_help_and_usage_errors_have_no_colours_outside_of_a_terminal():
    for arguments in (["--help"], ["segment"], ["dissolve"], ["doctor", "--help"]):
        result = invoke(app, arguments)
        assert "\x1b" not in result.stdout + result.stderr


def test_the_program_alone_says_what_to_try_first():
    result = invoke(app, [])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "pixtree turns images into trees of regions. Try first:"
    assert [line.split()[1] for line in lines if line.startswith("  pixtree")] == ["doctor", "segment", "vectorize", "hierarchy"]


def test_python_runs_the_package():
    done = subprocess.run([sys.executable, "-m", "pixtree", "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"pixtree \d+\.\d+\.\d+\n", done.stdout)


@pytest.mark.parametrize("command", ["segment", "hierarchy", "vectorize"])
def test_help_has_examples_that_are_commands(command):
    words = " ".join(invoke(app, [command, "--help"]).stdout.split())
    assert f"Examples: pixtree {command} " in words


def test_presets_have_a_line_each():
    assert ABOUT.keys() == PRESETS.keys()
    words = " ".join(invoke(app, ["vectorize", "--help"]).stdout.split())
    for name, about in ABOUT.items():
        assert f"{name}: {about}" in words
        for limit in ("paths", "colors"):
            assert str(PRESETS[name].get(limit) or "") in about


def test_a_shell_can_complete_commands():
    environment = {**os.environ, "_PIXTREE_COMPLETE": "complete_bash", "COMP_WORDS": "pixtree se", "COMP_CWORD": "1"}
    code = "import sys; sys.argv = ['pixtree']; from pixtree.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert "segment" in done.stdout.split()
    assert "--install-completion" in invoke(app, ["--help"]).stdout


def test_the_log_is_that_of_python(folder):
    Image.fromarray(np.arange(48, dtype=np.uint16).reshape(6, 8) * 50).save(folder / "dim.png")
    given = ["segment", str(folder / "dim.png"), "-o", str(folder / "out" / "dim.npz"), "--tokens", "3", "--overwrite"]
    plain, quiet, verbose = (invoke(app, [*words, *given]) for words in ([], ["--quiet"], ["--verbose"]))
    warning = 'uint16 values up to 2350 use 3.6 % of their range and are nearly black; window="auto" stretches them'
    assert plain.stderr.splitlines() == [warning]
    assert quiet.stderr == ""
    assert verbose.stderr.splitlines() == ["dim.png", "dim.png: reading", warning, "dim.png: cutting", "dim.png: writing"]
