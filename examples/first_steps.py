"""The main job on a photo that scikit-image ships: its tree, several cuts, pictures of them and a drawing, in out/."""

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from skimage import data

import pixtree
from pixtree.exports import pictures, write
from pixtree.exports.levels import level_stack
from pixtree.images import checked

OUT = Path("out")


def main() -> None:
    """Segment the astronaut (NASA, public domain) and say what was made."""
    OUT.mkdir(exist_ok=True)
    console = Console()
    photo = checked(data.astronaut())
    pixtree.segment(photo, tokens=2)  # compiles the kernels on the very first run
    start = time.perf_counter()
    tree = pixtree.hierarchy(photo)
    partition = tree.cut(tokens=200)
    seconds = time.perf_counter() - start

    table = Table(title=f"astronaut, {photo.shape[2]}×{photo.shape[1]} pixels, tree and 200 regions in {seconds * 1e3:.0f} ms")
    for column in ("cut", "regions", "largest", "median", "smallest"):
        table.add_column(column, justify="left" if column == "cut" else "right")
    cuts = {
        "tokens=50": tree.cut(tokens=50),
        "tokens=200": partition,
        "tokens=200, relax=True": tree.cut(tokens=200, relax=True),
        'criterion="aicc"': tree.cut(criterion="aicc"),
        "at_level(5)": tree.at_level(5),
    }
    for name, cut in cuts.items():
        areas = cut.areas()
        table.add_row(name, *(str(int(value)) for value in (cut.counts, areas.max(), areas.median(), areas.min())))

    relaxed = cuts["tokens=200, relax=True"].labels[0]
    write(OUT / "labels.png", partition.labels[0], image=photo)
    write(OUT / "regions.geojson", partition.labels[0], image=photo)
    tree.save(OUT / "tree.npz")
    pictures.save_png(OUT / "boundaries.png", pictures.boundaries(photo, relaxed))
    pictures.save_png(OUT / "mean.png", pictures.mean_colours(photo, relaxed))
    pictures.save_png(OUT / "contours.png", pictures.contour_map(tree.contours()))
    pictures.save_png(OUT / "levels.png", level_stack(photo, [tree.cut(tokens=n).labels[0] for n in (600, 150, 40, 8)]))
    pixtree.vectorize(photo, paths=1000).save(OUT / "drawing.svg")

    console.print(table)
    for path in sorted(OUT.iterdir()):
        console.print(f"{path}  ({path.stat().st_size / 1000:.0f} kB)")


if __name__ == "__main__":
    main()
