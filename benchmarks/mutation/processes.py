"""One mutant, one process: forked from a parent that has loaded the libraries but nothing of pixtree."""

import json
import os
import resource
import runpy
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import overlay
import pytest
from mutants import Mutant

MEMORY = 12 * 2**30  # bytes that may be written; a mutant that asks for more is killed. Browsers reserve far more than they use.
SLACK = 20.0  # seconds that every test may take beyond ten times its own
CONTROL = "the unchanged package"
LOADED = "loaded"  # the file that says so
COMPILATION = 60.0  # seconds more where machine code is made again


@dataclass(frozen=True)
class Job:
    """A mutant with all that its process needs; the control has none, and must not be noticed."""

    number: int
    mutant: Mutant | None
    tests: list[str]
    stale: set[str]

    @property
    def key(self) -> str:
        """What its result is kept under."""
        return CONTROL if self.mutant is None else self.mutant.key


class Watch:
    """Ends the process when a test takes far longer than without the mutant: an endless loop may not see any exception.

    It also counts failures, since pytest ends with an error for other reasons too, such as a test that does not exist.
    """

    def __init__(self, seconds: dict[str, float], more: float) -> None:
        self.seconds, self.more = seconds, more
        self.failures = 0

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Set the alarm for one test; nobody catches it."""
        usual = self.seconds.get(nodeid.split("[")[0], 1.0)
        signal.alarm(int(SLACK + 10.0 * usual + self.more))

    def pytest_collection_finish(self) -> None:
        """Modules are loaded now."""
        signal.alarm(int(SLACK + self.more))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test, or what it needs, failed."""
        self.failures += report.failed

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module of tests could not be loaded."""
        self.failures += report.failed


def load_libraries(package: Path) -> None:
    """Import what every test process needs; nothing here may start a thread, or a fork would hang."""
    # As in tests/conftest.py, whose precaution would come too late: torch is loaded already when it runs.
    variables, fault = runpy.run_path(str(package / "runtime" / "bfloat16.py"))["precaution"]()
    os.environ.update({**variables, overlay.FAULT: fault or ""})
    import hypothesis
    import numba  # noqa: F401
    import PIL.Image  # noqa: F401
    import scipy.ndimage  # noqa: F401
    import skimage  # noqa: F401
    import torch

    runpy.run_path(str(package / "models" / "timm_import.py"))

    torch.set_num_threads(1)
    hypothesis.settings.register_profile("mutation", derandomize=True, database=None, deadline=None)
    hypothesis.settings.load_profile("mutation")


def start(job: Job, folder: Path, copy: Path, cache: Path, root: Path, seconds: dict[str, float]) -> int:
    """Fork the process of a mutant; its id."""
    own = folder / f"mutant-{job.number}"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    if job.mutant is None:
        (own / LOADED).touch()
    else:
        source = copy / job.mutant.path
        (own / "text.py").write_text(job.mutant.applied(source.read_text(encoding="utf-8")), encoding="utf-8")
    if job.stale:  # numba replaces files of its cache and never writes into them, so that links are safe
        shutil.copytree(cache, own / "cache", copy_function=os.link)
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        output = os.open(own / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        os.environ.update(overlay.environment(copy, own / "cache" if job.stale else cache))
        os.environ[overlay.STAMP] = "unchanged"
        if job.mutant is not None:
            module = job.mutant.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
            os.environ[overlay.MUTANT] = json.dumps({"module": module, "text": str(own / "text.py"), "loaded": str(own / LOADED)})
            os.environ[overlay.STALE] = ",".join(sorted(job.stale))
            os.environ[overlay.STAMP] = job.mutant.key
        numba_reads_its_cache_folder()
        sys.path.insert(0, str(copy))
        os.chdir(root)
        watch = Watch(seconds, COMPILATION if job.stale else 0.0)
        signal.alarm(int(2 * SLACK))
        first = ["-x"] if job.mutant is not None else []
        code = int(pytest.main([*first, "-q", "--no-header", "-p", "no:cacheprovider", *job.tests], plugins=[watch]))
        code = 1 if watch.failures else code if code == 0 else 70
    except BaseException:
        code = 70
    sys.stdout.flush()
    os._exit(code)


def numba_reads_its_cache_folder() -> None:
    """Numba has read its settings on import; have it read them again."""
    from numba.core import config

    config.reload_config()


def outcome(status: int, own: Path) -> str:
    """What a process that ended says about its mutant; `own` is its folder. A mutant that was never loaded proves nothing."""
    if not (own / LOADED).is_file():
        return "not run"
    if os.WIFSIGNALED(status):
        return "timed out" if os.WTERMSIG(status) == signal.SIGALRM else "crashed"
    return {0: "survived", 1: "failed"}.get(os.WEXITSTATUS(status), "not run")


def end(child: int) -> None:
    """Whatever a mutant has started ends with it."""
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        time.sleep(0)
