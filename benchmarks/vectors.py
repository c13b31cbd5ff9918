"""Drawings: quality at budgets, hairlines, other sizes, speed beside vtracer, and growth with the size of the picture.

    PIXTREE_DATA=... python benchmarks/vectors.py            # about eight minutes: writes benchmarks/results/vectors*.json
    python benchmarks/vectors.py pictures FOLDER             # a photo beside its drawings, and at 500 to 5,000 paths

DiffVG's five images (native size, resvg over white), then pictures on which nothing was tuned: twelve photos and scikit-image's.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

from pixtree.evaluation.records import PACKAGES, provenance, write_record
from pixtree.evaluation.vectors import (
    VTRACER,
    at_size,
    compare,
    decibels,
    mean_squared_error,
    own_method,
    plot_rate_distortion,
    rendered,
    shown,
    summary,
    vtracer_method,
)
from pixtree.tasks.vectorize import vectorize

RESULTS = Path(__file__).parent / "results"
SUFFIXES = (".png", ".jpg")
SETTINGS = ("photo", "coarse")  # of vtracer, at bytes that a drawing may take
BUDGETS = {
    "pixtree 1000 paths": {"paths": 1000},
    "pixtree 5000 paths": {"paths": 5000},
    "pixtree 5000 paths, linear": {"paths": 5000, "fill": "linear"},
    "pixtree 5000 paths, fast": {"paths": 5000, "fast": True},
    "pixtree 300 kB": {"bytes": 300_000},
    "pixtree 1 MB": {"bytes": 1_000_000},
}


def folder_of(name: str) -> list[Path]:
    folder = Path(os.environ["PIXTREE_DATA"]) / name
    return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)


def bundled_photos(folder: Path) -> list[Path]:
    """scikit-image's colour photos as files."""
    import PIL.Image
    from skimage import data

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in ("astronaut", "chelsea", "coffee"):
        paths.append(folder / f"{name}.png")
        PIL.Image.fromarray(getattr(data, name)()).save(paths[-1])
    return paths


def record(name: str, title: str, rows: list, **more: object) -> None:
    heading = {
        "benchmark": "vectors",
        "title": title,
        **provenance("python benchmarks/vectors.py", (*PACKAGES, "vtracer", "resvg-py")),
    }
    write_record({**heading, **more, "rows": summary(rows), "images": rows}, RESULTS / f"{name}.json")


def at_equal_bytes(images: list[Path]) -> list[dict]:
    """Lead in decibels over vtracer's best setting per image, at no more bytes than that setting takes."""
    found = []
    for path in images:
        picture = shown(path)
        for setting in SETTINGS:
            rival = vtracer_method(setting)
            text = rival.convert(rival.prepare(picture))
            theirs = decibels(mean_squared_error(rendered(text), picture))
            size = len(text.encode())
            own = vectorize(picture, bytes=size)
            ours = decibels(mean_squared_error(rendered(str(own)), picture))
            found.append(
                {"image": path.name, "setting": setting, "bytes": size, "own_bytes": own.bytes, "vtracer": theirs, "pixtree": ours}
            )
    return found


def leads(rows: list[dict]) -> dict[str, float]:
    """Mean lead of every setting, and the least of them: vtracer's best."""
    by_setting = {
        s: float(np.mean([r["pixtree"] - r["vtracer"] for r in rows if r["setting"] == s])) for s in {r["setting"] for r in rows}
    }
    return by_setting | {"least": min(by_setting.values())}


def speed(images: list[Path], rounds: int = 2) -> list[dict]:
    """Seconds of one conversion, methods in turn, least of the rounds; and their ratio to vtracer's defaults on the same image."""
    methods = [vtracer_method("defaults"), own_method("pixtree 5000 paths", paths=5000), own_method("fast", paths=5000, fast=True)]
    rows = []
    for path in images:
        picture = shown(path)
        best = dict.fromkeys((m.name for m in methods), float("inf"))
        for _ in range(rounds):
            for method in methods:
                ready = method.prepare(picture)
                start = time.perf_counter()
                method.convert(ready)
                best[method.name] = min(best[method.name], time.perf_counter() - start)
        base = best["vtracer defaults"]
        rows.append({"image": path.name, "seconds": best, "ratio": {name: value / base for name, value in best.items()}})
    return rows


def growth() -> list[dict]:
    """Bytes per pixel and seconds of a photo at 3 and 12 megapixels, with paths in proportion to the pixels."""
    import cv2
    from skimage import data

    rows = []
    for megapixels in (3, 12):
        side = int((megapixels * 1e6) ** 0.5)
        picture = cv2.resize(data.astronaut(), (side, side), interpolation=cv2.INTER_CUBIC)
        start = time.perf_counter()
        drawing = vectorize(picture, paths=int(megapixels * 1000))
        seconds = time.perf_counter() - start
        rows.append({"megapixels": megapixels, "bytes_per_pixel": drawing.bytes / side**2, "seconds": seconds})
    return rows


def with_inset(picture: np.ndarray, text: str | None, box: tuple[int, int, int], zoom: int = 4) -> np.ndarray:
    """A picture, or a drawing of its size, and below it a square `box` (top, left, side) enlarged to the full width."""
    import cv2

    height, width = picture.shape[:2]
    top, left, side = box
    whole = picture if text is None else at_size(text, (height, width))
    if text is None:
        close = np.kron(picture[top : top + side, left : left + side], np.ones((zoom, zoom, 1), np.uint8))
    else:
        close = at_size(text, (height * zoom, width * zoom))[top * zoom : (top + side) * zoom, left * zoom : (left + side) * zoom]
    return np.vstack((whole, cv2.resize(close, (width, width), interpolation=cv2.INTER_AREA)))


def pictures(folder: Path) -> None:
    """A photo beside its drawings with enlarged parts, and the photo at 500 to 5,000 paths."""
    from PIL.Image import fromarray
    from skimage import data

    folder.mkdir(parents=True, exist_ok=True)
    photo, box = data.coffee(), (150, 330, 150)
    rival = vtracer_method("defaults")
    texts = [None, str(vectorize(photo, paths=5000)), rival.convert(rival.prepare(photo))]
    fromarray(np.hstack([with_inset(photo, text, box) for text in texts])).save(folder / "vectors_beside_vtracer.png")
    steps = [at_size(str(vectorize(photo, paths=count)), photo.shape[:2]) for count in (500, 1000, 2000, 5000)]
    fromarray(np.vstack((np.hstack(steps[:2]), np.hstack(steps[2:])))).save(folder / "vectors_500_to_5000.png")


def main() -> None:
    vectorize(np.zeros((8, 8, 3), np.uint8))  # compile outside the clock
    diffvg, title = folder_of("diffvg5"), "Drawings of DiffVG's five images"
    rows = list(compare(diffvg, [own_method(name, **options) for name, options in BUDGETS.items()]))
    record("vectors", title, rows)
    times = speed(diffvg)
    record("vectors", title, rows, speed=times)
    rows += compare(diffvg, [vtracer_method(setting) for setting in VTRACER], sizes=())
    plot_rate_distortion(summary(rows), RESULTS / "vectors.png")
    sizes = growth()
    record("vectors", title, rows, speed=times, growth=sizes)
    found = at_equal_bytes(folder_of("dht_testimgs")[::2] + bundled_photos(Path("out") / "photos"))
    heading = {"benchmark": "vectors_others", "title": "Drawings beside vtracer at equal bytes, photos nothing was tuned on"}
    source = provenance("python benchmarks/vectors.py", (*PACKAGES, "vtracer", "resvg-py"))
    write_record({**heading, **source, "lead": leads(found), "rows": found}, RESULTS / "vectors_others.json")


if __name__ == "__main__":
    sys.exit(pictures(Path(sys.argv[2])) if sys.argv[1:2] == ["pictures"] else main())
