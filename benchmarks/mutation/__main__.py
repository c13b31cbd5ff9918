"""Mutation testing: `make mutate`, or `python benchmarks/mutation [--count 300] [--workers 2]`.

Changes one place of a source at a time and looks whether a test notices. A first run of the suite under coverage finds out which
tests run which line; every mutant then runs against those, in a process of its own that ends at the first failure. Results are
kept one by one, so that the same command continues where it was interrupted. Survivors that no test can tell from the original
are explained in `benchmarks/mutation/explained.json`, by the changed line.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutants import Mutant, mutants_of
from preparing import RESULTS, UNPROVEN, package_state, prepare
from processes import CONTROL, Job, end, load_libraries, outcome, start
from reach import Reach, Sources

ROOT = Path(__file__).parents[2]
MEASURES = ("src/pixtree", "tests")  # which processes of its own load
FOLDERS = ("trees", "tokenizer", "kernels", "vector")
EXPLAINED = Path(__file__).parent / "explained.json"
KILLED = ("failed", "timed out", "crashed")
COLUMNS = [
    ["folder", "Folder", ""],
    ["mutants", "Changes", ""],
    ["killed", "Noticed", ""],
    ["score", "Share", ".3f"],
    ["failed", "a test failed", ""],
    ["timed out", "no end", ""],
    ["crashed", "crashed", ""],
    ["survived", "Not noticed", ""],
    ["not covered", "run by no test", ""],
    ["explained", "of these explained", ""],
]


def all_mutants() -> list[Mutant]:
    source = ROOT / "src"
    # Of kernels the definitions alone: every change of a compiled file costs minutes of compilation.
    patterns = {folder: "definition.py" if folder == "kernels" else "*.py" for folder in FOLDERS}
    paths = sorted(path for folder, pattern in patterns.items() for path in (source / "pixtree" / folder).rglob(pattern))
    return [one for path in paths for one in mutants_of(path.relative_to(source).as_posix(), path.read_text(encoding="utf-8"))]


def drawn(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """A sample in which an edit of the sources exchanges few mutants: each draws its own number, from its text alone."""
    seen: Counter[str] = Counter()
    numbers = {}
    for one in mutants:
        text = f"{seed}|{one.path}|{one.operator}|{one.before}|{one.after}"
        seen[text] += 1
        numbers[one.key] = sha256(f"{text}|{seen[text]}".encode()).hexdigest()
    return sorted(mutants, key=lambda one: numbers[one.key])[:count]


def run(jobs: list[Job], folder: Path, copy: Path, cache: Path, reach: Reach, workers: int) -> None:
    """Run all jobs, `workers` at a time; results go to results.jsonl as they come."""
    waiting, running = list(reversed(jobs)), {}
    while waiting or running:
        while waiting and len(running) < workers:
            job = waiting.pop()
            if job.tests:
                running[start(job, folder, copy, cache, ROOT, reach.seconds)] = (job, time.time())
            else:
                keep(folder, job, "not covered", 0.0)
        if running:
            child, status = os.wait()
            job, began = running.pop(child)
            end(child)
            own = folder / f"mutant-{job.number}"
            keep(folder, job, outcome(status, own), time.time() - began)
            shutil.rmtree(own / "cache", ignore_errors=True)


def keep(folder: Path, job: Job, result: str, seconds: float) -> None:
    row = {"key": job.key, "source": package_state(ROOT), "outcome": result, "tests": len(job.tests), "seconds": round(seconds, 1)}
    with (folder / RESULTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    place = CONTROL if job.mutant is None else f"{job.mutant.path}:{job.mutant.line}"
    print(f"{job.number:4d} {result:12s} {seconds:6.1f} s  {len(job.tests):4d} tests  {place}", flush=True)
    if job.mutant is not None and result not in KILLED:
        print(f"     [{job.mutant.operator}] {job.mutant.before}\n     -> {job.mutant.after}", flush=True)
    if job.mutant is None and result == "survived":
        (folder / UNPROVEN).unlink()
    elif job.mutant is None:
        raise SystemExit(f"tests fail without any change, so they can notice none; see {folder}/mutant-{job.number}/output.txt")


def explanations() -> dict[tuple[str, str, str], str]:
    """Why no test can tell a change from the original, by the changed line."""
    explained = json.loads(EXPLAINED.read_text(encoding="utf-8"))
    return {(one["path"], one["before"], one["after"]): one["reason"] for one in explained}


def report(sample: list[Mutant], rows: dict[str, dict], total: int, reach: Reach, arguments: argparse.Namespace) -> dict:
    """The score per folder, and every survivor with its explanation if it has one."""
    reasons = explanations()
    survivors = [
        {**one.record(), "outcome": rows[one.key]["outcome"], "reason": reasons.get((one.path, one.before, one.after))}
        for one in sample
        if rows[one.key]["outcome"] not in KILLED
    ]
    table = []
    for name in (*FOLDERS, "all"):
        own = [one for one in sample if name == "all" or one.path.startswith(f"pixtree/{name}/")]
        counts = Counter(rows[one.key]["outcome"] for one in own)
        killed = sum(counts[outcome] for outcome in KILLED)
        equivalent = sum(
            one["reason"] is not None for one in survivors if name == "all" or one["path"].startswith(f"pixtree/{name}/")
        )
        score = killed / max(len(own), 1)
        table.append({"folder": name, "mutants": len(own), "killed": killed, "score": score, "explained": equivalent, **counts})
    return {
        "columns": COLUMNS,
        "rows": table,
        "notes": [
            f"{len(sample)} of {total} possible changes, drawn with seed {arguments.seed}: comparisons, arithmetic, constants, "
            "conditions, arguments, returned values and removed statements. A change is noticed if a test that runs it fails, "
            "crashes or does not end. Those that no test can notice, because they change no result, are explained in the record.",
            f"The processes of all mutants took {sum(rows[one.key]['seconds'] for one in sample) / 60:.0f} minutes in sum.",
        ],
        "seed": arguments.seed,
        "tests": len(reach.tests),
        "tests_left_out": reach.left_out,
        "survivors": survivors,
    }


def stored(folder: Path) -> dict[str, dict]:
    """Results that were found with the same package; a test that is added kills no less."""
    path, source = folder / RESULTS, package_state(ROOT)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    return {row["key"]: row for row in rows if row["source"] == source}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="mutants in the sample")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "mutation", help="where runs keep what they know")
    parser.add_argument("--again", action="store_true", help="run survivors that are not explained again, after new tests")
    parser.add_argument("--only", default="", help="mutants of paths that begin so, such as trees/criteria (for trying the tool)")
    parser.add_argument("--tests", nargs="*", default=[], help="only these tests, which makes the score a lower bound")
    parser.add_argument("-o", "--output", type=Path, help="JSON with the score")
    arguments = parser.parse_args()
    began = time.time()
    folder = arguments.folder.resolve()
    load_libraries(ROOT / "src" / "pixtree")
    earlier = stored(folder)
    copy, cache = prepare(ROOT, folder, arguments.tests)
    everything = [one for one in all_mutants() if one.path.startswith(f"pixtree/{arguments.only}")]
    sample = drawn(everything, arguments.count, arguments.seed)
    sources = Sources.of(ROOT / "src" / "pixtree")
    reach = Reach(folder / "record.json", sources)
    hopeless = {one.key for one in sample if (one.path, one.before, one.after) in explanations()}
    done = {key: row for key, row in earlier.items() if row["outcome"] in KILLED or not arguments.again or key in hopeless}
    rewrite(folder, done)
    # Tests that fail in another order, or in a process like those of the mutants, would fail for every one of them.
    unproven = json.loads((folder / UNPROVEN).read_text(encoding="utf-8")) if (folder / UNPROVEN).is_file() else []
    jobs = [Job(len(sample), None, reach.of_files(unproven), set())] if unproven else []
    jobs += [Job(n, one, reach.covering(one), sources.stale(one)) for n, one in enumerate(sample) if one.key not in done]
    print(f"{len(everything)} mutants, {len(sample)} in the sample, {len(jobs)} to run", flush=True)
    run(jobs, folder, copy, cache, reach, arguments.workers)
    found = report(sample, stored(folder), len(everything), reach, arguments)
    print(f"{time.time() - began:.0f} s", *found["rows"], sep="\n")
    for one in found["survivors"]:
        print(f"{one['path']}:{one['line']} [{one['operator']}] {one['before']}\n    -> {one['after']}   {one['reason'] or ''}")
    if arguments.output:
        write(found, arguments)


def rewrite(folder: Path, rows: dict[str, dict]) -> None:
    (folder / RESULTS).write_text("".join(json.dumps(row) + "\n" for row in rows.values()), encoding="utf-8")


def write(found: dict, arguments: argparse.Namespace) -> None:
    """In another process: this one has never loaded pixtree, so that its children may load mutants of it."""
    code = (
        "import json, sys; from evidence.records import provenance, write_record; "
        "head = {'benchmark': 'table', 'title': 'Changes of the sources that the tests notice'}; "
        "write_record({**head, **provenance(sys.argv[2]), **json.load(sys.stdin)}, sys.argv[1])"
    )
    command = f"python benchmarks/mutation --count {arguments.count} --seed {arguments.seed} --workers {arguments.workers}"
    command += "".join(f" {word}" for word in ("--tests", *arguments.tests) if arguments.tests)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT / "benchmarks")))}
    call = [sys.executable, "-c", code, str(arguments.output), command]
    subprocess.run(call, env=environment, input=json.dumps(found), text=True, check=True)


if __name__ == "__main__":
    main()
