"""Seconds of drawings: this version of pixtree, an older one if PIXTREE_BEFORE names its source tree, and vtracer, in turn.

Every version of pixtree runs in a child process of its own, which keeps its compiled code: `python vector_speed.py` draws the
pictures that it is told to on the standard input and answers with seconds.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from versions import Version

from pixtree.evaluation.vectors import shown, vtracer_method
from pixtree.tasks.vectorize import vectorize

OWN: dict[str, dict[str, Any]] = {"own": {"paths": 5000}, "fast": {"paths": 5000, "fast": True}}
COLUMNS = [
    ["image", "Image", ""],
    ["megapixels", "Megapixels", ".2f"],
    ["vtracer", "vtracer's defaults, s", ".2f"],
    ["own", "5,000 paths, s", ".2f"],
    ["own_ratio", "× vtracer", ".2f"],
    ["fast", "5,000 paths, fast, s", ".2f"],
    ["fast_ratio", "× vtracer", ".2f"],
    ["before", "Version 0.1, 5,000 paths, s", ".2f"],
    ["before_ratio", "× version 0.1", ".2f"],
]


def timed(paths: list[Path], rounds: int) -> list[dict[str, Any]]:
    """Rows of COLUMNS: the least seconds of all rounds per picture and program, and their ratios."""
    here, before = Version(Path(__file__).parents[1], __file__), os.environ.get("PIXTREE_BEFORE")
    older = Version(Path(before), __file__) if before else None
    rows = []
    for path in paths:
        picture = shown(path)
        best: dict[str, float] = {}
        for _ in range(rounds):
            found = {"vtracer": vtracer_seconds(picture)}
            found |= {name: here.seconds(json.dumps([str(path), options])) for name, options in OWN.items()}
            if older is not None:
                found["before"] = older.seconds(json.dumps([str(path), OWN["own"]]))
            best = {name: min(found[name], best.get(name, found[name])) for name in found}
        row = {"image": path.name, "megapixels": picture.shape[0] * picture.shape[1] / 1e6, **best}
        row |= {f"{name}_ratio": best[name] / best["vtracer"] for name in OWN}
        rows.append(row | ({"before_ratio": best["own"] / best["before"]} if older is not None else {}))
        print(rows[-1], file=sys.stderr, flush=True)
    for version in (here, older):
        if version is not None:
            version.close()
    return rows


def vtracer_seconds(picture: Any) -> float:
    """Wall-clock time of vtracer at its defaults."""
    method = vtracer_method("defaults")
    ready = method.prepare(picture)
    start = time.perf_counter()
    method.convert(ready)
    return time.perf_counter() - start


def answer() -> None:
    """Draw what the standard input asks for, line by line."""
    for line in sys.stdin:
        path, options = json.loads(line)
        picture = shown(Path(path))
        start = time.perf_counter()
        str(vectorize(picture, **options))
        print("seconds", time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    answer()
