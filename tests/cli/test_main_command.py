import subprocess
import sys
from importlib.metadata import version

import pytest
import typer
from commands import invoke
from fresh_process import found, loaded_after

from pixtree.cli.main import app


def run(*arguments):
    return invoke(app, list(arguments))


def test_the_version_is_that_of_the_package():
    assert run("--version").output == f"pixtree {version('pixtree')}\n"


@pytest.mark.parametrize("command", ["segment", "hierarchy", "select", "snap", "demo", "doctor", "warmup"])
def test_every_command_has_help(command):
    assert command in run("--help").output
    assert run(command, "--help").exit_code == 0


def commands(command, name=""):
    """Every command that does something, by its words."""
    inside = getattr(command, "commands", {})
    return {name: command} if not inside else {k: v for word in inside for k, v in commands(inside[word], f"{name} {word}").items()}


@pytest.mark.parametrize(("name", "command"), commands(typer.main.get_command(app)).items())
def test_every_command_and_option_is_explained_in_a_sentence(name, command):
    texts = {name: command.help, **{option.name: option.help for option in command.params if option.name != "help"}}
    assert {what: text for what, text in texts.items() if not text or not text[0].isupper() or text[-1] != "."} == {}


def test_an_unknown_command_is_a_usage_error():
    result = run("dissolve")
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


def test_a_real_process_reports_errors_in_one_line(tmp_path):
    command = [sys.executable, "-m", "pixtree.cli.main", "segment", "absent.png", "-o", "labels.png"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_version_and_help_load_no_heavy_module():
    heavy = {"torch", "numba", "timm", "PIL", "skimage", "scipy", "matplotlib"}
    assert loaded_after("pixtree --help").isdisjoint(heavy)
    assert found()["printed"].startswith(f"pixtree {version('pixtree')}\n")
    assert "vectorize" in found()["printed"]
