"""`make records`: every record with its state, and the quick ones measured again."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from pixtree.evaluation.sources import State, script_of, source_hashes

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "benchmarks" / "records.py"))
Entry, entry, obstacle, arguments, line = (SCRIPT[name] for name in ("Entry", "entry", "obstacle", "arguments", "line"))
COMMITTED = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.fixture
def root(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "quick.py").write_text('parser.add_argument("-o", "--output")\n')
    return tmp_path


def written(root, command="python benchmarks/quick.py --count 3", **more):
    path = root / "quick.json"
    path.write_text(json.dumps({"command": command, "date": "2026-01-02", **more}))
    return entry(path, root)


def test_a_record_is_listed_with_its_state_minutes_and_command(root):
    fresh = written(root, cpu_minutes=0.3, source_hashes=source_hashes("python benchmarks/quick.py", root))
    assert " ".join(line(fresh, {}).split()) == "fresh quick 0.3 min 2026-01-02 python benchmarks/quick.py --count 3"
    (root / "benchmarks" / "quick.py").write_text("other = 1\n")
    stale = line(written(root, cpu_minutes=0.3, source_hashes={"benchmarks": "0" * 12}), {})
    assert stale.startswith("stale")
    assert "(benchmarks)" in stale
    assert "is measured again" in stale
    assert line(written(root), {}).split()[:3] == ["unknown", "quick", "?"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"state": State("unknown")}, None),
        ({"state": State("fresh")}, "fresh"),
        ({"minutes": 30.0}, "more than 5 minutes"),
        ({"minutes": None}, "unknown time"),
        ({"name": "speed"}, "quiet machine"),
        ({"command": "python benchmarks/quick.py PHOTOS $PIXTREE_DATA/a"}, "needs PHOTOS"),
        ({"command": "PIXTREE_ICONS=... python benchmarks/quick.py"}, "needs a folder"),
        ({"command": "python benchmarks/quick.py; the same with --b"}, "needs two runs"),
        ({"needs_data": True}, "needs PIXTREE_DATA"),
    ],
)
def test_quick_records_that_are_not_fresh_are_measured_again(change, reason):
    settings = {
        "name": "quick",
        "command": "python benchmarks/quick.py",
        "date": "2026-01-02",
        "minutes": 1.0,
        "state": State("stale"),
    }
    one = Entry(**{**settings, "needs_data": False, "takes_output": True, **change})
    found = obstacle(one, {})
    assert found is None if reason is None else reason in found


def test_data_named_by_the_environment_removes_the_obstacle(root):
    one = written(root, "python benchmarks/quick.py $PIXTREE_DATA/set", cpu_minutes=1.0)
    assert obstacle(one, {}) == "needs PIXTREE_DATA"
    assert obstacle(one, {"PIXTREE_DATA": "/some where"}) is None
    output = ["-o", "benchmarks/results/quick.json"]
    assert arguments(one, {"PIXTREE_DATA": "/some where"}) == [sys.executable, "benchmarks/quick.py", "/some where/set", *output]


def test_an_output_that_a_command_names_is_not_named_twice(root):
    one = written(root, "python benchmarks/quick.py -o benchmarks/results/quick.json")
    assert arguments(one, {}) == [sys.executable, "benchmarks/quick.py", "-o", "benchmarks/results/quick.json"]
    one = written(root, "python benchmarks/quick.py --all -o quick.json")  # a short name is that of the record, too
    assert arguments(one, {}) == [sys.executable, "benchmarks/quick.py", "--all", "-o", "benchmarks/results/quick.json"]
    started = arguments(written(root, "chrt -r 1 python benchmarks/quick.py"), {})
    assert started[:4] == ["chrt", "-r", "1", sys.executable]


def test_every_committed_record_comes_from_a_script_that_is_there():
    assert len(COMMITTED) > 20
    lost = [path.stem for path in COMMITTED if script_of(json.loads(path.read_text(encoding="utf-8"))["command"]) is None]
    assert lost == []
    assert {entry(path).state.word for path in COMMITTED} <= {"fresh", "stale", "unknown"}


def test_commands_name_data_below_the_folder_of_data():
    sets = ("bsds500", "diffvg5", "camvid", "imagenet_sample", "imagenet_val", "imagenette224", "ecssd", "pets_salient", "weights")
    commands = {path.stem: json.loads(path.read_text(encoding="utf-8"))["command"].split() for path in COMMITTED}
    assert [(name, word) for name, words in commands.items() for word in words if word.split("/")[0] in sets] == []
