"""Posters beside vtracer: how far their colours are from the photo's, and eight pictures beside vtracer's for the documentation.

    python benchmarks/posters.py             # writes benchmarks/results/vectors_posters.json
    python benchmarks/posters.py pictures    # writes docs/pictures/vectors_eight.jpg
    python benchmarks/posters.py presets     # writes docs/pictures/vectors_presets.jpg

vtracer's settings are searched for the number of colours nearest to ours, and among those for the smallest difference.
"""

import io
import re
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from eight_pictures import PICTURES, photo
from evidence.records import PACKAGES, provenance, write_record
from vector_pictures import captioned, save, side_by_side

from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import rendered, vectorize
from pixtree.vector.presets import PRESETS

ROOT = Path(__file__).parents[1]
PHOTOS = ("astronaut", "chelsea", "coffee", "immunohistochemistry", "retina", "rocket")
SETTINGS = [{"color_precision": bits, "layer_difference": step} for bits, step in product(range(1, 7), range(8, 136, 8))]
COLUMNS = [
    ["photo", "Photo", ""],
    ["colours", "Our colours", "d"],
    ["delta", "ΔE ↓", ".2f"],
    ["psnr", "PSNR ↑", ".2f"],
    ["bytes", "Bytes", ",d"],
    ["its_colours", "vtracer's colours", "d"],
    ["its_delta", "ΔE ↓", ".2f"],
    ["its_psnr", "PSNR ↑", ".2f"],
    ["its_bytes", "Bytes", ",d"],
]
LARGEST, WIDE = 0.5, 300  # share of vtracer's difference that is wanted; pixels of a photo


def traced_by_vtracer(picture: np.ndarray, **options: Any) -> str:
    import vtracer
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "png")
    return str(vtracer.convert_raw_image_to_svg(stream.getvalue(), img_format="png", **options))


def colours_of(text: str) -> int:
    return len(set(re.findall(r'fill="(#[0-9a-fA-F]+)"', text)))


def measured(text: str, picture: np.ndarray) -> dict[str, Any]:
    """Number of colours, mean CIEDE2000 difference from the picture, PSNR and bytes of a drawing."""
    from skimage.color import deltaE_ciede2000, rgb2lab

    shown = rendered(text)
    return {
        "colours": colours_of(text),
        "delta": float(deltaE_ciede2000(rgb2lab(shown), rgb2lab(picture)).mean()),
        "psnr": psnr(mean_squared_error(shown, picture)),
        "bytes": len(text.encode()),
    }


def posters() -> None:
    rows = []
    for name in PHOTOS:
        picture = photo(name, (WIDE, 200))
        ours = measured(str(vectorize(picture, preset="poster")), picture)
        texts = [traced_by_vtracer(picture, **options) for options in SETTINGS]
        steps = [abs(colours_of(text) - ours["colours"]) for text in texts]
        others = [measured(text, picture) for text, step in zip(texts, steps, strict=True) if step == min(steps)]
        nearest = min(others, key=lambda other: other["delta"])
        rows.append({"photo": name, **ours, **{f"its_{key}": value for key, value in nearest.items()}})
        print(rows[-1], flush=True)
    share = float(np.mean([row["delta"] / row["its_delta"] for row in rows]))
    met = "yes" if share <= LARGEST else "no"
    bars = [{"what": "ΔE to vtracer's, mean over photos", "wanted": f"≤ {LARGEST:g}", "found": share, "met": met}]
    heading = {"benchmark": "table", "title": "Colours of posters beside vtracer at the nearest number of colours"}
    source = provenance("python benchmarks/posters.py", (*PACKAGES, "vtracer", "resvg-py"))
    notes = [
        f'Photos of scikit-image at {WIDE} × 200 pixels; preset="poster". ΔE is the mean CIEDE2000 difference from the photo. '
        f"vtracer was run at {len(SETTINGS)} settings of color_precision and layer_difference per photo; "
        "of astronaut it has 2 colours or more than 30, so that row compares little. "
        "Ours takes more bytes on all photos but retina."
    ]
    content = {"columns": COLUMNS, "rows": rows, "notes": notes, "bars": bars}
    write_record({**heading, **source, **content}, ROOT / "benchmarks" / "results" / "vectors_posters.json")
    print(bars)


def over_white(picture: np.ndarray) -> np.ndarray:
    """A picture (H, W, 3) of one with alpha."""
    if picture.shape[2] == 3:
        return picture
    alpha = picture[..., 3:].astype(np.float32) / 255
    return np.asarray(np.rint(picture[..., :3] * alpha + 255 * (1 - alpha)), np.uint8)


def pictures() -> None:
    """Eight rows: the picture, our drawing and vtracer's with its defaults."""
    tiles = []
    for name, (make, options) in PICTURES.items():
        picture = make()
        texts = {"pixtree": str(vectorize(picture, **options)), "vtracer": traced_by_vtracer(picture)}
        shown = [captioned(over_white(picture), name)]
        shown += [captioned(rendered(text), f"{who}, {len(text) / 1000:.1f} kB") for who, text in texts.items()]
        tiles += [framed(tile) for tile in shown]
    save(side_by_side(tiles, 6), ROOT / "docs" / "pictures" / "vectors_eight.jpg")


def presets() -> None:
    """A photo and its drawing by every preset."""
    picture = photo("chelsea", (WIDE, 200))
    tiles = [captioned(picture, "photo")]
    for name in PRESETS:
        drawing = vectorize(picture, preset=name)
        tiles.append(captioned(rendered(str(drawing)), f"{name}: {drawing.paths} paths, {drawing.bytes / 1000:.0f} kB"))
    save(side_by_side(tiles, 5), ROOT / "docs" / "pictures" / "vectors_presets.jpg")


def framed(tile: np.ndarray, height: int = 284, width: int = 364) -> np.ndarray:
    """The tile on a white ground of one size for all."""
    ground = np.full((height, width, 3), 255, np.uint8)
    ground[: tile.shape[0], : tile.shape[1]] = tile[:height, :width]
    return ground


if __name__ == "__main__":
    {"pictures": pictures, "presets": presets}.get(" ".join(sys.argv[1:]), posters)()
