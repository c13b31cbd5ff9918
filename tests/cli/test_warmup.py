"""`pixtree warmup`: what it prints, and how it fails."""

import subprocess
from types import SimpleNamespace

from commands import invoke

from pixtree.cli.main import app
from pixtree.tasks import warm_up


def test_it_says_what_is_ready_and_what_was_skipped(monkeypatch):
    def calls(workers, silent):
        assert workers == 3
        return iter([("photos", ""), ("retrofits", "retrofit needs timm; run pip install 'pixtree[models]'")])

    monkeypatch.setattr(warm_up, "warm_up", calls)
    monkeypatch.setattr(warm_up, "CALLS", {"photos": None, "retrofits": None})
    result = invoke(app, ["warmup", "--workers", "3"])
    assert result.exit_code == 0
    skipped, ready = result.stdout.splitlines()
    assert skipped == "skipped: retrofits: retrofit needs timm; run pip install 'pixtree[models]'"
    assert ready.startswith("ready: 1 of 2 kinds of calls, in ")


def test_machine_code_for_wheels_is_compiled_for_a_level_of_cpus_and_then_packed(monkeypatch, tmp_path):
    commands = []

    def run(command, env, check):
        commands.append((command[1], command[-1], env["NUMBA_CPU_NAME"]))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(subprocess, "run", run)
    assert invoke(app, ["warmup", "--ship", str(tmp_path)]).exit_code == 0
    assert commands == [("-m", "warmup", "x86-64-v3"), ("-c", str(tmp_path), "x86-64-v3")]


def test_a_process_that_fails_ends_the_build(monkeypatch, tmp_path):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1))
    assert invoke(app, ["warmup", "--ship", str(tmp_path)]).exit_code == 1


def test_other_architectures_have_no_machine_code_to_ship(monkeypatch, tmp_path):
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    result = invoke(app, ["warmup", "--ship", str(tmp_path)])
    assert result.exit_code == 1
    assert result.stderr == "error: machine code ships for x86_64 and aarch64, got riscv64; build the pure wheel only\n"
