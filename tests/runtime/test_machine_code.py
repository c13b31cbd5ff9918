"""Machine code on disk may be damaged, full or not there at all: results are the same, and a sentence says what it costs."""

import errno
import gc
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numba
import pytest

from pixtree import messages
from pixtree.runtime import announcer, jit, machine_code


def add_seven(number):
    return number + 7


add_seven.__module__ = "pixtree.kernels.tried"  # as if it were ours


def keep_in(folder, monkeypatch):
    """Let machine code be kept in a folder, as by a new process."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))
    monkeypatch.setattr(messages, "_warned", set())
    monkeypatch.setattr(announcer.announcer, "is_kept", True)
    monkeypatch.setattr(messages, "_last", -messages.INTERVAL)
    monkeypatch.setitem(sys.modules, add_seven.__module__, ModuleType(add_seven.__module__))  # numba imports it with the code


@pytest.fixture
def folder(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.WARNING, "pixtree")
    keep_in(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture(scope="module", autouse=True)
def earlier():
    """What other tests left in memory stays there, so that `fresh` need not look through it every time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """A folder with the machine code of one kernel."""
    folder = tmp_path_factory.mktemp("intact")
    with pytest.MonkeyPatch.context() as patch:
        keep_in(folder, patch)
        fresh()(1)
    return folder


def stored(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def fresh():
    """A kernel as a new process has it: what it knows is on disk, and nothing of earlier ones is left in memory."""
    gc.collect()
    return jit.kernel(add_seven)


def test_machine_code_is_kept_and_found_again(folder, caplog):
    assert fresh()(1) == 8
    assert [path.suffix for path in stored(folder)] == [".nbc", ".nbi"]
    caplog.clear()
    messages._warned.clear()
    again = fresh()
    assert again(1) == 8
    assert sum(again.stats.cache_hits.values()) == 1
    assert caplog.messages == []


def copied(path):
    """The function of a file as another clone has it: equal sources at another place, of another time."""
    path.parent.mkdir()
    path.write_text("def add_nine(number):\n    return number + 9\n")
    names = {"__name__": add_seven.__module__}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names["add_nine"]


def test_copies_of_the_same_sources_share_their_machine_code(folder, tmp_path_factory):
    clones = tmp_path_factory.mktemp("clones")
    first, second = copied(clones / "one" / "tried.py"), copied(clones / "other" / "tried.py")
    os.utime(clones / "other" / "tried.py", (0, 0))
    assert jit.kernel(first)(1) == 10
    again = jit.kernel(second)
    assert again(1) == 10
    assert sum(again.stats.cache_hits.values()) == 1
    assert [path.suffix for path in stored(folder)] == [".nbc", ".nbi"]


def test_other_sources_do_not_touch_that_machine_code(folder, monkeypatch):
    assert fresh()(1) == 8
    before = {path: path.read_bytes() for path in stored(folder)}
    monkeypatch.setattr(jit, "fingerprint", lambda _: "of other sources")
    other = fresh()
    assert other(1) == 8
    assert sum(other.stats.cache_hits.values()) == 0
    assert before.items() < {path: path.read_bytes() for path in stored(folder)}.items()


def test_two_processes_that_compile_at_once_do_not_mix_their_machine_code(folder, monkeypatch):
    whole, fraction = jit.kernel(add_seven), jit.kernel(add_seven)
    monkeypatch.setattr(machine_code.CheckedFiles, "_load_index", lambda _: {})  # each has looked before the other wrote
    assert (whole(1), fraction(0.5)) == (8, 7.5)
    assert [path.suffix for path in stored(folder)] == [".nbc", ".nbc", ".nbi"]


def flipped(content, place):
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


DAMAGES = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "flipped in front": lambda content: flipped(content, 3),
    "flipped in the middle": lambda content: flipped(content, len(content) // 2),
    "flipped at the end": lambda content: flipped(content, len(content) - 40),
    "text": lambda content: b"not a cache",
    "longer": lambda content: content + b"x",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_damaged_files_are_made_again(folder, intact, caplog, suffix, damage):
    shutil.copytree(intact, folder, dirs_exist_ok=True)
    (path,) = (path for path in stored(folder) if path.suffix == suffix)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert fresh()(1) == 8
    assert [message for message in caplog.messages if not message.endswith(announcer.ONCE)] == []
    assert caplog.messages[0].startswith("pixtree: compiling kernel ")
    repaired = fresh()
    assert repaired(1) == 8
    assert sum(repaired.stats.cache_hits.values()) == 1


def test_a_full_disk_costs_time_and_a_sentence(folder, caplog, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    kernel = fresh()
    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._open_for_write", full)
    assert kernel(1) == 8
    assert fresh()(2) == 9
    said = "\n".join(caplog.messages)
    assert said.count("cannot be kept on disk (No space left on device), so every process compiles them; set NUMBA_CACHE_DIR") == 1


def test_without_a_folder_to_write_it_says_that_every_process_compiles(folder, caplog, monkeypatch):
    monkeypatch.setattr("numba.core.caching.CompileResultCacheImpl._locator_classes", [])
    assert fresh()(1) == 8
    (message,) = caplog.messages
    assert message.startswith("pixtree: compiling kernel ")
    assert message.endswith(f"{announcer.EVERY_TIME}; set NUMBA_CACHE_DIR to a folder that can be written")
    assert "once" not in caplog.text


DISABLED = """
import torch, pixtree
from pixtree.messages import warn_once
warn_once("compiling")
warn_once("compiling")
for backend in ("torch", "numba"):
    print(pixtree.segment(torch.zeros(3, 9, 9, dtype=torch.uint8), tokens=4, backend=backend).max().item() + 1)
"""


@pytest.fixture(scope="module")
def disabled():
    """A process without numba's compiler: a warning twice, then both backends."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    return subprocess.run([sys.executable, "-c", DISABLED], env=environment, capture_output=True, text=True)


def test_without_any_set_up_of_logging_a_sentence_goes_to_stderr(disabled):
    assert disabled.stderr.startswith("pixtree: compiling\nTraceback")
    assert "compiling" not in disabled.stdout


def test_a_disabled_compiler_is_one_sentence(disabled):
    assert disabled.stdout == "4\n"  # the torch backend works, and says nothing more
    assert disabled.stderr.removeprefix("pixtree: compiling\n").startswith("Traceback")
    assert disabled.stderr.splitlines()[-1].startswith(
        "ImportError: the compiled kernels need numba's compiler, got NUMBA_DISABLE_JIT=1;"
    )


def test_the_command_line_says_it_without_a_traceback(tmp_path):
    from PIL import Image

    Image.new("RGB", (9, 9)).save(tmp_path / "photo.png")
    command = [sys.executable, "-m", "pixtree.cli.main", "segment", "photo.png", "-o", "labels.png"]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the compiled kernels need numba's compiler")
    assert done.stderr.count("\n") == 1
    assert Path(tmp_path / "labels.png").exists() is False
