"""The surroundings of all tests: one thread and one shared cache of machine code per process, and bfloat16 only where it works."""

import gc
import importlib.util
import json
import os
import runpy
import shutil
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # tests import their images by name
sys.path.append(str(HERE.parent / "benchmarks"))  # for the package evidence
PACKAGE = Path(importlib.util.find_spec("pixtree").submodule_search_locations[0])
CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pixtree" / "tests"
UNUSED = 14 * 24 * 3600  # seconds after which machine code of other sources is deleted

# Torch and numba read these when they are loaded, so they come first; every process that a test starts inherits them. Tests have
# small tensors, on which several threads mostly wait for each other. Tests of threads set their own number.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("NUMBA_CACHE_DIR", str(CACHES))

# By its path, since the package loads torch; the cap must come before torch. The probe takes seconds, so workers get what it found.
PROBED = "PIXTREE_TESTS_BFLOAT16"
if PROBED not in os.environ:
    os.environ[PROBED] = json.dumps(runpy.run_path(str(PACKAGE / "runtime" / "bfloat16.py"))["precaution"]())
VARIABLES, FAULT = json.loads(os.environ[PROBED])
os.environ.update(VARIABLES)

if importlib.util.find_spec("triton") is not None:
    import interpreted  # noqa: F401  before anything else imports Triton, see there

NARROW = {"embed_dim": 96, "num_heads": 3}


@pytest.fixture
def narrow(monkeypatch):
    """timm makes narrow models, and downloads nothing: with random weights, wider ones show no more."""
    from pixtree.models import downloads
    from pixtree.models.timm_import import timm

    monkeypatch.setattr(downloads, "_answers", lambda: True)
    create = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda name, pretrained=False, **words: create(name, **NARROW | words))


@pytest.fixture
def interpreting(monkeypatch):
    """The backend of Triton takes tensors of the CPU, see `interpreted`."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def pytest_report_header() -> str | None:
    if VARIABLES:
        return f"bfloat16 dies on this CPU; capped: {', '.join(f'{name}={value}' for name, value in VARIABLES.items())}"
    return None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before several workers start, compile what they would all compile."""
    if session.config.getoption("numprocesses", None) and not session.config.option.collectonly:
        warm_up(Path(os.environ["NUMBA_CACHE_DIR"]))


def warm_up(folder: Path) -> None:
    """Fill the cache of machine code, unless these sources have done so before; what nobody has used for long is deleted."""
    digest = sha256(sys.version.encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    done = folder / f"warm-{digest.hexdigest()[:16]}"
    if not done.exists() and subprocess.run([sys.executable, "-m", "pixtree", "warmup"]).returncode:
        return  # a test that calls the same function will show why
    done.parent.mkdir(parents=True, exist_ok=True)
    done.touch()
    if folder == CACHES:
        for old in folder.iterdir():
            if time.time() - max(path.stat().st_atime for path in (old, *old.rglob("*"))) > UNUSED:
                shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)


def pytest_collection_finish() -> None:
    """Imported modules are a million objects that stay to the end; the garbage collector need not visit them again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FAULT is not None and item.get_closest_marker("bfloat16"):
            item.add_marker(pytest.mark.skip(reason=f"torch cannot multiply in bfloat16 on this CPU: {FAULT}"))
