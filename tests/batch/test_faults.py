"""Processes that die, disks that are full, and files that may not be read: nothing is lost, nothing is doubled."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from corpora import contents, folder_of, picture, shards_of
from test_run import rows_of

from pixtree.batch import run

PROGRAM = "import sys; from pixtree.batch import run; run('segment', sys.argv[1], sys.argv[2], workers=2, tokens=4)"


def start(photos, made):
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(photos), str(made)], start_new_session=True)


def test_a_killed_driver_and_a_second_run_make_the_bytes_of_one_run(tmp_path):
    shards, made, whole = shards_of(tmp_path / "shards", 12, 12), tmp_path / "made", tmp_path / "whole"
    for _ in range(2):
        process = start(shards, made)
        deadline, finished = time.monotonic() + 120, len(list(made.rglob("*.jsonl")))
        while len(list(made.rglob("*.jsonl"))) <= finished and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert run("segment", shards, made, workers=1, tokens=4).done == 144
    run("segment", shards, whole, workers=1, tokens=4)
    assert contents(made) == contents(whole)  # nothing of killed processes is left, either


def test_workers_end_with_their_driver(tmp_path):
    process = start(shards_of(tmp_path / "shards", 6, 40), tmp_path / "made")
    while not list((tmp_path / "made").rglob("*.at")):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 30
    while _alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(process.pid)


def _alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_picture_that_kills_its_process_twice_is_given_up_and_the_rest_is_done(tmp_path, monkeypatch):
    photos = folder_of(tmp_path / "photos", 130)
    (photos / "class_0" / "deadly.png").write_bytes(picture(3))
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal\n"
        "def deadly(original):\n"
        "    def work(picture, function):\n"
        "        if picture.key.endswith('deadly'):\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return original(picture, function)\n"
        "    return work\n"
        "import pixtree.batch.work as module\n"
        "module.worked_on = deadly(module.worked_on)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    came = run("segment", photos, tmp_path / "made", workers=2, tokens=4)
    assert (came.done, came.failed) == (130, 1)
    (bad,) = [row for row in rows_of(tmp_path / "made") if row["status"] == "failed"]
    assert bad == {
        "key": "class_0/deadly",
        "status": "failed",
        "error": "its process was killed twice while it worked on this image; look at the image",
    }


def test_a_picture_beside_one_that_kills_its_process_is_not_blamed(tmp_path, monkeypatch):
    shards, made = shards_of(tmp_path / "shards", 2, 1), tmp_path / "made"
    (tmp_path / "sitecustomize.py").write_text(
        "import os, pathlib, signal, time\n"
        f"parts_of = pathlib.Path({str(made)!r}) / 'manifest' / 'parts'\n"
        "beside = parts_of / 'photos-001.at'\n"
        "def until(holds):\n"
        "    deadline = time.monotonic() + 120\n"
        "    while not holds() and time.monotonic() < deadline:\n"
        "        time.sleep(0.01)\n"
        "def slow(original):\n"
        "    def work(picture, function):\n"
        "        if picture.key == '000000':\n"
        "            until(lambda: beside.is_file() and '001000' in beside.read_text())\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        until((parts_of / 'photos-000.jsonl').is_file)\n"  # it is at work whenever its neighbour dies
        "        return original(picture, function)\n"
        "    return work\n"
        "import pixtree.batch.work as module\n"
        "module.worked_on = slow(module.worked_on)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    begun = time.monotonic()
    run("segment", shards, made, workers=2, tokens=4)
    assert {row["key"]: row["status"] for row in rows_of(made)} == {"000000": "failed", "001000": "done"}
    assert time.monotonic() - begun < 120  # every death was noticed while the neighbour was at work


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


LIMITED = """
import resource, sys
from pixtree.batch import run
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
run('segment', sys.argv[1], sys.argv[2], workers=int(sys.argv[4]), tokens=4)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_disk_that_fills_up_leaves_no_half_file_and_the_run_goes_on_with_more_room(tmp_path, workers):
    shards, made, whole = shards_of(tmp_path / "shards", 2, 12), tmp_path / "made", tmp_path / "whole"
    words = [sys.executable, "-c", LIMITED, str(shards), str(made), "6000", str(workers)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "found it full; free some space" in done.stderr
    assert [path.name for path in made.iterdir()] == ["manifest"]
    assert list((made / "manifest" / "parts").glob("*.jsonl")) == []
    assert run("segment", shards, made, workers=1, tokens=4).done == 24
    run("segment", shards, whole, workers=1, tokens=4)
    assert contents(made) == contents(whole)


def test_a_worker_that_is_killed_loses_and_doubles_nothing(tmp_path):
    shards, made, whole = shards_of(tmp_path / "shards", 8, 40), tmp_path / "made", tmp_path / "whole"
    process = start(shards, made)
    driver, killed = psutil.Process(process.pid), 0
    while killed == 0 and process.poll() is None:
        busy = list(made.rglob("*.at"))
        workers = [one for one in driver.children() if "spawn_main" in " ".join(one.cmdline())] if busy else []
        if workers:
            workers[0].send_signal(signal.SIGKILL)
            killed += 1
        time.sleep(0.01)
    assert process.wait() == 0
    assert killed == 1
    run("segment", shards, whole, workers=1, tokens=4)
    assert contents(made) == contents(whole)


UNPRIVILEGED = """
import os, sys
from pixtree.batch import run
run('segment', sys.argv[1], sys.argv[2] + '_before', workers=1, tokens=4)  # loads what the user below may not
if os.geteuid() == 0:
    os.setgroups([])
    os.setegid(65534)
    os.seteuid(65534)
came = run('segment', sys.argv[1], sys.argv[2], workers=1, tokens=4)
print(came.done, came.failed)
"""


@pytest.fixture
def shared_folder():
    """A folder that everyone may enter: the superuser's own are closed to the process without privileges."""
    with tempfile.TemporaryDirectory(prefix="pixtree-test-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


def unprivileged(photos, made):
    return subprocess.run([sys.executable, "-c", UNPRIVILEGED, str(photos), str(made)], capture_output=True, text=True, check=False)


def test_a_file_without_permission_is_a_row(shared_folder):
    photos = folder_of(shared_folder / "photos", 2)
    (photos / "class_0" / "0000.png").chmod(0)
    done = unprivileged(photos, shared_folder / "made")
    assert done.stdout.split() == ["1", "1"], done.stderr
    (bad,) = [row for row in rows_of(shared_folder / "made") if row["status"] == "failed"]
    assert "Permission denied" in bad["error"]
    (photos / "class_0" / "0000.png").chmod(0o644)


def test_a_destination_without_permission_is_one_sentence(shared_folder):
    photos, made = folder_of(shared_folder / "photos", 2), shared_folder / "made"
    made.mkdir(mode=0o755)
    if os.geteuid() != 0:
        made.chmod(0o555)
    done = unprivileged(photos, made)
    assert done.returncode != 0
    assert "PermissionError" in done.stderr
    assert list(made.rglob("*.png")) == []


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
