"""Which test runs which line: one run of the suite under coverage, as a pytest plugin."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest


def test_name(node: str) -> str:
    """A test without its parameters: mutants run all cases of it."""
    return node.split("[")[0]


class Recorder:
    """Collects lines and seconds per test; tests that do not pass are left out, since they can kill nothing."""

    def __init__(self, package: Path, data: Path) -> None:
        self.package = package
        self.coverage = coverage.Coverage(data_file=str(data), source=[str(package)], messages=False)
        self.seconds: dict[str, float] = defaultdict(float)
        self.users: dict[str, set[str]] = defaultdict(set)  # tests by what was made for several of them
        self.failed: set[str] = set()
        self.skipped: set[str] = set()

    def pytest_sessionstart(self) -> None:
        """Begin before any test module is imported."""
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Lines that run from here on belong to this test."""
        test = test_name(item.nodeid)
        self.users[item.nodeid.split("::")[0]].add(test)
        for fixture in getattr(item, "fixturenames", ()):
            self.users[fixture].add(test)
        self.coverage.switch_context(test)
        result = yield
        self.coverage.switch_context("")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest) -> Iterator[None]:
        """A fixture that several tests share runs for all of them, not for the first alone."""
        if fixturedef.scope == "function":
            return (yield)
        self.coverage.switch_context(fixturedef.argname)
        result = yield
        self.coverage.switch_context(test_name(request.node.nodeid) if "::" in request.node.nodeid else "")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        """What a test module computes while it is imported belongs to all its tests."""
        self.coverage.switch_context(collector.nodeid if isinstance(collector, pytest.Module) else "")
        result = yield
        self.coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Time and outcome of a test, over all its cases."""
        self.seconds[test_name(report.nodeid)] += report.duration
        if report.failed:
            self.failed.add(test_name(report.nodeid))
        if report.skipped:
            self.skipped.add(test_name(report.nodeid))

    def tests_of(self, context: str) -> set[str]:
        """The tests that a context of coverage stands for."""
        return self.users.get(context, {context})

    def write(self, path: Path) -> None:
        """Tests with their seconds, and per file and line the numbers of its tests."""
        self.coverage.stop()
        self.coverage.save()
        data = self.coverage.get_data()
        tests = sorted(set(self.seconds) - self.failed)
        number = {name: index for index, name in enumerate(tests)}
        lines: dict[str, dict[int, list[int]]] = {}
        for file in sorted(data.measured_files()):
            found = {
                line: sorted({number[one] for context in seen for one in self.tests_of(context) if one in number})
                for line, seen in data.contexts_by_lineno(file).items()
            }
            lines[Path(file).relative_to(self.package.parent).as_posix()] = {line: seen for line, seen in found.items() if seen}
        record = {
            "tests": [[name, round(self.seconds[name], 3)] for name in tests],
            "failed": sorted(self.failed),
            "skipped": sorted(self.skipped),
            "lines": lines,
        }
        path.write_text(json.dumps(record), encoding="utf-8")


def replaced(record: dict, added: dict, files: set[str]) -> dict:
    """A record in which the tests of these files are those of another one."""
    kept = [(name, seconds) for name, seconds in record["tests"] if name.split("::")[0] not in files]
    tests = sorted([*kept, *((name, seconds) for name, seconds in added["tests"])])
    number = {name: index for index, (name, _) in enumerate(tests)}
    lines: dict[str, dict[str, list[int]]] = {}
    for one in (record, added):
        names = [name for name, _ in one["tests"]]
        for path, seen in one["lines"].items():
            for line, by in seen.items():
                still = [number[names[index]] for index in by if one is added or names[index].split("::")[0] not in files]
                lines.setdefault(path, {}).setdefault(line, []).extend(still)
    outcomes = {
        outcome: sorted([name for name in record[outcome] if name.split("::")[0] not in files] + added[outcome])
        for outcome in ("failed", "skipped")
    }
    return {"tests": [list(one) for one in tests], **outcomes, "lines": lines}
