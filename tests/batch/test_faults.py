"""Processes that die, disks that are full, and files that may not be read: nothing is lost, nothing is doubled."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from corpora import contents, folder_of, picture, shards_of
from pool_processes import die_of, limit_files, start_quickly
from test_run import rows_of

from pixtree.batch import Summary, open_corpus, run

PROGRAM = "import sys; from pixtree.batch import run; run('segment', sys.argv[1], sys.argv[2], workers=2, tokens=4)"


def start(photos, made):
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(photos), str(made)], start_new_session=True)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A corpus, what a driver left that was killed when its first part was finished, and whether its workers then ended."""
    folder = tmp_path_factory.mktemp("killed")
    shards, made = shards_of(folder / "shards", 12, 12), folder / "made"
    group = killed_after_a_part(shards, made)
    deadline = time.monotonic() + 30
    while _alive(group) and time.monotonic() < deadline:
        time.sleep(0.05)
    return shards, made, not _alive(group)


def killed_after_a_part(shards, made):
    """Start a driver, kill it when one more part is finished, and return the group of its processes."""
    process = start(shards, made)
    deadline, finished = time.monotonic() + 120, len(list(made.rglob("*.jsonl")))
    while len(list(made.rglob("*.jsonl"))) <= finished and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return process.pid


def _alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_end_with_their_driver(killed):
    _, _, ended = killed
    assert ended


def test_a_killed_driver_and_a_second_run_make_the_bytes_of_one_run(tmp_path, killed):
    shards, made, _ = killed
    killed_after_a_part(shards, made)
    assert run("segment", shards, made, workers=1, tokens=4).done == 144
    run("segment", shards, tmp_path / "whole", workers=1, tokens=4)
    assert contents(made) == contents(tmp_path / "whole")  # nothing of killed processes is left, either


class Deadly(NamedTuple):
    """A run over two parts of a folder, of which one has a picture that kills its process."""

    came: Summary
    rows: list[dict[str, Any]]
    beside: str  # the picture of the other part that is at work at every death
    seconds: float


@pytest.fixture(scope="module")
def deadly(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deadly")
    photos, made = folder_of(folder / "photos", 100), folder / "made"
    (photos / "class_0" / "deadly.png").write_bytes(picture(3))
    its, other = sorted(open_corpus(photos).parts, key=lambda part: "class_0/deadly.png" not in part.files)
    beside = other.files[0].removesuffix(".png")
    parts = made / "manifest" / "parts"
    with pytest.MonkeyPatch.context() as patch:
        start_quickly(patch, die_of, "class_0/deadly", beside, parts / f"{other.name}.at", parts / f"{its.name}.jsonl")
        begun = time.monotonic()
        came = run("segment", photos, made, workers=2, tokens=4)
    return Deadly(came, rows_of(made), beside, time.monotonic() - begun)


def test_a_picture_that_kills_its_process_twice_is_given_up_and_the_rest_is_done(deadly):
    assert (deadly.came.done, deadly.came.failed) == (100, 1)
    (bad,) = [row for row in deadly.rows if row["status"] == "failed"]
    assert bad == {
        "key": "class_0/deadly",
        "status": "failed",
        "error": "its process was killed twice while it worked on this image; look at the image",
    }


def test_a_picture_beside_one_that_kills_its_process_is_not_blamed(deadly):
    statuses = {row["key"]: row["status"] for row in deadly.rows}
    assert (statuses["class_0/deadly"], statuses[deadly.beside]) == ("failed", "done")
    assert deadly.seconds < 120  # every death was noticed while the neighbour was at work


def test_processes_that_die_before_they_come_to_a_picture_are_not_started_for_ever(tmp_path, monkeypatch):
    shards = shards_of(tmp_path / "shards", 2, 1)
    (tmp_path / "sitecustomize.py").write_text("import os, sys\nif '--multiprocessing-fork' in sys.argv:\n    os._exit(3)\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    with pytest.raises(RuntimeError, match=r"died 3 times before its first image of part photos-00[01]; free some memory"):
        run("segment", shards, tmp_path / "made", workers=2, tokens=4)


def test_a_full_disk_ends_the_run_with_a_sentence_and_no_half_file(tmp_path, monkeypatch):
    import errno

    import pixtree.batch.destination as destination

    photos, made = shards_of(tmp_path / "shards", 2, 3), tmp_path / "made"

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(destination, "_append", full)
        with pytest.raises(OSError, match="found it full; free some space"):
            run("segment", photos, made, workers=1, tokens=4)
        assert [path.name for path in made.iterdir()] == ["manifest"]
    assert run("segment", photos, made, workers=1, tokens=4).done == 6


@pytest.mark.parametrize("corpus", [folder_of, lambda path, count: shards_of(path, 1, count)])
def test_images_are_read_without_temporary_files(tmp_path, monkeypatch, corpus):
    """A full or missing TMPDIR does not matter."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    came = run("segment", corpus(tmp_path / "photos", 2), tmp_path / "made", workers=1, tokens=4)
    assert (came.done, came.failed) == (2, 0)


@contextmanager
def small_disk(size):
    """Files of this process grow no larger than this."""
    import resource  # which Windows lacks

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit_files(size)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_disk_that_fills_up_leaves_no_half_file_and_the_run_goes_on_with_more_room(tmp_path, monkeypatch, workers):
    shards, made, whole = shards_of(tmp_path / "shards", 2, 12), tmp_path / "made", tmp_path / "whole"
    run("segment", shards, whole, workers=1, tokens=4)  # first, so that no machine code is to be stored on the small disk
    start_quickly(monkeypatch, limit_files, 6000)
    with pytest.raises(OSError, match="found it full; free some space"), small_disk(6000) if workers == 1 else nullcontext():
        run("segment", shards, made, workers=workers, tokens=4)
    assert [path.name for path in made.iterdir()] == ["manifest"]
    assert list((made / "manifest" / "parts").glob("*.jsonl")) == []
    assert run("segment", shards, made, workers=1, tokens=4).done == 24
    assert contents(made) == contents(whole)


def test_a_worker_that_is_killed_loses_and_doubles_nothing(tmp_path, monkeypatch):
    shards, made, whole = shards_of(tmp_path / "shards", 4, 40), tmp_path / "made", tmp_path / "whole"
    killed, ended, started = [], threading.Event(), start_quickly(monkeypatch)

    def kill_one():
        while not killed and not ended.wait(0.001):
            if started and list(made.rglob("*.at")):
                os.kill(started[0].process.pid, signal.SIGKILL)
                killed.append(started[0].process.pid)

    killer = threading.Thread(target=kill_one)
    killer.start()
    came = run("segment", shards, made, workers=2, tokens=4)
    ended.set()
    killer.join()
    assert len(killed) == 1
    assert len(started) == 3  # two, and one in the place of the killed one
    assert (came.done, came.failed, came.whole) == (160, 0, True)
    run("segment", shards, whole, workers=1, tokens=4)
    assert contents(made) == contents(whole)


UNPRIVILEGED = """
import os, sys
from pixtree.batch import run
photos, made, closed = sys.argv[1:]
run('segment', photos, made + '_before', workers=1, tokens=4)  # loads what the user below may not
if os.geteuid() == 0:
    os.setgroups([])
    os.setegid(65534)
    os.seteuid(65534)
came = run('segment', photos, made, workers=1, tokens=4)
print(came.done, came.failed, flush=True)
run('segment', photos, closed, workers=1, tokens=4)
"""


class Unprivileged(NamedTuple):
    """A process without privileges, which may not read one of two photos, and may not write into `closed`."""

    done: subprocess.CompletedProcess
    made: Path
    closed: Path


@pytest.fixture(scope="module")
def unprivileged():
    with tempfile.TemporaryDirectory(prefix="pixtree-test-") as name:  # the superuser's own folders are closed to the process
        folder = Path(name)
        folder.chmod(0o777)
        photos, made, closed = folder_of(folder / "photos", 2), folder / "made", folder / "closed"
        (photos / "class_0" / "0000.png").chmod(0)
        closed.mkdir(mode=0o755)
        if os.geteuid() != 0:
            closed.chmod(0o555)
        words = [sys.executable, "-c", UNPRIVILEGED, *map(str, (photos, made, closed))]
        yield Unprivileged(subprocess.run(words, capture_output=True, text=True, check=False), made, closed)


def test_a_file_without_permission_is_a_row(unprivileged):
    assert unprivileged.done.stdout.split() == ["1", "1"], unprivileged.done.stderr
    (bad,) = [row for row in rows_of(unprivileged.made) if row["status"] == "failed"]
    assert "Permission denied" in bad["error"]


def test_a_destination_without_permission_is_one_sentence(unprivileged):
    assert unprivileged.done.stdout.split() == ["1", "1"], unprivileged.done.stderr
    assert unprivileged.done.returncode != 0
    assert "PermissionError" in unprivileged.done.stderr
    assert list(unprivileged.closed.rglob("*.png")) == []


TORN = (b"", b"not a picture", picture(5)[:80], picture(5, "JPEG")[:150], b"\x89PNG\r\n\x1a\n" + bytes(50))


@pytest.mark.parametrize("content", TORN)
def test_files_that_are_torn_or_no_pictures_are_rows(tmp_path, content):
    photos = folder_of(tmp_path / "photos", 1)
    (photos / "bad.png").write_bytes(content)
    came = run("segment", photos, tmp_path / "made", workers=1, tokens=4)
    assert (came.done, came.failed) == (1, 1)
    (bad,) = [row for row in rows_of(tmp_path / "made") if row["status"] == "failed"]
    assert bad["key"] == "bad"
    assert "bad.png" in bad["error"]


def test_a_file_that_disappears_is_a_row(tmp_path, monkeypatch):
    import pixtree.batch.driver as driver

    photos = folder_of(tmp_path / "photos", 3)
    opened = driver.open_corpus

    def and_removed(*words):
        corpus = opened(*words)
        (photos / "class_1" / "0001.png").unlink()
        return corpus

    monkeypatch.setattr(driver, "open_corpus", and_removed)
    came = run("segment", photos, tmp_path / "made", workers=1, tokens=4)
    assert (came.done, came.failed) == (2, 1)
    assert "No such file" in next(row["error"] for row in rows_of(tmp_path / "made") if row["status"] == "failed")
