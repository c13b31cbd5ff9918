"""Every system call on files fails once: what is left, and whether the same call then gives the right files.

    python benchmarks/faults/run.py -o benchmarks/results/faults.json

Jobs: a batch run over three images with a task that computes nothing, with each kind of results; `tree.save`; `drawing.save`; a
checkpoint; and a training with one. A job is run once to count its opens, reads, writes, flushes and renames below its folder and
the temporary folder. Then each of these calls in turn fails with each error (ENOSPC, EIO, EMFILE), and once ends the process with
SIGKILL, a write in its middle. The job may then succeed or raise one line. After each, the job is run again as it is: the folder
must have the bytes of an undisturbed run, and nothing else. Needs Linux and a C compiler (`cc`), which makes the library that lets
the calls fail.
"""

import argparse
import ctypes
import errno
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EMFILE": errno.EMFILE, "killed": 0}
SECONDS = 60.0  # after which a job hangs
LOADED = "PIXTREE_FAULTS_SHIM"


Work: TypeAlias = Callable[[Path], object]  # writes files into a folder


def batch_run(home: Path, source: str, to: str) -> Work:
    """A run over three images with a task that computes nothing."""
    from pixtree.batch import run, work

    def stub(image: Any) -> work.Made:
        return work.Made({".txt": sha256(image.read()).hexdigest().encode()}, {})

    work.TASKS["stub"] = ({}, stub)
    for folder in ("photos", "shards"):
        (home / folder).mkdir(exist_ok=True)
    with tarfile.open(home / "shards" / "x.tar", "w") as archive:
        for name in ("a", "b", "c"):
            (home / "photos" / f"{name}.png").write_bytes(name.encode())
            member = tarfile.TarInfo(f"{name}.png")
            member.size = 1
            archive.addfile(member, BytesIO(name.encode()))
    return lambda made: run("stub", home / source, made, workers=1, to=to)


def tree_saved(_: Path) -> Work:
    """A tree of 64 pixels."""
    import pixtree

    tree = pixtree.hierarchy(checkerboard(), backend="torch")
    return lambda made: tree.save(made / "tree.npz")


def drawing_saved(_: Path) -> Work:
    """A drawing of 64 pixels."""
    import pixtree

    drawing = pixtree.vectorize(checkerboard(), paths=4)
    return lambda made: drawing.save(made / "drawing.svg")


def checkpoint_saved(_: Path) -> Work:
    """A model of one small block."""
    import pixtree

    model = pixtree.retrofit("vit_tiny_patch16_224", tokens=9, img_size=64, depth=1, embed_dim=48, num_heads=3, pretrained=False)
    return lambda made: model.save_pretrained(made)


def training_checkpoint(_: Path) -> Work:
    """One step of a training of one weight, with its checkpoint."""
    import torch

    from pixtree.training import Objective, Plan, train

    class Target(Objective):
        def __init__(self) -> None:
            super().__init__()
            self.learner = torch.nn.Linear(1, 1, bias=False)
            torch.nn.init.ones_(self.learner.weight)

        def forward(self, batch: Any) -> dict[str, Any]:
            return {"loss": self.learner(batch).square().mean()}

    class Ones:
        def starting(self, step: int, share: Any) -> Any:
            while True:
                yield [torch.ones(1, 1)]

    plan = Plan(steps=1, rate=0.1, every=1)
    train(Target(), Ones(), plan)  # imports what every fork would import otherwise
    return lambda made: train(Target(), Ones(), plan, checkpoint=made / "checkpoint.pt")


def checkerboard() -> Any:
    """A grey image (8, 8) of four by four areas."""
    import numpy as np

    return np.kron(np.arange(16, dtype=np.uint8).reshape(4, 4) * 16, np.ones((2, 2), np.uint8))


JOBS: dict[str, Callable[[Path], Work]] = {
    "batch, folder to folder": partial(batch_run, source="photos", to="folder"),
    "batch, shards to shards": partial(batch_run, source="shards", to="webdataset"),
    "batch, shards to parquet": partial(batch_run, source="shards", to="parquet"),
    "tree.save": tree_saved,
    "drawing.save": drawing_saved,
    "checkpoint": checkpoint_saved,
    "training checkpoint": training_checkpoint,
}


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class Outcome(NamedTuple):
    """How a process ended: "done", "refused" with one line, "killed", "hung" or "crashed", with the message or the count."""

    word: str
    text: str


def in_child(work: Callable[[Path], object], made: Path, call: int = -1, error: int = 0) -> Outcome:
    """Run a job in a fork of this process, with the call of this number failing; without a number, calls are counted."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code, text = 1, ""
        try:
            made.mkdir(exist_ok=True)
            shim = ctypes.CDLL(None)
            shim.faults_arm(os.fsencode(f"{made}/"), os.fsencode(f"{tempfile.gettempdir()}/"), ctypes.c_long(call), error)
            work(made)
            code, text = 0, str(shim.faults_calls())
        except (OSError, ValueError) as fault:
            code, text = 2, str(fault)
        except BaseException as fault:
            text = f"{type(fault).__name__}: {fault}"
        finally:
            os.write(writing, text[:2000].encode())
            os._exit(code)
    os.close(writing)
    status = _ended(child)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    if status is None:
        return Outcome("hung", text)
    if os.WIFSIGNALED(status):
        return Outcome("killed" if os.WTERMSIG(status) == signal.SIGKILL else "crashed", text)
    word = {0: "done", 2: "refused" if text and "\n" not in text else "crashed"}.get(os.WEXITSTATUS(status), "crashed")
    return Outcome(word, text)


def _ended(child: int) -> int | None:
    """The status of a process; None for one that had to be killed because it took too long."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def injected(name: str, home: Path, every: int) -> dict[str, Any]:
    """Let every call of a job fail in every way, or every n-th of them: a row of the table, with its failures."""
    whole = home / "whole"
    work = JOBS[name](home)
    calls = int(in_child(work, whole).text)
    expected = contents(whole)
    failures: list[str] = []
    counts = dict.fromkeys(("done", "refused", "killed"), 0)
    cases = [(call, error) for call in range(calls) for error in ERRORS][::every]
    for number, (call, error) in enumerate(cases):
        made = home / "made"  # of the same name as all others: paths may have a part in the bytes
        first = in_child(work, made, call, ERRORS[error])
        again = in_child(work, made)
        counts[first.word] = counts.get(first.word, 0) + 1
        left = contents(made)
        if first.word not in ("done", "refused", "killed") or again.word != "done" or left != expected:
            wrong = sorted(path for path in left.keys() | expected.keys() if left.get(path) != expected.get(path))
            failures.append(f"{name}, call {call}, {error}: {first.word} {first.text}; then {again.word} {again.text}; {wrong}")
            print("\n" + failures[-1], file=sys.stderr)
        subprocess.run(["rm", "-rf", str(made)], check=True)
        print(f"\r{name}: {number + 1} of {len(cases)}  ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    subprocess.run(["rm", "-rf", str(whole)], check=True)
    return {"job": name, "calls": calls, "faults": len(cases), **counts, "wrong": len(failures), "failures": failures}


def load_shim(folder: Path) -> None:
    """Compile the library and start this program again with it."""
    library = folder / "shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "shim.c"), "-ldl"], check=True)
    threads = {"OMP_NUM_THREADS": "1", "PIXTREE_THREADS": "1"}  # a fork has no others
    loaded = {**os.environ, **threads, "LD_PRELOAD": str(library), LOADED: str(folder)}
    os.execve(sys.executable, [sys.executable, *sys.argv], loaded)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="only every n-th fault")
    parser.add_argument("--job", action="append", help="only jobs whose name begins so")
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    if LOADED not in os.environ:
        load_shim(Path(tempfile.mkdtemp(prefix="pixtree-faults-")))
    home = Path(os.environ[LOADED])
    (home / "tmp").mkdir()
    tempfile.tempdir = str(home / "tmp")
    rows = [injected(name, home, asked.every) for name in JOBS if not asked.job or any(map(name.startswith, asked.job))]
    subprocess.run(["rm", "-rf", str(home)], check=True)
    write(rows, asked.every, asked.output)


def write(rows: list[dict[str, Any]], every: int, output: Path) -> None:
    """The record."""
    from evidence.records import provenance, write_record

    faults, wrong = (sum(row[name] for row in rows) for name in ("faults", "wrong"))
    shown = [{name: value for name, value in row.items() if name != "failures"} for row in rows]
    record = {
        "benchmark": "table",
        "title": "System calls that fail",
        "columns": [
            ["job", "Job", ""],
            ["calls", "Calls", ",d"],
            ["faults", "Injected faults", ",d"],
            ["done", "Done all the same", ",d"],
            ["refused", "Refused in one line", ",d"],
            ["killed", "Killed", ",d"],
            ["wrong", "Wrong after a rerun", "d"],
        ],
        "rows": shown,
        "failures": [failure for row in rows for failure in row["failures"]],
        "bars": [{"what": "wrong or additional files after a rerun", "wanted": "0", "found": wrong, "met": wrong == 0}],
        "notes": [
            f"{faults:,} faults: each open, read, write, flush and rename below the folder of the results and the temporary folder "
            "fails once with ENOSPC, EIO and EMFILE, and once ends the process; a write after half of its bytes. Calls that the "
            "C library makes for itself are not among them."
        ],
    }
    command = f"python benchmarks/faults/run.py{f' --every {every}' if every > 1 else ''} -o faults.json"
    write_record({**record, **provenance(command, ("pixtree", "pyarrow", "safetensors"))}, output)


if __name__ == "__main__":
    main()
