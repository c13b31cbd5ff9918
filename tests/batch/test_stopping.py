"""Processes that hang, are stopped or are told to end: they are named, given up, or gone in seconds, and leave nothing."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, NamedTuple

import psutil
import pytest
from corpora import rows_in, write_shard

from pixtree.batch import Summary, engines, run, work

# Spawned processes know the task from here. An image that is called slow takes a minute, and one called stopped stops its process.
TASK = """
import sys
if '--multiprocessing-fork' in sys.argv or '-c' in sys.argv:
    import hashlib, os, signal
    import pixtree.batch.work as work
    def stub(image, **_):
        if "slow" in image.name:
            hashlib.pbkdf2_hmac("sha256", b"", b"", 10**8)  # like a kernel, it cannot be interrupted
        if "stopped" in image.name:
            os.kill(os.getpid(), signal.SIGSTOP)
        return work.Made({".txt": hashlib.sha256(image.read()).hexdigest().encode()}, {})
    work.TASKS["stub"] = ({}, stub)
"""
PROGRAM = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # which a shell may have ignored
PROGRAM += "from pixtree.cli.errors import end_in_order; end_in_order(); from pixtree.batch import run\n"
PROGRAM += "run('stub', sys.argv[1], sys.argv[2], workers=1, timeout=eval(sys.argv[3]))\n"


def task_known_to_all(folder, patch):
    """A folder for images, and the task in all processes."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(TASK)
    patch.setenv("PYTHONPATH", os.pathsep.join([str(folder / "site"), *sys.path]))
    patch.setitem(work.TASKS, "stub", ({}, print))  # other processes run it
    (folder / "photos").mkdir()
    return folder / "photos"


class Given(NamedTuple):
    """A run with an image that takes too long and one that stops its process."""

    came: Summary
    rows: dict[str, dict[str, Any]]
    warnings: list[str]
    seconds: float


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    folder = tmp_path_factory.mktemp("given")
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    with pytest.MonkeyPatch.context() as patch:
        photos = task_known_to_all(folder, patch)
        for name in ("a", "slow", "stopped", "z"):
            (photos / f"{name}.png").write_bytes(name.encode())
        patch.setattr(engines, "PATIENCE", 0.5)
        engines.logger.addHandler(handler)
        begun = time.monotonic()
        came = run("stub", photos, folder / "made", workers=1, timeout=2)
        engines.logger.removeHandler(handler)
    return Given(came, {row["key"]: row for row in rows_in(folder / "made")}, messages, time.monotonic() - begun)


def test_images_that_take_longer_than_the_timeout_are_given_up_and_the_rest_is_done(given):
    assert (given.came.done, given.came.failed) == (2, 2)
    assert given.seconds < 50  # an image that is slow takes a minute
    for name in ("slow", "stopped"):
        reason = "it took longer than the timeout; allow more time or look at the image"
        assert given.rows[name] == {"key": name, "status": "failed", "error": reason}


def test_a_process_that_is_stopped_is_named_once(given):
    (words,) = [message for message in given.warnings if "'stopped'" in message]
    assert "which is stopped, has been at 'stopped' of part part-0 for" in words


def test_a_timeout_is_a_number_of_seconds_of_the_pool(tmp_path, monkeypatch):
    photos = task_known_to_all(tmp_path, monkeypatch)
    for words in ({"timeout": 0}, {"timeout": 5, "engine": "ray"}):
        with pytest.raises(ValueError, match="timeout= is a number of seconds"):
            run("stub", photos, tmp_path / "made", **words)


def _started(shards, made, timeout):
    """A driver whose process, or which itself, is at the slow image."""
    words = [sys.executable, "-c", PROGRAM, str(shards), str(made), str(timeout)]
    process = subprocess.Popen(words, start_new_session=True)
    trace, deadline = made / "manifest" / "parts" / "x.at", time.monotonic() + 120
    while time.monotonic() < deadline and not (trace.is_file() and '"slow"' in trace.read_text()):
        time.sleep(0.05)
    return process


@pytest.mark.parametrize(("number", "timeout"), [(signal.SIGINT, 100), (signal.SIGTERM, 100), (signal.SIGINT, None)])
def test_a_signal_ends_a_run_within_five_seconds_and_leaves_no_file(request, tmp_path, monkeypatch, number, timeout):
    task_known_to_all(tmp_path, monkeypatch)
    write_shard(tmp_path / "shards" / "x.tar", [("a.png", b"1"), ("slow.png", b"2")])
    made = tmp_path / "made"
    process = _started(tmp_path / "shards", made, timeout)
    request.addfinalizer(process.kill)
    assert list(made.rglob(".pixtree-*"))
    children = psutil.Process(process.pid).children(recursive=True)
    begun = time.monotonic()
    process.send_signal(number)
    code = process.wait(30)
    assert time.monotonic() - begun < 5
    assert code != 0
    _, alive = psutil.wait_procs(children, timeout=3)
    assert [one for one in alive if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []
    assert list(made.rglob(".pixtree-*")) == []
    assert list((made / "manifest").glob("lock*")) == []


@pytest.fixture
def interruptible():
    """SIGINT raises KeyboardInterrupt, also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_run_that_was_interrupted_in_its_own_process_goes_on(tmp_path, monkeypatch):
    began, release, given_up = threading.Event(), threading.Event(), threading.Event()

    def stub(image):
        if "b" in image.name and not given_up.is_set():
            began.set()
            release.wait(60)
        return work.Made({".txt": image.read()}, {})

    monkeypatch.setitem(work.TASKS, "stub", ({}, stub))
    monkeypatch.setattr(engines, "GRACE", 0.2)
    (tmp_path / "photos").mkdir()
    for name in "abc":
        (tmp_path / "photos" / f"{name}.png").write_bytes(name.encode())
    main = threading.main_thread().ident
    threading.Thread(target=lambda: began.wait(60) and signal.pthread_kill(main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run("stub", tmp_path / "photos", tmp_path / "made", workers=1)
    given_up.set()
    release.set()  # the image that nobody waits for is done now, and nothing is written
    time.sleep(0.2)
    assert sorted(path.name for path in (tmp_path / "made").glob("*.txt")) == ["a.txt"]
    assert run("stub", tmp_path / "photos", tmp_path / "made", workers=1).done == 3
