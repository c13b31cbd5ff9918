"""A run that goes on trusts nothing: what changed, is damaged or is gone is made again, and another source is refused."""

import json
import os
import subprocess
import sys
import time

import pytest
from corpora import contents, register, rows_in, statuses, write_shard

from pixtree.batch import Partitioned, run


@pytest.fixture(autouse=True)
def _stub(monkeypatch):
    register(monkeypatch)


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "photos").mkdir()
    for name in ("a.png", "b.png", "c.png"):
        (tmp_path / "photos" / name).write_bytes(name.encode())
    return tmp_path / "photos"


@pytest.fixture(params=["folder", "webdataset", "parquet"])
def made(request, photos, tmp_path):
    """A finished run."""
    run("stub", photos, tmp_path / "made", to=request.param, workers=1)
    return tmp_path / "made"


def again(photos, made):
    """Run again; the number of parts that were kept."""
    return run("stub", photos, made, to=json.loads((made / "manifest" / "plan.json").read_text())["to"], workers=1).parts_before


def kind_of(made):
    return json.loads((made / "manifest" / "plan.json").read_text())["to"]


def test_a_finished_run_is_kept(photos, made):
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*.t*")}
    assert again(photos, made) == 1
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*.t*")} == before


def test_a_changed_image_is_made_again(photos, made):
    first = rows_in(made)[0]
    (photos / f"{first['key']}.png").write_bytes(b"other")  # of the same size as before
    assert again(photos, made) == 0
    assert rows_in(made)[0]["sha256"] != first["sha256"]


def test_an_image_of_the_same_content_is_kept_whatever_its_time(photos, made):
    os.utime(photos / "b.png", (1, 1))
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*.t*")}
    assert again(photos, made) == 1
    assert again(photos, made) == 1
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*.t*")} == before


def test_a_renamed_image_is_made_again(photos, made):
    (photos / "b.png").rename(photos / "d.png")
    assert again(photos, made) == 0
    assert statuses(made) == dict.fromkeys("acd", "done")


def results_of(made):
    return [path for path in made.iterdir() if path.is_file()]


@pytest.mark.parametrize("damage", ["deleted", "empty", "cut", "zeroed", "one bit"])
def test_a_result_that_is_gone_cut_or_changed_is_made_again(photos, made, damage):
    before = contents(made)
    result = results_of(made)[0]
    content = result.read_bytes()
    one_bit = bytes([content[0] ^ 1]) + content[1:]
    damaged = {"empty": b"", "cut": content[:-1], "zeroed": bytes(len(content)), "one bit": one_bit}
    if damage == "deleted":
        result.unlink()
    else:
        result.write_bytes(damaged[damage])
    assert again(photos, made) == 0
    assert contents(made) == before


@pytest.mark.parametrize("to", ["folder", "webdataset"])
def test_a_result_that_is_now_a_pipe_is_reported_or_made_again_without_waiting_for_its_writer(photos, tmp_path, to):
    run("stub", photos, tmp_path / "made", to=to, workers=1)
    result = results_of(tmp_path / "made")[0]
    result.unlink()
    os.mkfifo(result)
    if to == "folder":
        assert run("stub", photos, tmp_path / "made", to=to, workers=1).failed == 1
    else:
        with pytest.raises(ValueError, match="an output is a regular file"):
            run("stub", photos, tmp_path / "made", to=to, workers=1)


FILES = ["manifest/parts/part-0.jsonl", "manifest/parts/part-0.json", "manifest/plan.json", "manifest/manifest.jsonl"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["torn", "zeroed", "empty", "gone", "text", "nested"])
def test_a_damaged_manifest_or_plan_is_repaired(photos, tmp_path, name, damage):
    run("stub", photos, tmp_path / "made", workers=1)
    before, path = contents(tmp_path / "made"), tmp_path / "made" / name
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        lines = content.split(b"\n")
        cut = b"\n".join(lines[: len(lines) // 2]) + b"\n"  # at the end of a line: JSON lines stay whole
        others = {"zeroed": bytes(len(content)), "empty": b"", "text": b"hello", "nested": b"[" * 200_000}
        path.write_bytes({"torn": cut, **others}[damage])
    assert run("stub", photos, tmp_path / "made", workers=1).done == 3
    assert contents(tmp_path / "made") == before


def test_a_plan_with_one_wrong_letter_is_repaired(photos, tmp_path):
    run("stub", photos, tmp_path / "made", workers=1)
    before, path = contents(tmp_path / "made"), tmp_path / "made" / "manifest" / "plan.json"
    path.write_text(path.read_text().replace('"parts": 1', '"parts": 7'))
    run("stub", photos, tmp_path / "made", workers=1)
    assert contents(tmp_path / "made") == before


SEAL = {"files": None, "again": 0, "taken": 1, "result": None, "sha256": [], "plan": {}}


@pytest.mark.parametrize("name", SEAL)
def test_a_seal_with_another_value_is_repaired(photos, tmp_path, name):
    run("stub", photos, tmp_path / "made", workers=1)
    before, path = contents(tmp_path / "made"), tmp_path / "made" / FILES[1]
    path.write_text(json.dumps({**json.loads(path.read_text()), name: SEAL[name]}))
    assert run("stub", photos, tmp_path / "made", workers=1).parts_before == 0
    assert contents(tmp_path / "made") == before


@pytest.mark.parametrize("parts", [0, -5, 10**12])
def test_a_plan_with_a_senseless_number_of_parts_is_replaced(photos, tmp_path, parts):
    run("stub", photos, tmp_path / "made", workers=1)
    before, path = contents(tmp_path / "made"), tmp_path / "made" / "manifest" / "plan.json"
    plan = {**json.loads(path.read_text()), "parts": parts}
    del plan["check"]
    path.write_text(json.dumps(plan))
    run("stub", photos, tmp_path / "made", workers=1)
    assert contents(tmp_path / "made") == before


def test_another_source_is_refused(photos, tmp_path):
    run("stub", photos, tmp_path / "made", workers=1)
    photos.rename(tmp_path / "others")
    with pytest.raises(ValueError, match=r"was begun with source .*photos', got .*others'; choose another folder"):
        run("stub", tmp_path / "others", tmp_path / "made", workers=1)


def test_a_changed_shard_is_made_again(tmp_path):
    shard = write_shard(tmp_path / "in" / "x.tar", [("a.png", b"1")])
    run("stub", tmp_path / "in", tmp_path / "made", workers=1)
    write_shard(shard, [("a.png", b"2")])
    assert run("stub", tmp_path / "in", tmp_path / "made", workers=1).parts_before == 0


def test_folders_of_version_0_2_are_read_and_made_again(photos, tmp_path):
    made = tmp_path / "made"
    run("stub", photos, made, workers=1)
    before = contents(made)
    plan = json.loads((made / "manifest" / "plan.json").read_text())
    old = {name: plan[name] for name in ("task", "options", "kind", "to", "version", "parts")}
    (made / "manifest" / "plan.json").write_text(json.dumps({**old, "task": "segment"}))
    rows = "".join(json.dumps({"key": key, "status": "done", "files": [".txt"]}) + "\n" for key in "abc")
    for name in FILES[::3]:
        (made / name).write_text(rows)
    (made / FILES[1]).unlink()
    assert len(Partitioned(photos, made)) == 3
    (made / "manifest" / "plan.json").write_text(json.dumps(old))
    assert run("stub", photos, made, workers=1).parts_before == 0
    assert contents(made) == before


HOLDER = "import sys, time; from pathlib import Path; from pixtree.batch.lock import holding\n"
HOLDER += "with holding(Path(sys.argv[1]), (int(sys.argv[2]), int(sys.argv[3]))):\n    print('held', flush=True); time.sleep(600)\n"


@pytest.fixture
def holder():
    """Start a process that holds a destination."""
    started = []

    def start(made, *shard):
        (made / "manifest").mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen([sys.executable, "-c", HOLDER, made / "manifest", *map(str, shard)], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"held\n"
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_second_run_into_a_folder_is_told_who_holds_it(photos, tmp_path, holder):
    process = holder(tmp_path / "made", 0, 1)
    with pytest.raises(
        OSError, match=rf"^one run at a time writes to .*, which process {process.pid} on .* since .* does; wait for it"
    ):
        run("stub", photos, tmp_path / "made", workers=1)
    process.kill()
    process.wait()
    assert run("stub", photos, tmp_path / "made", workers=1).done == 3  # a dead process holds nothing
    assert list((tmp_path / "made" / "manifest").glob("lock*")) == []


def test_shards_of_a_run_share_a_folder_but_not_a_shard(tmp_path, holder):
    for name in "xy":
        write_shard(tmp_path / "in" / f"{name}.tar", [(f"{name}.png", b"1")])
    process = holder(tmp_path / "made", 0, 2)
    with pytest.raises(OSError, match="one run at a time"):
        run("stub", tmp_path / "in", tmp_path / "made", workers=1)
    with pytest.raises(OSError, match="one run at a time"):
        run("stub", tmp_path / "in", tmp_path / "made", workers=1, shard=(0, 2))
    with pytest.raises(OSError, match="one run at a time"):  # the first of three is also the first of two
        run("stub", tmp_path / "in", tmp_path / "made", workers=1, shard=(0, 3))
    assert run("stub", tmp_path / "in", tmp_path / "made", workers=1, shard=(1, 2)).done == 1
    process.kill()
    process.wait()
    time.sleep(0.1)
    assert run("stub", tmp_path / "in", tmp_path / "made", workers=1, shard=(0, 2)).whole
    assert list((tmp_path / "made" / "manifest").glob("lock*")) == []
