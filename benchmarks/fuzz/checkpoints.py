"""Mutated checkpoints against the loader: what is refused, read, crashes, hangs or takes much memory.

    python benchmarks/fuzz/checkpoints.py --inputs 5000 -o benchmarks/results/fuzz_checkpoints.json

Inputs are mutations of one small checkpoint: the bytes of either file, or values of the config, which then is intact JSON. A
checkpoint is *refused* by a ValueError of one line. Any other error and any end of the process is a *crash*, more than --seconds
is a *hang*. A process of its own takes the inputs in turn, and is replaced if it ends.
"""

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

import numpy as np
from evidence.records import provenance, write_record
from mutated_files import MUTATIONS

CONFIG, WEIGHTS = "config.json", "model.safetensors"
SMALL = {"embed_dim": 48, "depth": 2, "num_heads": 3, "num_classes": 7, "img_size": 64}
VALUES = (
    None,
    True,
    0,
    -1,
    1,
    3,
    1.5,
    255,
    4096,
    1_000_000,
    3_000_000,
    1 << 31,
    10**30,
    "",
    "x",
    "token",
    [],
    [1],
    [[]],
    {},
    {"a": 1},
)
MOST_MEGABYTES = 256  # more than before the first mutated input
PACKAGES = ("pixtree", "timm", "torch", "safetensors", "pydantic", "numpy")


def original(folder: Path) -> dict[str, bytes]:
    """The files of an intact checkpoint."""
    import pixtree

    pixtree.retrofit("vit_tiny_patch16_224", tokens=9, **SMALL).save_pretrained(folder)
    return {name: (folder / name).read_bytes() for name in (CONFIG, WEIGHTS)}


def with_other_values(config: Any, random: np.random.Generator) -> Any:
    """The config after one to three of its values, at any depth, are replaced, removed or joined by new ones."""
    for _ in range(int(random.integers(1, 4))):
        place = config
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = keys[int(random.integers(len(keys)))]
            if isinstance(place[key], dict | list) and random.random() < 0.7:
                place = place[key]
                continue
            match int(random.integers(3)):
                case 0:
                    del place[key]
                case 1 if isinstance(place, dict):
                    place[str(random.integers(10))] = VALUES[int(random.integers(len(VALUES)))]
                case _:
                    place[key] = VALUES[int(random.integers(len(VALUES)))]
            break
    return config


def mutated(files: dict[str, bytes], seed: int, index: int) -> tuple[str, dict[str, bytes]]:
    """Input number `index` of a run: what is mutated, and the files."""
    random = np.random.default_rng([seed, index])
    if random.random() < 0.5:
        return "values", {**files, CONFIG: json.dumps(with_other_values(json.loads(files[CONFIG]), random)).encode()}
    name = CONFIG if random.random() < 0.5 else WEIGHTS
    content = bytearray(files[name])
    for _ in range(int(random.integers(1, 4))):
        if content:
            content = MUTATIONS[int(random.integers(len(MUTATIONS)))](content, random, files[CONFIG])
    return name, {**files, name: bytes(content)}


def verdict(folder: Path) -> tuple[str, str]:
    """What becomes of a checkpoint: "read", "refused" or "crashed", and the reason."""
    from pixtree.models import PixtreeViT

    try:
        PixtreeViT.from_pretrained(folder)
    except ValueError as fault:
        text = str(fault)
        return ("refused", text) if text and "\n" not in text else ("crashed", f"a message of several lines: {text!r}")
    except BaseException as fault:  # whatever it is, no file may raise it
        return "crashed", f"{type(fault).__name__}: {fault}"
    return "read", ""


def peak() -> float:
    """The most memory that this process has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def work(pipe: Connection, seed: int, home: str) -> None:
    """Take numbers of inputs from the pipe, and return the verdict on each with the peak of memory since the first."""
    import warnings

    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    folder = Path(home)
    files = original(folder)
    verdict(folder)
    before = peak()
    pipe.send("ready")
    while (index := pipe.recv()) is not None:
        kind, changed = mutated(files, seed, index)
        for name, content in changed.items():
            (folder / name).write_bytes(content)
        pipe.send((kind, *verdict(folder), peak() - before))


def counted(inputs: int, seed: int, seconds: float) -> tuple[Counter[str], list[dict[str, Any]], float]:
    """Counts of verdicts, the inputs that crashed or hung, and the peak of memory in megabytes."""
    context = multiprocessing.get_context("spawn")
    counts: Counter[str] = Counter()
    faults, most, index = [], 0.0, 0
    while index < inputs:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as home:
            pipe, theirs = context.Pipe()
            process = context.Process(target=work, args=(theirs, seed, home), daemon=True)
            process.start()
            theirs.close()
            pipe.recv()
            while index < inputs:
                pipe.send(index)
                kind, outcome, reason = "any", "hung", f"more than {seconds:g} s"
                try:
                    if pipe.poll(seconds):
                        kind, outcome, reason, used = pipe.recv()
                        most = max(most, used)
                except (EOFError, ConnectionError):
                    outcome, reason = "crashed", "the process ended"
                counts[f"{kind} {outcome}"] += 1
                if outcome in ("crashed", "hung"):
                    faults.append({"input": index, "kind": kind, "outcome": outcome, "reason": reason[:300]})
                index += 1
                if kind == "any":
                    break
            process.kill()
            process.join()
    return counts, faults, most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--inputs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    counts, faults, most = counted(options.inputs, options.seed, options.seconds)
    outcomes = ("read", "refused", "crashed", "hung")
    rows = [
        {"what": what, **{name: counts[f"{what} {name}"] for name in outcomes}}
        for what in ("values", CONFIG, WEIGHTS, "any")
        if any(counts[f"{what} {name}"] for name in outcomes)
    ]
    record = {
        "benchmark": "table",
        "title": "Mutated checkpoints",
        **provenance("python benchmarks/fuzz/checkpoints.py --inputs 5000 -o benchmarks/results/fuzz_checkpoints.json", PACKAGES),
        "columns": [["what", "Mutated", ""], *([name, name.capitalize(), "d"] for name in outcomes)],
        "rows": rows,
        "bars": [
            {"what": "crashes and hangs", "wanted": "0", "found": len(faults), "met": "yes" if not faults else "no"},
            {
                "what": "peak memory above that of the intact checkpoint, MB",
                "wanted": f"≤ {MOST_MEGABYTES}",
                "found": round(most, 1),
                "met": "yes" if most <= MOST_MEGABYTES else "no",
            },
        ],
        "faults": faults,
    }
    write_record(record, options.output)
    print(rows, record["bars"], faults[:10])


if __name__ == "__main__":
    main()
