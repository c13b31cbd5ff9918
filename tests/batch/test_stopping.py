"""Processes that hang, are stopped or are told to end: they are named, given up, or gone in seconds, and leave nothing."""

import json
import logging
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from corpora import rows_in, write_shard

from pixtree.batch import engines, run

# Spawned processes know the task from here. An image that is called slow takes a minute, and one called stopped stops its process.
TASK = """
import sys
if '--multiprocessing-fork' in sys.argv or '-c' in sys.argv:
    import hashlib, os, signal, time
    import pixtree.batch.work as work
    def stub(image, **_):
        if "slow" in image.name:
            time.sleep(60)
        if "stopped" in image.name:
            os.kill(os.getpid(), signal.SIGSTOP)
        return work.Made({".txt": hashlib.sha256(image.read()).hexdigest().encode()}, {})
    work.TASKS["stub"] = ({}, stub)
"""
PROGRAM = "import sys; from pixtree.cli.errors import end_in_order; end_in_order(); from pixtree.batch import run\n"
PROGRAM += "run('stub', sys.argv[1], sys.argv[2], workers=2, to='webdataset')\n"


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder for images, and a task that all processes know."""
    from pixtree.batch import work

    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(TASK)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), *sys.path]))
    monkeypatch.setitem(work.TASKS, "stub", ({}, print))  # other processes run it
    (tmp_path / "photos").mkdir()
    return tmp_path / "photos"


def write(photos, *names):
    for name in names:
        (photos / f"{name}.png").write_bytes(name.encode())


@pytest.mark.parametrize("name", ["slow", "stopped"])
def test_an_image_that_takes_longer_than_the_timeout_is_given_up_and_the_rest_is_done(photos, tmp_path, name):
    write(photos, "a", name, "z")
    begun = time.monotonic()
    came = run("stub", photos, tmp_path / "made", workers=1, timeout=0.5)
    assert (came.done, came.failed) == (2, 1)
    assert time.monotonic() - begun < 45
    (bad,) = [row for row in rows_in(tmp_path / "made") if row["status"] == "failed"]
    assert bad == {
        "key": name,
        "status": "failed",
        "error": "it took longer than the timeout; allow more time or look at the image",
    }


def test_a_process_that_is_stopped_is_named(photos, tmp_path, monkeypatch, caplog):
    write(photos, "a", "stopped")
    monkeypatch.setattr(engines, "PATIENCE", 0.5)
    with caplog.at_level(logging.WARNING, "pixtree"):
        run("stub", photos, tmp_path / "made", workers=1, timeout=3)
    words = [record.getMessage() for record in caplog.records if "'stopped'" in record.getMessage()]
    assert len(words) == 1
    assert "which is stopped, has been at 'stopped' of part part-0 for" in words[0]


def test_a_timeout_is_a_number_of_seconds_of_the_pool(photos, tmp_path):
    write(photos, "a")
    for words in ({"timeout": 0}, {"timeout": 5, "engine": "ray"}):
        with pytest.raises(ValueError, match="timeout= is a number of seconds"):
            run("stub", photos, tmp_path / "made", **words)


def _started(photos, made):
    """A driver whose two processes are at slow images."""
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(photos), str(made)], start_new_session=True)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        traces = [path.read_text() for path in (made / "manifest" / "parts").glob("*.at")] if made.exists() else []
        if len([text for text in traces if text.startswith("[") and "slow" in json.loads(text)[-1]]) == 2:
            break
        time.sleep(0.05)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_and_its_processes_within_five_seconds_and_leaves_no_temporary_file(photos, tmp_path, number):
    for count in range(2):
        write_shard(photos.parent / "shards" / f"{count}.tar", [(f"{count}.png", b"1"), (f"slow{count}.png", b"2")])
    made = tmp_path / "made"
    process = _started(photos.parent / "shards", made)
    children = psutil.Process(process.pid).children(recursive=True)
    begun = time.monotonic()
    process.send_signal(number)
    code = process.wait(30)
    assert time.monotonic() - begun < 5
    assert code != 0
    _, alive = psutil.wait_procs(children, timeout=3)
    assert alive == []
    assert list(made.rglob(".pixtree-*")) == []
    assert list((made / "manifest").glob("lock*")) == []
