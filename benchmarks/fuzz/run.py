"""Mutated files against everything that reads them: what is refused, read, crashes, hangs, leaks, or takes much memory.

    python benchmarks/fuzz/run.py --inputs 100000 -o benchmarks/results/fuzz.json
    python benchmarks/fuzz/run.py --kind containers --inputs 100000 --state out/fuzz_containers.jsonl -o \\
        benchmarks/results/fuzz_containers.json

Images are read and cut into regions. Containers are tar shards and parquet files, whose images are all read, tree files, which are
cut, and files of a batch manifest, with which a finished run goes on.

Processes take turns at blocks of inputs, each of which is written to a file and read. A file is *refused* by a ValueError of one
line, as the library promises. Any other error and any end of the process is a *crash*, and more than --seconds of processor time
is a *hang*. After every block a process counts its open files, the files in its folder and its memory. Finished blocks are kept in
--state, so that the same command goes on after an interruption.
"""

import argparse
import gc
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

import mutated_containers
import mutated_files
from evidence.records import provenance, write_record

BLOCK = 500
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # where flushing a file, as batch runs do, costs nothing
MOST_PIXELS = 1 << 20  # the guard against bombs, set as --max-pixels does, so that a run needs little memory
TOKENS = 8
MOST_MEMORY = 1 << 30  # bytes that a process may ever have held, with torch, pyarrow and all kernels loaded
GROWTH = 1.1  # of a process's memory from its second quarter to its last that still counts as flat
KINDS = {"images": mutated_files, "containers": mutated_containers}
TITLES = {"images": "Mutated image files", "containers": "Mutated archives, tree files and manifests"}
GUARDS = ("an image file may have at most", "may decode to at most", "may have at most", "that unpacks to")  # of messages

NOTES = {
    "images": (
        "Random seed {seed}; input i is made from the seed and i alone. An input is a file of 16 to 48 pixels, one to three "
        "mutations away from a whole one; {large:,} of the refused were refused by the guard against decompression bombs, here at "
        f"{MOST_PIXELS:,} pixels. An input that takes more than {{seconds:g}} processor seconds counts as hung. Files that could "
        f"be read were cut into {TOKENS} regions."
    ),
    "containers": (
        "Random seed {seed}; input i is made from the seed and i alone, one to three mutations away from a whole file, with "
        "checksums of archives mostly made right again; {large:,} of the refused were refused by the guard against files that "
        f"unpack to much, here at {mutated_containers.MOST_BYTES:,} bytes. An input that takes more than {{seconds:g}} processor "
        "seconds counts as hung. With a mutated manifest, a finished run must go on and have the right results."
    ),
}


def verdict(path: Path) -> tuple[str, str]:
    """What becomes of a file: "read", "refused" or "crashed", and the reason."""
    import pixtree
    from pixtree.images import checked

    try:
        picture = checked(path)
    except ValueError as fault:
        text = str(fault)
        return ("refused", text) if text and "\n" not in text else ("crashed", f"a message of several lines: {text!r}")
    except BaseException as fault:  # whatever it is, no file may raise it
        return "crashed", f"{type(fault).__name__}: {fault}"
    try:
        labels = pixtree.segment(picture, tokens=TOKENS)
    except BaseException as fault:
        return "crashed", f"segment: {type(fault).__name__}: {fault}"
    wanted = min(TOKENS, picture.shape[-2] * picture.shape[-1])
    return ("read", "") if int(labels.max()) + 1 == wanted else ("crashed", f"{int(labels.max()) + 1} regions")


def held() -> dict[str, int]:
    """Open files, resident bytes, and most resident bytes so far of this process."""
    gc.collect()
    return {
        "open_files": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
        "bytes": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
    }


def work(pipe: Connection, kind: str, seed: int, folder: str) -> None:
    """Take blocks [first, end) from the pipe; tell the number of each input before it is touched, and the counts at the end."""
    import warnings

    import PIL.Image
    import torch

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # decoders have much to say about such files
    PIL.Image.MAX_IMAGE_PIXELS = MOST_PIXELS // 2  # it refuses above twice this number
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    from pixtree.images import bounds

    bounds.MAX_BYTES = mutated_containers.MOST_BYTES
    module: Any = KINDS[kind]
    judge = verdict if module is mutated_files else module.verdict
    files, place = module.originals(), Path(folder)
    for format, data in files:  # compile and load everything once, before memory is compared
        path = place / f"whole{module.FORMATS[format]}"
        path.write_bytes(data)
        judge(path)
        path.unlink()
    before = held()
    pipe.send(("ready", None))
    while (block := pipe.recv()) is not None:
        counts: Counter[str] = Counter()
        crashes = []
        for index in range(*block):
            pipe.send(("at", index))
            format, data = module.mutated(files, seed, index)
            path = place / f"input{module.FORMATS[format]}"
            path.write_bytes(data)
            outcome, reason = judge(path)
            path.unlink()
            counts[outcome] += 1
            counts[f"{format} {outcome}"] += 1
            counts["too large"] += any(words in reason for words in GUARDS)
            if outcome == "crashed":
                crashes.append({"input": index, "format": format, "reason": reason[:300]})
        after = held()
        leaked = len(list(place.iterdir())) + max(after["open_files"] - before["open_files"], 0)
        memory = {"bytes": after["bytes"], "peak": after["peak"]}
        pipe.send(("done", {"block": block[0], "counts": counts, "crashes": crashes, "leaked": leaked, **memory}))


class Process:
    """A process that works on blocks, and what it is doing."""

    def __init__(self, kind: str, seed: int, home: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.folder = tempfile.mkdtemp(dir=home)
        self.process = context.Process(target=work, args=(theirs, kind, seed, self.folder), daemon=True)
        self.process.start()
        theirs.close()
        self.block: tuple[int, int] | None = None
        self.at, self.since = -1, float("inf")  # until it is ready: the first process of all compiles the kernels

    def used(self) -> float:
        """Processor seconds of the process: a busy machine makes no input hang."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def give(self, block: tuple[int, int]) -> None:
        """Have a block done."""
        self.block, self.at = block, block[0]
        self.pipe.send(block)


def supervise(blocks: list[tuple[int, int]], kind: str, seed: int, workers: int, seconds: float, keep: Any, home: Path) -> None:
    """Have all blocks done; an input on which a process dies or hangs is a row of its own, and the rest of its block goes on."""
    waiting = list(reversed(blocks))
    team = [Process(kind, seed, home) for _ in range(min(workers, len(blocks)))]
    for one in team:
        one.give(waiting.pop())
    while team:
        ready = wait([one.pipe for one in team], timeout=1.0)
        for one in list(team):
            ended = None
            if one.pipe in ready:
                try:
                    message, value = one.pipe.recv()
                except (EOFError, ConnectionResetError):
                    ended = "crashed"
                else:
                    if message != "done":
                        one.at, one.since = (one.at if value is None else value), one.used()
                        continue
                    keep(value)
            elif one.process.is_alive() and one.used() - one.since > seconds:
                ended = "hung"
            else:
                continue
            if ended is not None:
                one.process.kill()
                one.process.join()
                block = one.block or (0, 0)
                print(f"input {one.at} {ended}", file=sys.stderr)
                keep({"block": block[0], "counts": {ended: 1}, "crashes": [{"input": one.at, "reason": ended}], "partial": True})
                # What the block had counted is gone with the process: its other inputs are done again in blocks around this one.
                waiting += [piece for piece in ((one.at + 1, block[1]), (block[0], one.at)) if piece[0] < piece[1]]
                team[team.index(one)] = one = Process(kind, seed, home)
            if waiting:
                one.give(waiting.pop())
            else:
                one.pipe.send(None)
                one.process.join(30)
                team.remove(one)


def summary(rows: list[dict[str, Any]], kind: str, seed: int, seconds: float) -> dict[str, Any]:
    """The record."""
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row["counts"])
    sizes = [row["bytes"] for row in rows if "bytes" in row]
    quarter = max(len(sizes) // 4, 1)
    early, late = max(sizes[quarter : 2 * quarter] or sizes), max(sizes[-quarter:])
    kinds = [
        {"format": format, **{name: total[f"{format} {name}"] for name in ("read", "refused", "crashed")}}
        for format in KINDS[kind].FORMATS
    ]
    sums = {name: total[name] for name in ("read", "refused", "crashed")}
    leaked = max(row.get("leaked", 0) for row in rows)
    peak = max(row.get("peak", 0) for row in rows)
    inputs = total["read"] + total["refused"] + total["crashed"] + total["hung"]
    return {
        "benchmark": "table",
        "title": TITLES[kind],
        "columns": [["format", "Format", ""], ["read", "Read", ",d"], ["refused", "Refused", ",d"], ["crashed", "Crashed", "d"]],
        "rows": [*kinds, {"format": "all", **sums}],
        "seed": seed,
        "inputs": inputs,
        "refused_as_too_large": total["too large"],
        "hung": total["hung"],
        "leaked_files": leaked,
        "megabytes": {"second quarter": early / 1e6, "last quarter": late / 1e6},
        "peak_megabytes": peak / 1e6,
        "failures": [crash for row in rows for crash in row["crashes"]],
        "bars": [
            {"what": "mutated inputs in one run", "wanted": "≥ 100,000", "found": inputs, "met": inputs >= 100_000},
            {"what": "crashed", "wanted": "0", "found": total["crashed"], "met": total["crashed"] == 0},
            {"what": "hung", "wanted": "0", "found": total["hung"], "met": total["hung"] == 0},
            {"what": "leaked files", "wanted": "0", "found": leaked, "met": leaked == 0},
            {
                "what": "memory, last quarter over second",
                "wanted": f"≤ {GROWTH}",
                "found": late / early,
                "met": late <= GROWTH * early,
            },
            {
                "what": "most memory of a process, MB",
                "wanted": f"≤ {MOST_MEMORY / 1e6:.0f}",
                "found": peak / 1e6,
                "met": peak <= MOST_MEMORY,
            },
        ],
        "notes": [NOTES[kind].format(seed=seed, seconds=seconds, large=total["too large"])],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=list(KINDS), default="images")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20.0, help="processor seconds that an input may take")
    parser.add_argument("--state", type=Path, default=Path("out/fuzz.jsonl"), help="finished blocks, for resuming")
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    asked.state.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in asked.state.read_text().splitlines()] if asked.state.exists() else []
    done = {row["block"] for row in rows if not row.get("partial")}
    blocks = [(first, min(first + BLOCK, asked.inputs)) for first in range(0, asked.inputs, BLOCK) if first not in done]
    start = time.monotonic()
    with asked.state.open("a") as state, tempfile.TemporaryDirectory(prefix="pixtree-fuzz-", dir=IN_MEMORY) as home:

        def keep(row: dict[str, Any]) -> None:
            rows.append(row)
            state.write(json.dumps(row) + "\n")
            state.flush()
            rate = sum(sum(one["counts"].get(name, 0) for name in ("read", "refused")) for one in rows) / (time.monotonic() - start)
            print(f"\r{len(rows)} of {len(blocks) + len(done)} blocks, {rate:.0f} inputs/s", end="", file=sys.stderr, flush=True)

        if blocks:
            supervise(blocks, asked.kind, asked.seed, asked.workers, asked.seconds, keep, Path(home))
    kind = "" if asked.kind == "images" else f"--kind {asked.kind} "
    command = (
        f"python benchmarks/fuzz/run.py {kind}--inputs {asked.inputs} --seed {asked.seed} --workers {asked.workers} -o fuzz.json"
    )
    write_record(
        {
            **summary(rows, asked.kind, asked.seed, asked.seconds),
            **provenance(command, ("pixtree", "pillow", "tifffile", "pyarrow")),
        },
        asked.output,
    )


if __name__ == "__main__":
    main()
