"""What a run needs before its first mutant: a copy of the package, its machine code, and which test runs which line of it."""

import json
import os
import shutil
import sys
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import overlay
import pytest
from processes import numba_reads_its_cache_folder
from recording import Recorder, replaced

RESULTS = "results.jsonl"
UNPROVEN = "unproven.json"  # files of tests that have not yet passed in a process like those of the mutants


@dataclass(frozen=True)
class State:
    """What a record was made of."""

    package: str
    shared: dict[str, str]  # what tests import and read, by file
    tests: dict[str, str]  # by file
    only: list[str]

    @classmethod
    def of(cls, root: Path, only: list[str]) -> "State":
        """The present state."""
        files = sorted(path for path in (root / "tests").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        texts = {path.relative_to(root).as_posix(): _hash(root, [path]) for path in files}
        tests = {name: text for name, text in texts.items() if Path(name).match("test_*.py")}
        return cls(package_state(root), {name: text for name, text in texts.items() if name not in tests}, tests, only)

    def includes(self, other: "State") -> bool:
        """Whether tests that are the same in both run the same lines; files that are new are read by none of these."""
        same = (self.package, self.only) == (other.package, other.only)
        return same and all(self.shared.get(name) == text for name, text in other.shared.items())


def package_state(root: Path) -> str:
    """A hash of the package's sources."""
    return _hash(root, sorted((root / "src").rglob("*.py")))


def _hash(root: Path, paths: list[Path]) -> str:
    digest = sha256()
    for path in paths:
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def prepare(root: Path, folder: Path, only: list[str]) -> tuple[Path, Path]:
    """The copy of the package and its cache of machine code, with a record of the tests that fits both.

    Tests of files that changed are recorded again; all of them only where the package or what they share did.
    """
    copy, cache, stamp, record = folder / "src", folder / "cache", folder / "state.json", folder / "record.json"
    now = State.of(root, only)
    before = State(**json.loads(stamp.read_text(encoding="utf-8"))) if stamp.is_file() else None
    if before == now:
        return copy, cache
    if before is None or not now.includes(before):
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():  # all but the results, which an interrupted run must not lose
            if path.name != RESULTS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        overlay.make(root / "src", folder)
        record.write_text(json.dumps(_recorded(root, folder, only or ["tests"])), encoding="utf-8")
        fresh = sorted(now.tests)
    else:
        fresh = sorted(name for name, text in now.tests.items() if before.tests.get(name) != text)
        gone = {*fresh, *before.tests} - (set(now.tests) - set(fresh))
        added = _recorded(root, folder, fresh) if fresh else {"tests": [], "failed": [], "skipped": [], "lines": {}}
        record.write_text(json.dumps(replaced(json.loads(record.read_text(encoding="utf-8")), added, gone)), encoding="utf-8")
    unproven = folder / UNPROVEN
    waiting = json.loads(unproven.read_text(encoding="utf-8")) if unproven.is_file() else []
    unproven.write_text(json.dumps(sorted({*waiting, *fresh})), encoding="utf-8")
    stamp.write_text(json.dumps(asdict(now)), encoding="utf-8")
    return copy, cache


def _recorded(root: Path, folder: Path, tests: list[str]) -> dict:
    """Run these tests once against the unchanged package, in a process of its own: the tests, and which of them runs which line."""
    copy, found = folder / "src", folder / "recorded.json"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.environ.update(overlay.environment(copy, folder / "cache"))
            os.environ[overlay.STAMP] = "unchanged"
            numba_reads_its_cache_folder()
            sys.path.insert(0, str(copy))
            os.chdir(root)
            recorder = Recorder(copy / "pixtree", folder / "coverage")
            ended = pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", *tests], plugins=[recorder])
            recorder.write(found)
            code = 0 if ended in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else 1
        finally:
            sys.stdout.flush()
            os._exit(code)
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit("the tests could not be recorded; see the output above")
    return json.loads(found.read_text(encoding="utf-8"))
