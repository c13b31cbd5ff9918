"""Whether two versions of pixtree give the same results: `python benchmarks/compare_versions.py BEFORE AFTER`.

BEFORE and AFTER are source trees (with src/pixtree) or folders of installed packages (with pixtree). Each runs in a process of its
own, on 20 pictures that are generated or ship with scikit-image, through public names alone. The table counts, per case, the
results with equal bits and gives the largest difference, divided by the largest value of the array where that is above 1.
The exit code is 1 when labels or SVG files differ, or floats differ by more than the tolerance.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("labels", "trees", "tokens", "logits", "svg")
EXACT = ("labels", "svg")
PHOTOS = {"astronaut": 3, "coffee": 3, "chelsea": 3, "rocket": 2}  # crops of each
GREY = ("camera", "coins", "page")
SIDES = ((96, 128), (120, 90), (144, 144))
VIT = {"embed_dim": 48, "depth": 2, "num_heads": 3, "num_classes": 7}
SMALL_TOKENIZER = {"width": 48, "positions": 4, "patch": 8, "smallest_box": 8}
TOKENIZER_SIDE, MODEL_SIDE = 64, 64
Results = Iterator[tuple[str, str, Any]]  # case, part, value


def pictures() -> dict[str, np.ndarray]:
    """20 pictures (H, W) or (H, W, 3) uint8 of different sizes: crops of photos, and what photos never show."""
    from skimage import data

    found = {}
    for name, count in PHOTOS.items():
        photo = getattr(data, name)()
        for i in range(count):
            height, width = SIDES[i]
            top, left = (photo.shape[0] - height) * (i + 1) // 4, (photo.shape[1] - width) * (3 - i) // 4
            found[f"{name}-{i}"] = photo[top : top + height, left : left + width].copy()
    for name in GREY:
        found[name] = getattr(data, name)()[40:136, 60:172].copy()
    rows, columns = np.mgrid[:80, :110]
    random = np.random.default_rng(0)
    found["noise"] = random.integers(0, 256, (64, 72, 3), dtype=np.uint8)
    found["few-levels"] = random.choice(np.array([0, 1, 90, 91, 255], np.uint8), (40, 56, 3))  # ties abound
    found["constant"] = np.full((48, 60, 3), 100, np.uint8)
    found["checkerboard"] = np.repeat(((rows + columns) % 2 * 255).astype(np.uint8)[..., None], 3, axis=2)
    found["ramp"] = np.stack((rows * 3, columns * 2, (rows + columns) % 256), axis=2).astype(np.uint8)
    found["shapes"] = shapes(rows, columns)
    return found


def shapes(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A flat drawing with anti-aliased discs."""
    canvas = np.full((*rows.shape, 3), 250.0)
    for y, x, radius, colour in ((30, 40, 22, (200, 30, 40)), (50, 70, 18, (20, 90, 200)), (24, 84, 9, (0, 0, 0))):
        cover = np.clip(radius + 0.5 - np.hypot(rows - y, columns - x), 0, 1)[..., None]
        canvas = canvas * (1 - cover) + cover * np.array(colour)
    return np.rint(canvas).astype(np.uint8)


def label_results(picture: np.ndarray) -> Results:
    import pixtree

    height, width = picture.shape[:2]
    rows, columns = np.mgrid[:height, :width]
    disc = np.hypot(rows - height / 2, columns - width / 2) < 0.4 * min(height, width)
    cases: dict[str, dict[str, Any]] = {
        **{f"tokens={count}": {"tokens": count} for count in (1, 2, 20, 200, 1000)},
        **{f"criterion={name}": {"criterion": name} for name in ("aic", "aicc", "bic", "cic")},
        "criterion aicc, per pixel": {"budget": pixtree.Criterion("aicc", rule="pixel", nodes="levels")},
        "at_most=50": {"at_most": 50},
        "level=3": {"level": 3},
        **{f"{name}, 60": {"tokens": 60, "similarity": name} for name in ("ward", "gaussian", "cosine", "tanimoto")},
        "likelihood of 3 Ward rounds, 60": {"tokens": 60, "similarity": pixtree.Likelihood(0.25, 3)},
        "compactness, 60": {"tokens": 60, "compactness": 0.1},
        "squared error, 60": {"tokens": 60, "energy": "squared_error"},
        "floor, 60": {"tokens": 60, "floor": 1.0},
        "mask, 40": {"tokens": 40, "mask": disc},
        "mask, level=2": {"level": 2, "mask": disc},
        "relax, 20": {"tokens": 20, "relax": True},
        "relax, 200": {"tokens": 200, "relax": True},
        "relax and mask, 40": {"tokens": 40, "relax": True, "mask": disc},
        **{f"partitioner {name}": {"tokens": 50, "partitioner": name} for name in ("grid", "quadtree", "spit", "slic")},
    }
    for case, options in cases.items():
        yield case, "", np.asarray(pixtree.segment(picture, **options))
    small = picture[:40, :50]
    yield "backend=torch, 30", "", np.asarray(pixtree.segment(small, 30, backend="torch"))
    yield "backend=torch, relax", "", np.asarray(pixtree.segment(small, 30, relax=True, backend="torch"))


def tree_results(picture: np.ndarray) -> Results:
    import pixtree

    for similarity in ("likelihood", "gaussian"):
        tree = pixtree.hierarchy(picture, similarity=similarity)
        yield f"parent, {similarity}", "", tree.parent.numpy()
        yield f"level, {similarity}", "", tree.level.numpy()
        yield f"rank, {similarity}", "", tree.rank.numpy()
        yield f"altitude, {similarity}", "", tree.altitude.numpy()
        for part, values in enumerate(tree.contours()):
            yield f"contours, {similarity}", str(part), np.asarray(values)


def token_results(picture: np.ndarray) -> Results:
    import torch

    import pixtree

    image = batch_of(picture, TOKENIZER_SIDE)
    small = SMALL_TOKENIZER
    makers: dict[str, Callable[[], Any]] = {
        "default": lambda: pixtree.Tokenizer(pixtree.Exactly(30), **small),
        "shipped": lambda: pixtree.Tokenizer.pretrained(pixtree.Exactly(30), **small),
        "shipped, gaussian positions": lambda: pixtree.Tokenizer.pretrained(
            pixtree.Exactly(30), **small, position_kernel="gaussian", gradients=4
        ),
        "paper": lambda: pixtree.Tokenizer.paper(**small),
        "paper, 30 tokens": lambda: pixtree.Tokenizer.paper(pixtree.Exactly(30), **small),
        "features decide": lambda: pixtree.Tokenizer(pixtree.Exactly(30), decision="features", **small),
        "raw weights": lambda: pixtree.Tokenizer(pixtree.Exactly(30), aggregation="raw", **small),
        "at most 20": lambda: pixtree.Tokenizer.pretrained(pixtree.AtMost(20), **small),
        "backend=torch": lambda: pixtree.Tokenizer.pretrained(pixtree.Exactly(30), backend="torch", **small),
    }
    for case, make in makers.items():
        torch.manual_seed(0)
        tokenizer = stirred(make())
        with torch.no_grad():
            still = tokenizer(image)
        yield f"{case}: values", "", still.features.numpy()
        yield f"{case}: labels", "", still.partition.labels.numpy()
        moving = image.clone().requires_grad_()
        tokens = tokenizer(moving)
        yield f"{case}: values with gradients", "", tokens.features.detach().numpy()
        weights = torch.randn(tokens.features.shape, generator=torch.Generator().manual_seed(1))
        (tokens.features * weights).sum().backward()
        yield f"{case}: gradients", "image", moving.grad.numpy()
        for name, parameter in tokenizer.named_parameters():
            if parameter.grad is not None:
                yield f"{case}: gradients", name, parameter.grad.numpy()


def logit_results(picture: np.ndarray) -> Results:
    import torch

    import pixtree

    image = (batch_of(picture, MODEL_SIDE) - 0.5) / 0.5
    plain, budget = "vit_tiny_patch16_224", pixtree.Criterion("aicc")
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "as many tokens as patches": (plain, {}),
        "25 tokens": (plain, {"tokens": 25}),
        "grid": (plain, {"partitioner": "grid"}),
        "slic": (plain, {"partitioner": "slic", "tokens": 16}),
        "criterion": (plain, {"budget": budget}),
        "position_resolution=5": (plain, {"tokens": 25, "position_resolution": 5}),
        "paper's weights": (plain, {"tokens": 25, "tokenizer": {"aggregation": "raw", "decision": "features"}}),
        "backend=torch": (plain, {"tokens": 16, "backend": "torch"}),
        "distilled": ("deit_tiny_distilled_patch16_224", {"tokens": 25}),
        "no class token": ("vit_base_patch16_gap_224", {"tokens": 25}),
        "rotary": ("vit_small_patch16_dinov3", {"tokens": 25}),
    }
    for case, (name, options) in cases.items():
        torch.manual_seed(0)
        model = stirred(pixtree.retrofit(name, img_size=MODEL_SIDE, **VIT, **options)).eval()
        with torch.no_grad():
            yield case, "", model(image).numpy()
        model(image).square().sum().backward()
        squares = [float(parameter.grad.double().square().sum()) for parameter in model.parameters() if parameter.grad is not None]
        yield f"{case}: norm of gradients", "", np.array(sum(squares) ** 0.5)


def svg_results(picture: np.ndarray) -> Results:
    height, width = picture.shape[:2]
    alpha = np.full((height, width, 1), 255, np.uint8)
    alpha[: height // 2, : width // 3] = 0
    colours = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
    cases: dict[str, dict[str, Any]] = {
        **{f"paths={count}": {"paths": count} for count in (1, 30, 300)},
        "bytes=4000": {"bytes": 4000},
        "psnr=20": {"psnr": 20.0},
        "colors=6": {"paths": 60, "colors": 6},
        **{f"preset={name}": {"preset": name} for name in ("photo", "poster", "icon", "sketch")},
        "smooth": {"paths": 60, "style": "smooth"},
        "polygon": {"paths": 60, "style": "polygon"},
        "artwork": {"paths": 60, "artwork": True},
        "fast": {"paths": 60, "fast": True},
        "groups, ids": {"paths": 60, "groups": [10, 3], "ids": True},
        "crisp": {"paths": 60, "passes": "crisp"},
    }
    for case, options in cases.items():
        yield case, "", drawn(picture, **options)
    yield "transparency", "", drawn(np.concatenate((colours, alpha), axis=2), paths=60, transparency=True)


def drawn(picture: np.ndarray, **options: Any) -> np.ndarray:
    """The SVG as bytes; an error's class where the picture cannot be drawn so (a budget may be out of reach)."""
    import pixtree

    try:
        text = str(pixtree.vectorize(picture, **options))
    except ValueError as fault:
        text = type(fault).__name__
    return np.frombuffer(text.encode(), np.uint8)


def batch_of(picture: np.ndarray, side: int) -> Any:
    """The upper left corner, mirrored where the picture is smaller, as a float tensor (1, 3, side, side) in 0..1."""
    import torch

    colours = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
    corner = colours[:side, :side]
    corner = np.pad(corner, ((0, side - corner.shape[0]), (0, side - corner.shape[1]), (0, 0)), mode="symmetric")
    return torch.from_numpy(corner.copy()).permute(2, 0, 1)[None].float() / 255


def stirred(module: Any) -> Any:
    """The module with seeded noise on every parameter, so that nothing that starts at zero hides a difference."""
    import torch

    with torch.no_grad():
        for name, parameter in module.named_parameters():
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            parameter.add_(torch.randn(parameter.shape, generator=generator) * (0.1 if parameter.ndim > 1 else 0.05))
    return module


RESULTS: dict[str, Callable[[np.ndarray], Results]] = {
    "labels": label_results,
    "trees": tree_results,
    "tokens": token_results,
    "logits": logit_results,
    "svg": svg_results,
}


def run_worker(kinds: list[str], count: int, folder: Path, output: Path) -> None:
    """All results of the pixtree that this process imports, one array per kind, case, picture and part."""
    import pixtree

    if folder not in Path(pixtree.__file__).parents:
        raise SystemExit(f"expected pixtree from {folder}, but {pixtree.__file__} was imported; check the folder")
    results: dict[str, np.ndarray] = {}
    for name, picture in list(pictures().items())[:count]:
        for kind in kinds:
            for case, part, value in RESULTS[kind](picture):
                results["\t".join((kind, case, name, part))] = value
        print(f"  {name}", file=sys.stderr, flush=True)
    keys = sorted(results)
    np.savez(output, keys=np.array(keys), **{str(i): results[key] for i, key in enumerate(keys)})


def results_of(version: Path, kinds: list[str], count: int, output: Path) -> dict[str, np.ndarray]:
    """Results of one version, computed by a child process that sees this version first."""
    folder = (version / "src" if (version / "src" / "pixtree").is_dir() else version).resolve()
    if not (folder / "pixtree").is_dir():
        raise SystemExit(f"expected a folder with src/pixtree or pixtree, got {version}; give a source tree or site-packages")
    print(f"{version}", file=sys.stderr, flush=True)
    # One thread each: sums have one order, and the versions do not depend on the machine's cores.
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "PIXTREE_THREADS": "1"}
    command = [sys.executable, __file__, "--worker", str(output), "--pictures", str(count), "--kinds", ",".join(kinds)]
    subprocess.run([*command, str(folder), str(folder)], check=True, env=environment)
    with np.load(output) as stored:
        return {str(key): stored[str(i)] for i, key in enumerate(stored["keys"])}


def difference(before: np.ndarray, after: np.ndarray) -> float:
    """Largest difference, divided by the largest value where that is above 1; 0 where both are the same infinity or NaN."""
    if before.shape != after.shape or before.dtype != after.dtype:
        return float("inf")
    if before.size == 0 or np.array_equal(before, after, equal_nan=before.dtype.kind == "f"):
        return 0.0
    old, new = before.astype(np.float64), after.astype(np.float64)
    same = (old == new) | (np.isnan(old) & np.isnan(new))
    gaps = np.where(same, 0.0, np.abs(np.where(same, 0.0, old) - np.where(same, 0.0, new)))
    if not np.isfinite(gaps).all():
        return float("inf")
    return float(gaps.max() / max(1.0, np.abs(old[np.isfinite(old)]).max(initial=0.0)))


def table_of(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> dict[tuple[str, str], dict[str, float]]:
    """Per kind and case: arrays with equal bits, all arrays, and the largest difference of the rest."""
    table: dict[tuple[str, str], dict[str, float]] = {}
    for key in sorted(before.keys() | after.keys(), key=lambda key: (KINDS.index(key.split("\t")[0]), key)):
        kind, case = key.split("\t")[:2]
        row = table.setdefault((kind, case), {"equal": 0, "all": 0, "difference": 0.0, "whole": 1})
        gap = difference(before[key], after[key]) if key in before and key in after else float("inf")
        row["all"] += 1
        row["equal"] += gap == 0.0
        row["difference"] = max(row["difference"], gap)
        row["whole"] = min(row["whole"], key not in before or before[key].dtype.kind != "f")
    return table


def failed(kind: str, row: dict[str, float], tolerance: float) -> bool:
    limit = 0.0 if kind in EXACT or row["whole"] else tolerance
    return row["difference"] > limit


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--tolerance", type=float, default=1e-6, help="the largest difference of floats that passes (1e-6)")
    parser.add_argument("--pictures", type=int, default=20, help="only the first so many pictures")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"some of {', '.join(KINDS)}, separated by commas")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"--kinds takes {', '.join(KINDS)}, got {unknown[0]!r}")
    if options.worker:
        run_worker(kinds, options.pictures, options.before, options.worker)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        before, after = (
            results_of(version, kinds, options.pictures, Path(folder) / f"{name}.npz")
            for name, version in (("before", options.before), ("after", options.after))
        )
    table = table_of(before, after)
    print(f"{'kind':8}{'case':54}{'equal':>8}{'of':>6}{'difference':>12}")
    for (kind, case), row in table.items():
        mark = "  DIFFERS" if failed(kind, row, options.tolerance) else ""
        print(f"{kind:8}{case:54}{row['equal']:8.0f}{row['all']:6.0f}{row['difference']:12.1e}{mark}")
    for kind in kinds:
        rows = [row for (of, _), row in table.items() if of == kind]
        equal, total = sum(row["equal"] for row in rows), sum(row["all"] for row in rows)
        print(f"{kind}: {equal:.0f} of {total:.0f} results equal, largest difference {max(row['difference'] for row in rows):.1e}")
    wrong = sum(failed(kind, row, options.tolerance) for (kind, _), row in table.items())
    print(f"{wrong} of {len(table)} cases differ" if wrong else f"all {len(table)} cases agree (tolerance {options.tolerance:g})")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
