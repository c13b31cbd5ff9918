"""The mutants of `make mutate`: small changes that keep the lines of a file, and leave texts and types alone."""

import ast
import json
import os
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks" / "mutation"
SOURCE = '''"""A docstring with 1 + 1."""

from pixtree.runtime.jit import kernel

LIMIT = 2.5  # a > b
Kind = int | None


def chosen(values: list[int], least: int = 0) -> list[int]:
    """Not 3 - 1."""
    if least < 0:
        raise ValueError(f"expected {least + 1} or more")
    return [
        value * 2
        for value in values
        if value >= least and not value == 7
    ]


@kernel
def counted(values):
    total = 0
    for value in values:
        total += value
    return total
'''


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    names = ("mutants", "reach", "recording", "overlay", "processes")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    modules = {name: __import__(name) for name in names}
    yield modules
    for name in names:
        sys.modules.pop(name, None)


def test_every_mutant_is_another_program_with_the_same_lines(tool):
    mutants = tool["mutants"].mutants_of("a.py", SOURCE)
    assert len(mutants) > 10
    for one in mutants:
        changed = one.applied(SOURCE)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))
        assert changed.count("\n") == SOURCE.count("\n")
        assert one.before in SOURCE
    assert mutants == tool["mutants"].mutants_of("a.py", SOURCE)
    assert len({one.key for one in mutants}) == len(mutants)


def test_texts_types_and_messages_stay(tool):
    for one in tool["mutants"].mutants_of("a.py", SOURCE):
        changed = one.applied(SOURCE)
        for kept in ('"""A docstring with 1 + 1."""', "Kind = int | None", "least: int =", '"""Not 3 - 1."""', "@kernel"):
            assert kept in changed
        assert "raise" not in changed or "{least + 1}" in changed


@pytest.mark.parametrize(
    ("operator", "after"),
    [
        ("comparison", "if value >= least and not (value != 7)"),
        ("arithmetic", "(value / 2)"),
        ("arithmetic", "total -= value"),
        ("constant", "LIMIT = 5.0  # a > b"),
        ("constant", "least: int = 1) "),
        ("boolean", "value >= least or not value == 7"),
        ("boolean", "if value >= least and (value == 7)"),
        ("negated condition", "if not (least < 0):"),
        ("returned None", "return None"),
        ("removed statement", "pass"),
    ],
)
def test_there_is_a_mutant_of_every_kind(tool, operator, after):
    changed = [one.applied(SOURCE) for one in tool["mutants"].mutants_of("a.py", SOURCE) if one.operator == operator]
    assert any(after in one for one in changed)


def test_machine_code_is_stale_only_where_a_change_reaches_it(tool, tmp_path):
    (tmp_path / "pixtree").mkdir()
    (tmp_path / "pixtree" / "a.py").write_text(SOURCE)
    more = "@kernel\ndef twice(values):\n    return counted(values) * LIMIT\n\n\ndef plain(values):\n    return twice(values)\n"
    (tmp_path / "pixtree" / "b.py").write_text(more)
    sources = tool["reach"].Sources.of(tmp_path / "pixtree")
    stale = {}
    for one in tool["mutants"].mutants_of("pixtree/a.py", SOURCE):
        stale.setdefault(one.place.function or one.place.names, []).append(sources.stale(one))
    assert all(one == {"counted", "twice"} for one in stale["counted"])
    assert all(one == set() for one in stale["chosen"])
    assert all(one == {"twice"} for one in stale["LIMIT",])


def test_a_test_that_calls_machine_code_itself_runs_its_mutants(tool, tmp_path):
    (tmp_path / "pixtree").mkdir()
    (tmp_path / "pixtree" / "a.py").write_text(SOURCE)
    (tmp_path / "test_direct.py").write_text("def test_counted():\n    counted([1])\n")
    (tmp_path / "test_other.py").write_text("def test_other():\n    pass\n")
    tests = [["test_direct.py::test_counted", 0.1], ["test_other.py::test_other", 0.1]]
    (tmp_path / "record.json").write_text(json.dumps({"tests": tests, "failed": [], "lines": {}}))
    reach = tool["reach"].Reach(tmp_path / "record.json", tool["reach"].Sources.of(tmp_path / "pixtree"), tmp_path)
    of_compiled = [one for one in tool["mutants"].mutants_of("pixtree/a.py", SOURCE) if one.place.function == "counted"]
    assert of_compiled
    assert all(reach.covering(one) == ["test_direct.py::test_counted"] for one in of_compiled)


def test_a_statement_that_runs_on_import_alone_is_run_by_the_tests_that_import_it(tool, tmp_path):
    source = "from pixtree.lazy import lazy_names\n\n__getattr__, __dir__ = lazy_names(__name__, 1)\n"
    (tmp_path / "pixtree").mkdir()
    (tmp_path / "pixtree" / "a.py").write_text(source)
    tests = [["test_a.py::test_first", 0.1], ["test_b.py::test_second", 0.1]]
    lines = {"pixtree/a.py": {"1": [1], "3": [1]}}
    (tmp_path / "record.json").write_text(json.dumps({"tests": tests, "failed": [], "lines": lines}))
    reach = tool["reach"].Reach(tmp_path / "record.json", tool["reach"].Sources.of(tmp_path / "pixtree"), tmp_path)
    found = [reach.covering(one) for one in tool["mutants"].mutants_of("pixtree/a.py", source)]
    assert found == [["test_b.py::test_second"]] * len(found)
    assert found


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ("os._exit(0)", "survived"),
        ("os._exit(1)", "failed"),
        ("os._exit(70)", "not run"),  # pytest ended for another reason than a failure, such as a test that does not exist
        ("os.kill(os.getpid(), signal.SIGALRM)", "timed out"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "crashed"),
    ],
)
def test_only_a_mutant_that_ran_and_was_noticed_counts(tool, tmp_path, ending, expected):
    code = f"import os, signal; signal.signal(signal.SIGALRM, signal.SIG_DFL); {ending}"
    ended = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", code])
    status = os.waitpid(ended, 0)[1]
    assert tool["processes"].outcome(status, tmp_path) == "not run"  # its text was never loaded
    (tmp_path / "loaded").touch()
    assert tool["processes"].outcome(status, tmp_path) == expected


def test_a_changed_file_of_tests_replaces_its_part_of_the_record(tool):
    old = {
        "tests": [["tests/test_a.py::one", 1.0], ["tests/test_b.py::two", 2.0]],
        "failed": ["tests/test_a.py::bad"],
        "skipped": [],
        "lines": {"pixtree/x.py": {"5": [0, 1], "6": [1]}},
    }
    new = {"tests": [["tests/test_a.py::three", 3.0]], "failed": [], "skipped": [], "lines": {"pixtree/x.py": {"6": [0], "9": [0]}}}
    found = tool["recording"].replaced(old, new, {"tests/test_a.py"})
    names = [name for name, _ in found["tests"]]
    by_line = {line: {names[index] for index in seen} for line, seen in found["lines"]["pixtree/x.py"].items()}
    two, three = "tests/test_b.py::two", "tests/test_a.py::three"
    assert by_line == {"5": {two}, "6": {two, three}, "9": {three}}
    assert (sorted(names), found["failed"]) == ([three, two], [])
