"""Drawings at 1.37 times their size: how much of the loss is that of the reference, which is a soft enlargement of pixels.

    PIXTREE_DATA=... python benchmarks/enlarged.py        # writes benchmarks/results/vectors_enlarged.json

A drawing has sharp edges at any size; the cubic enlargement with which it is compared has none. So every drawing is compared with
the cubic enlargement of its own pixels as well: that is what it would reach if it had no error at all at its own size.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from pixtree.evaluation.records import PACKAGES, provenance, write_record
from pixtree.evaluation.renderers import at_size
from pixtree.evaluation.vectors import resized, shown
from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import rendered, vectorize

RECORD = Path(__file__).parent / "results" / "vectors_enlarged.json"
SCALE, PATHS = 1.37, 5000
COLUMNS = [
    ["image", "Image", ""],
    ["psnr", "PSNR at 1×", ".2f"],
    ["enlarged", f"at {SCALE:g}×", ".2f"],
    ["lost", "Lost", ".2f"],
    ["without_error", f"At {SCALE:g}×, against its own pixels enlarged", ".2f"],
]


def measured(path: Path) -> dict[str, Any]:
    """A row of COLUMNS."""
    picture = shown(path)
    text = str(vectorize(picture, paths=PATHS))
    native, reference = rendered(text), resized(picture, SCALE)
    drawn = at_size(text, reference.shape[:2])
    own, enlarged = psnr(mean_squared_error(native, picture)), psnr(mean_squared_error(drawn, reference))
    without_error = psnr(mean_squared_error(drawn, resized(native, SCALE)))
    return {"image": path.name, "psnr": own, "enlarged": enlarged, "lost": own - enlarged, "without_error": without_error}


def main() -> None:
    folder = Path(os.environ["PIXTREE_DATA"]) / "diffvg5"
    rows = [measured(path) for path in sorted(folder.iterdir()) if path.suffix in (".png", ".jpg")]
    means = {key: float(np.mean([row[key] for row in rows])) for key in ("psnr", "enlarged", "lost", "without_error")}
    rows.append({"image": "mean", **means})
    notes = [
        f"{PATHS:,} paths. The reference at {SCALE:g}× is the image enlarged by cubic interpolation. The last column compares the "
        "drawing with the cubic enlargement of its own pixels, which is as near as a drawing with these edges comes to such a "
        "reference if it has no error at 1×."
    ]
    heading = {"benchmark": "table", "title": f"Drawings at {SCALE:g} times their size"}
    source = provenance("python benchmarks/enlarged.py", (*PACKAGES, "resvg-py"))
    write_record({**heading, **source, "columns": COLUMNS, "rows": rows, "notes": notes}, RECORD)
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
