"""Training by two processes that are killed at random: one of them alone, whose other must end with a sentence, or both.

    python benchmarks/training_kills.py -o benchmarks/results/training_kills.json

The recipe `finetune` trains a tiny model on crops of scikit-image's photos. A run is killed with SIGKILL at a random moment after
it has begun to train, and started again with --resume, again and again; then a last one ends it. Weights and losses must be those
of an undisturbed run. The processes have the variables that `torchrun` sets, but come from a server that has imported torch.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import socket
import sys
import tempfile
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
from evidence.records import provenance, write_record
from skimage import data

PHOTOS = ("astronaut", "coffee", "chelsea", "rocket")
RANKS = 2
TINY = {"depth": 1, "embed_dim": 24, "num_heads": 2}
CHANGES = {
    "model.name": "pixtree_paper_vit_tiny",
    "model.arguments": json.dumps(TINY),
    "model.classes": len(PHOTOS),
    "model.image_size": 32,
    "model.drop_path": 0.0,
    "schedule.batch": 4,
    "schedule.warmup": 0.5,
    "schedule.rate.base": 0.001,
}
PATIENCE = 60.0  # seconds after which the process that is left hangs
METHODS = ("one process", "both processes")


def write_photos(folder: Path, each: int) -> Path:
    """Crops of 40 px, a class for each photo."""
    generator = np.random.default_rng(0)
    for name in PHOTOS:
        photo = getattr(data, name)()
        for part, count in (("train", each), ("val", 1)):
            (folder / part / name).mkdir(parents=True)
            for number in range(count):
                top, left = (int(generator.integers(length - 40)) for length in photo.shape[:2])
                PIL.Image.fromarray(photo[top : top + 40, left : left + 40]).save(folder / part / name / f"{number}.png")
    return folder


def write_start(folder: Path) -> Path:
    """The model that all runs begin with."""
    import torch

    from pixtree.training.learners import keep, learner_of
    from pixtree.training.recipe import Model

    folder.mkdir()
    torch.manual_seed(0)
    model = Model(name=CHANGES["model.name"], image_size=32, arguments=TINY)
    keep(learner_of(model, len(PHOTOS)), model, folder)
    return folder


def train(words: list[str], output: str, environment: dict[str, str]) -> None:
    """One process of a run, which leaves what it prints in a file."""
    os.environ.update(environment)
    multiprocessing.set_start_method("fork", force=True)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    from pixtree.cli.main import app

    app(words)


def started(words: list[str], made: Path) -> list[BaseProcess]:
    """The processes of a run."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(one.getsockname()[1]), "OMP_NUM_THREADS": "1"}
    shared |= {"WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS)}
    context = multiprocessing.get_context("forkserver")
    resumed = ["--resume"] if (made / "checkpoint.pt").exists() else []
    team: list[BaseProcess] = []
    for rank in range(RANKS):
        own = shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        team.append(context.Process(target=train, args=([*words, "-o", str(made), *resumed], f"{made}-{rank}.txt", own)))
        team[-1].start()
    return team


def steps_of(made: Path) -> int:
    """Lines of the log."""
    log = made / "log.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def killed(words: list[str], made: Path, method: str, chance: random.Random, longest: float) -> str | None:
    """Kill a run after it has begun to train; what became of the process that was left, "" if it ended as it should.

    None if the run was over before.
    """
    team, before = started(words, made), steps_of(made)
    while all(one.is_alive() for one in team) and steps_of(made) <= before:
        time.sleep(0.01)
    time.sleep(chance.uniform(0.0, longest))
    victim = chance.randrange(RANKS)
    if not all(one.is_alive() for one in team):
        for one in team:
            one.join()
        return None
    for rank, one in enumerate(team):
        if (rank == victim or method == METHODS[1]) and one.is_alive():
            os.kill(one.pid or 0, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    for one in team:
        one.join(max(0.0, deadline - time.monotonic()))
    hung = [one for one in team if one.is_alive()]
    for one in hung:
        one.kill()
        one.join()
    return "hung" if hung else fault_of(team, made)


def fault_of(team: list[BaseProcess], made: Path) -> str:
    """What is wrong with the end of the processes that were not killed."""
    for rank, one in enumerate(team):
        printed = Path(f"{made}-{rank}.txt").read_text(errors="replace")
        errors = [line for line in printed.splitlines() if line.startswith("error: ")]
        if one.exitcode not in (-signal.SIGKILL, 0) and (one.exitcode != 1 or len(errors) != 1 or "Traceback" in printed):
            return f"process {rank} ended with {one.exitcode}: {printed[-300:]!r}"
    return ""


def results(made: Path) -> dict[str, Any]:
    """What must be equal: the files of the model, and the loss of every step."""
    log = [json.loads(line) for line in (made / "log.jsonl").read_text().splitlines()]
    models = {path.relative_to(made).as_posix(): path.read_bytes() for path in sorted(made.rglob("*.safetensors"))}
    return models | {"losses": [(line["step"], line["loss"]) for line in log if "loss" in line]}


def disturbed(words: list[str], made: Path, method: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Kill a run as often as asked for, and let it end."""
    made.mkdir()
    chance, faults, kills = random.Random(asked.seed), [], 0
    for number in range(asked.kills):
        fault = killed(words, made, method, chance, asked.longest)
        if fault is None:
            break
        kills += 1
        faults += [fault] if fault else []
        print(f"{method}: kill {number + 1}, {steps_of(made)} steps {fault}", file=sys.stderr)
    ended = started(words, made)
    for one in ended:
        one.join()
    wrong = [fault for fault in faults if fault != "hung"] + [f"the last run: {one.exitcode}" for one in ended if one.exitcode]
    return {"method": method, "kills": kills, "hung": faults.count("hung"), "other_ends": len(wrong), "faults": wrong}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--longest", type=float, default=0.5, help="seconds of training after which a run is killed")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    multiprocessing.set_forkserver_preload(["pixtree.cli.main", "pixtree.training.running", "accelerate"])
    with tempfile.TemporaryDirectory(prefix="pixtree-") as folder:
        home = Path(folder)
        photos, start = write_photos(home / "photos", 16), write_start(home / "start")
        changes = {**CHANGES, "schedule.epochs": asked.steps * 4 / (16 * len(PHOTOS)), "schedule.every": 10}
        sets = [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
        words = ["train", "recipe", "finetune", str(photos), "--start", str(start), "--workers", "0", *sets]
        (home / "whole").mkdir()
        for rank, one in enumerate(started(words, home / "whole")):
            one.join()
            if one.exitcode:
                sys.exit(f"the undisturbed run failed: {Path(f'{home}/whole-{rank}.txt').read_text()}")
        expected, rows = results(home / "whole"), []
        for method in METHODS:
            made = home / method.replace(" ", "_")
            row = disturbed(words, made, method, asked)
            found = results(made)
            rows.append({**row, "different": sum(found.get(name) != value for name, value in expected.items())})
    write_record({**record_of(rows, asked), **provenance(command_of(asked), ("pixtree", "torch", "accelerate"))}, asked.output)


def command_of(asked: argparse.Namespace) -> str:
    return f"python benchmarks/training_kills.py --kills {asked.kills} --steps {asked.steps} -o training_kills.json"


def record_of(rows: list[dict[str, Any]], asked: argparse.Namespace) -> dict[str, Any]:
    """The table, without provenance."""
    totals = {name: sum(row[name] for row in rows) for name in ("kills", "hung", "other_ends", "different")}
    wanted = {
        "kills": ("kills", "≥ 100", totals["kills"] >= 100),
        "hung": ("runs whose other process did not end", "0", not totals["hung"]),
        "other_ends": ("processes that ended without one sentence", "0", not totals["other_ends"]),
        "different": ("model files and losses that differ from the undisturbed run", "0", not totals["different"]),
    }
    return {
        "benchmark": "table",
        "title": "Training by two processes: kills",
        "columns": [
            ["method", "Killed", ""],
            ["kills", "Kills", "d"],
            ["hung", "Hung", "d"],
            ["other_ends", "Ended without one sentence", "d"],
            ["different", "Files that differ", "d"],
        ],
        "rows": [{name: value for name, value in row.items() if name != "faults"} for row in rows],
        "failures": [fault for row in rows for fault in row["faults"]],
        "bars": [{"what": what, "wanted": bound, "found": totals[name], "met": met} for name, (what, bound, met) in wanted.items()],
        "notes": [
            f"{asked.steps} steps of four images of 32 px on two processes, with a checkpoint every ten. Random seed {asked.seed}; "
            f"a kill came up to {asked.longest:g} s after the first step of a process. Where one is killed, the other has "
            f"{PATIENCE:g} s to end."
        ],
    }


if __name__ == "__main__":
    main()
