"""The files of a release: built, installed into empty environments, and used from a folder without the sources.

    python benchmarks/release.py --python python3.11 --python python3.12 -o benchmarks/results/release.json
    python benchmarks/release.py --try dist --extras "[all]"       # one trial of built files, with this interpreter

The sdist, the pure wheel and, for every interpreter, a wheel with machine code are built. Every trial makes an environment with
`venv`, installs with pip (versions of constraints.txt) the wheel that pip would choose, and runs the checks below, each in a
process of its own that sees neither the sources nor PYTHONPATH. First calls are then timed with an empty cache. A trial of the core
installs the sdist as well. A record that exists keeps the trials of other interpreters and extras, so that they can be tried one
after another.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMAND = (
    "python benchmarks/release.py --python python3.11 --python python3.12 --python python3.13 -o benchmarks/results/release.json"
)
# What must work with the core alone: Python texts, or words of the command line.
CORE: dict[str, str | list[str]] = {
    "is installed, not found beside": "import pixtree, sys; assert pixtree.__file__.startswith(sys.prefix), pixtree.__file__",
    "has its version": "import pixtree; assert pixtree.__version__ == VERSION, pixtree.__version__",
    "has its types": "from importlib.resources import files; assert (files('pixtree') / 'py.typed').is_file()",
    "has its weights": """
import pixtree, torch
tokens = pixtree.Tokenizer.pretrained(pixtree.Exactly(9))(torch.zeros(1, 3, 32, 32))
assert tokens.features.shape[1] == 9""",
    "reads and writes pictures": """
import numpy, pathlib, PIL.Image
pathlib.Path("photos").mkdir()
pixels = numpy.kron(numpy.arange(64, dtype="u1").reshape(8, 8) * 4, numpy.ones((8, 8), "u1"))
PIL.Image.fromarray(pixels).save("photos/photo.png")""",
    "doctor": ["doctor"],
    "segment": ["segment", "photos/photo.png", "-o", "labels.png", "--tokens", "7"],
    "hierarchy": ["hierarchy", "photos/photo.png", "-o", "tree.npz"],
    "vectorize": ["vectorize", "photos/photo.png", "-o", "photo.svg", "--paths", "9"],
    "batch": ["batch", "segment", "photos", "made", "--tokens", "5", "--workers", "1"],
}
ALONE: dict[str, str | list[str]] = {
    "names the missing extra": """
import pixtree
try:
    pixtree.retrofit("vit_tiny_patch16_224")
except ImportError as error:
    assert "pixtree[models]" in str(error), error"""
}
ALL: dict[str, str | list[str]] = {
    "models": """
import pixtree, torch
model = pixtree.retrofit("vit_tiny_patch16_224", tokens=9, depth=1).eval()
assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 1000)""",
    "train: the recipes are there": """
from pixtree.training.recipe import read_recipe, shipped_recipes
assert len([read_recipe(name) for name in shipped_recipes()]) > 5""",
    "evaluate": "import numpy, pixtree; pixtree.segment(numpy.eye(64), tokens=9, partitioner='slic')",
    "app: the page is there": """
from pixtree.app.page import static_files
from pixtree.app.server import create_app
assert {"index.html", "main.js", "rooms/regions.js"} <= static_files().keys() and create_app()""",
    "batch: parquet": ["batch", "segment", "photos", "table", "--to", "parquet", "--tokens", "3", "--workers", "1"],
    "ray": "import ray.data, pixtree.batch.engines",
    "tiff, geo, datasets": "import tifffile, rasterio, geopandas, datasets",
    "napari: the manifest is there": """
from importlib.resources import files
assert (files("pixtree.napari_plugin") / "napari.yaml").is_file()""",
}
# First calls: what is loaded before, and the call itself, whose CPU seconds count. The last two need the extras.
LOADED = "import numpy, torch, pixtree.kernels; pixtree.kernels.kernels_for()"  # which loads numba
PHOTO = f"{LOADED}; photo = numpy.random.default_rng(0).integers(0, 256, (96, 128, 3), dtype='u1')"
FIRST_CALLS: dict[str, tuple[str, str]] = {
    "segment": (f"{PHOTO}; from pixtree import segment", "segment(photo, 20)"),
    "vectorize": (f"{PHOTO}; from pixtree import vectorize", "str(vectorize(photo, 20))"),
    "retrofit": (
        f"{LOADED}; model = pixtree.retrofit('vit_tiny_patch16_224', tokens=49).eval()",
        "model(torch.zeros(1, 3, 224, 224))",
    ),
    "coarsen": (
        f"{LOADED}; model = pixtree.coarsen('vit_tiny_patch16_224', compute=0.5).eval()",
        "model(torch.rand(1, 3, 224, 224))",
    ),
}
NEEDS_EXTRAS = ("retrofit", "coarsen")
LIMITS = {"segment": 1.5, "vectorize": 3.0, "retrofit": 3.0, "coarsen": 3.0}  # CPU seconds, with machine code in the wheel


def built(folder: Path, pythons: list[str]) -> list[Path]:
    """Wheels and sdist of these sources: the pure wheel, and one with machine code for each interpreter."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    for python in pythons:
        with tempfile.TemporaryDirectory(prefix="pixtree-builder-") as place:
            is_this = release_of(python) == release_of(sys.executable)
            builder = Path(sys.executable) if is_this else builder_of(Path(place) / "environment", python)
            code = {**os.environ, "PIXTREE_MACHINE_CODE": f"{place}/code"}
            subprocess.run([str(builder), "-m", "pixtree", "warmup", "--ship", code["PIXTREE_MACHINE_CODE"]], check=True)
            words = [str(builder), "-m", "hatchling", "build", "-d", str(folder), "-t", "wheel"]
            subprocess.run(words, cwd=ROOT, env=code, check=True)
    return sorted(folder.iterdir())


def release_of(python: str) -> str:
    """The version of an interpreter, by its program: 3.12."""
    program = "import sys; print(f'{sys.version_info.major}.{sys.version_info.minor}')"
    return subprocess.run([python, "-I", "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def builder_of(folder: Path, python: str) -> Path:
    """An interpreter in an environment with what the kernels need to compile, and hatchling."""
    programs = environment(folder, python)
    installed(programs, f"{ROOT}[models]")
    installed(programs, "hatchling")
    return programs / "python"


def wheel_for(python: str, files: list[Path]) -> Path:
    """The wheel that pip would choose for an interpreter: the one with machine code if there is one."""
    program = "import platform, sys; print(f'cp{sys.version_info.major}{sys.version_info.minor}', platform.machine())"
    tag, machine = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    wheels = [path for path in files if path.suffix == ".whl"]
    fitting = [path for path in wheels if f"-{tag}-" in path.name and machine in path.name]
    return (fitting or [path for path in wheels if "-none-any" in path.name])[0]


def first_calls(programs: Path, folder: Path, extras: str) -> dict[str, float | None]:
    """CPU seconds of each first call after its imports, in a process of its own with an empty cache of machine code."""
    seconds: dict[str, float | None] = {}
    for name, (before, call) in FIRST_CALLS.items():
        if name in NEEDS_EXTRAS and not extras:
            seconds[f"first_{name}"] = None
            continue
        program = f"{before}; import time; began = time.process_time(); {call}; print(time.process_time() - began)"
        with tempfile.TemporaryDirectory(prefix="pixtree-empty-") as cache:
            clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "NUMBA"))}
            command = [str(programs / "python"), "-I", "-c", program]
            environment = {**clean, "NUMBA_CACHE_DIR": cache}
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        seconds[f"first_{name}"] = round(float(done.stdout), 2)
        print(f"first {name}: {seconds[f'first_{name}']} CPU s", flush=True)
    return seconds


def environment(folder: Path, python: str) -> Path:
    """An empty environment; its folder of programs."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    return folder / ("Scripts" if os.name == "nt" else "bin")


def installed(programs: Path, requirement: str) -> float:
    """Install something, and say how many seconds it took."""
    began = time.monotonic()
    pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), requirement], check=True)
    return time.monotonic() - began


def tried(programs: Path, folder: Path, checks: dict[str, str | list[str]], version: str) -> list[str]:
    """The checks that failed, each run in `folder`."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    failed = []
    for name, check in checks.items():
        words = [str(programs / "python"), "-I", "-c", check.replace("VERSION", repr(version))] if isinstance(check, str) else []
        ended = subprocess.run(
            words or [str(programs / "pixtree"), *check],
            cwd=folder,
            env=clean,
            capture_output=True,
            text=True,
            timeout=7200,  # the first check compiles the kernels, which a busy machine takes long for
            check=False,
        )
        print(f"{'ok' if ended.returncode == 0 else 'FAILED'}: {name}", flush=True)
        if ended.returncode:
            print(ended.stdout[-2000:], ended.stderr[-2000:], flush=True)
            failed.append(name)
    return failed


def trial(python: str, files: list[Path], extras: str) -> dict[str, object]:
    """One environment: the wheel with its extras, and for the core the sdist after it."""
    wheel = wheel_for(python, files)
    version = wheel.name.split("-")[1]
    checks = CORE | ALONE if not extras else CORE | ALL
    with tempfile.TemporaryDirectory(prefix="pixtree-release-") as place:
        programs, folder = environment(Path(place) / "environment", python), Path(place) / "elsewhere"
        folder.mkdir()
        seconds = installed(programs, f"{wheel}{extras}")
        failed = tried(programs, folder, checks, version)
        count = len(checks)
        seconds_of = first_calls(programs, folder, extras)
        if "-none-any" not in wheel.name:
            failed += [
                f"first {name} within {limit} CPU s" for name, limit in LIMITS.items() if (seconds_of[f"first_{name}"] or 0) > limit
            ]
            count += sum(value is not None for value in seconds_of.values())
        if not extras:
            sdist = next(path for path in files if path.name.endswith(".tar.gz"))
            subprocess.run([str(programs / "python"), "-m", "pip", "uninstall", "--quiet", "--yes", "pixtree"], check=True)
            installed(programs, str(sdist))
            again = {
                f"from the sdist: {name}": CORE[name]
                for name in ("is installed, not found beside", "has its version", "has its weights")
            }
            failed += tried(programs, folder, again, version)
            count += len(again)
        asked = [str(programs / "python"), "-I", "-c", "import sys, torch; print(sys.version.split()[0], torch.__version__)"]
        python_version, torch_version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
        size = sum(path.stat().st_size for path in (Path(place) / "environment").rglob("*") if path.is_file())
    return {
        "python": python_version,
        "torch": torch_version,
        "extras": extras or "none",
        "machine_code": "no" if "-none-any" in wheel.name else "yes",
        "install_seconds": round(seconds),
        "megabytes": round(size / 1e6),
        **seconds_of,
        "checks": count,
        "failed": ", ".join(failed) or "none",
    }


def earlier(path: Path) -> list[dict[str, object]]:
    """The trials of an earlier record."""
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", action="append", help="an interpreter to try, by its program; this one by default")
    parser.add_argument("--extras", action="append", help='"" for the core or "[all]"; by default both')
    parser.add_argument("--try", dest="files", type=Path, help="try the files of this folder instead of building new ones")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pixtree-dist-") as place:
        pythons = options.python or [sys.executable]
        files = sorted(options.files.resolve().iterdir()) if options.files else built(Path(place), pythons)
        sizes = {path.name: path.stat().st_size for path in files}
        rows = []
        for python in pythons:
            for extras in options.extras if options.extras is not None else ["", "[all]"]:
                rows.append(trial(python, files, extras))
                print(rows[-1], flush=True)
    failed = [row for row in rows if row["failed"] != "none"]
    if options.output:
        now = {(row["python"], row["extras"]) for row in rows}
        rows += [row for row in earlier(options.output) if (row["python"], row["extras"]) not in now]
        rows.sort(key=lambda row: (str(row["python"]), row["extras"] != "none"))
        from evidence.records import provenance, write_record

        record = {
            "benchmark": "table",
            "title": "The files of a release, in empty environments",
            "shows": "Shows that what pip installs works without the sources, on Linux. Other systems are untried.",
            **provenance(COMMAND, ("hatchling",)),
            "columns": [
                ["python", "Python", ""],
                ["torch", "torch", ""],
                ["extras", "Extras", ""],
                ["machine_code", "Machine code in the wheel", ""],
                ["install_seconds", "Seconds to install", "d"],
                ["megabytes", "Environment, MB", "d"],
                *([f"first_{name}", f"First `{name}`, CPU s", ".2f"] for name in FIRST_CALLS),
                ["checks", "Checks", "d"],
                ["failed", "Failed", ""],
            ],
            "rows": rows,
            "notes": [
                f"Built: {', '.join(f'`{name}` ({size / 1000:.0f} kB)' for name, size in sizes.items())}. Checks run in processes "
                "that see neither the sources nor `PYTHONPATH`; three of them are repeated with the sdist. Installing was timed "
                "beside other work on the machine. First calls are timed after importing torch, numba and pixtree and creating the "
                "model, each in a new process with an empty cache of machine code. Linux only: macOS and Windows are untried."
            ],
        }
        write_record(record, options.output)
    if failed:
        raise SystemExit("some checks failed; see above")


if __name__ == "__main__":
    main()
