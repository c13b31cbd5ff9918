"""Ray makes the same bytes as the pool."""

import importlib.util
import io
import os
import signal
import tarfile
import threading
import time

import numpy as np
import psutil
import pytest
import torch
from corpora import contents, shards_of
from PIL import Image
from test_run import rows_of

import pixtree
from pixtree.batch import ray_dataset, run

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")


@pytest.fixture(scope="module")
def cluster():
    """A local cluster of two workers."""
    import ray  # imported late: collection need not wait for it

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


def test_ray_makes_the_bytes_of_the_pool(tmp_path, cluster):
    shards, one, other = shards_of(tmp_path / "shards", 3, 3), tmp_path / "pool", tmp_path / "ray"
    run("segment", shards, one, workers=1, tokens=4)
    came = run("segment", shards, other, engine="ray", workers=2, tokens=4)
    assert (came.done, came.failed, came.whole) == (9, 0, True)
    assert contents(one) == contents(other)


def test_what_ends_a_run_on_ray_is_one_line(tmp_path, cluster):
    shards = shards_of(tmp_path / "shards", 1, 1)
    (tmp_path / "made" / "photos-000.tar").mkdir(parents=True)  # in the place of the results
    with pytest.raises(OSError, match=r"^an output is a file, .* is a folder; add a file name$"):
        run("segment", shards, tmp_path / "made", engine="ray", workers=2, tokens=4)


@pytest.mark.parametrize("to", ["webdataset", "parquet"])
def test_partitions_are_a_ray_data_set(tmp_path, cluster, to):
    shards = shards_of(tmp_path / "shards", 2, 3)
    run("segment", shards, tmp_path / "made", to=to, workers=1, tokens=4)
    rows = ray_dataset(shards, tmp_path / "made").take_all()
    assert sorted(row["key"] for row in rows) == [f"{shard:03d}{number:03d}" for shard in range(2) for number in range(3)]
    for row in rows:
        np.testing.assert_array_equal(row["labels"], pixtree.segment(torch.from_numpy(row["image"]), tokens=4).numpy())


def test_a_worker_of_ray_that_is_killed_loses_and_doubles_nothing(tmp_path, cluster):
    shards, one, other = shards_of(tmp_path / "shards", 6, 30), tmp_path / "pool", tmp_path / "ray"
    run("segment", shards, one, workers=1, tokens=4)
    killed = []

    def kill_once():
        deadline = time.monotonic() + 120
        while not killed and time.monotonic() < deadline:
            if list(other.rglob("*.at")):  # a part is being worked on
                killed.extend(process.pid for process in workers_of_ray() if not killed)
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    killer = threading.Thread(target=kill_once)
    killer.start()
    came = run("segment", shards, other, engine="ray", workers=2, tokens=4)
    killer.join()
    assert killed
    assert (came.done, came.failed, came.whole) == (180, 0, True)
    assert contents(one) == contents(other)


def test_a_picture_that_kills_its_process_twice_is_given_up_on_ray_too(tmp_path, cluster):
    shards, made = shards_of(tmp_path / "shards", 1, 2), tmp_path / "made"
    with tarfile.open(shards / "photos-000.tar", "a") as archive:
        stream = io.BytesIO()
        Image.effect_noise((2000, 2000), 60).save(stream, "PNG")  # takes long enough to be killed
        member = tarfile.TarInfo("deadly.png")
        member.size = stream.tell()
        stream.seek(0)
        archive.addfile(member, stream)
    trace, ended = made / "manifest" / "parts" / "photos-000.at", threading.Event()

    def kill_twice():
        seen = []  # a trace that is still that of a killed process is no reason to kill the next one
        while len(seen) < 2 and not ended.wait(0.01):
            text = trace.read_text() if trace.is_file() else ""
            if text.endswith('"deadly"]') and text not in seen:
                seen.append(text)
                for process in workers_of_ray():
                    process.kill()

    killer = threading.Thread(target=kill_twice)
    killer.start()
    came = run("segment", shards, made, engine="ray", workers=2, tokens=4)
    ended.set()
    killer.join()
    assert (came.done, came.failed) == (2, 1)
    (bad,) = [row for row in rows_of(made) if row["status"] == "failed"]
    assert bad["key"] == "deadly"
    assert "killed twice" in bad["error"]


def workers_of_ray():
    """The processes of this test's cluster that are doing a task."""
    below = psutil.Process().children(recursive=True)
    return [process for process in below if process.status() != psutil.STATUS_ZOMBIE and "ray::Map" in " ".join(process.cmdline())]
