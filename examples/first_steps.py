"""First steps with a photo that ships with scikit-image: its tree, several cuts, pictures of them and a drawing, in out/."""

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from skimage import data

import pixtree
from pixtree.exports import boundaries, contour_map, level_stack, mean_colours, save_png, write

OUT = Path("out")


def main() -> None:
    """Segment the astronaut (NASA, public domain) and print what was written."""
    OUT.mkdir(exist_ok=True)
    photo = data.astronaut()
    pixtree.segment(photo, tokens=2)  # compiles the kernels on the very first run
    start = time.perf_counter()
    tree = pixtree.hierarchy(photo)
    regions = tree.cut(tokens=200)
    milliseconds = 1e3 * (time.perf_counter() - start)
    relaxed = tree.cut(tokens=200, relax=True)
    write(OUT / "labels.png", regions.numpy(), image=photo)
    write(OUT / "regions.geojson", regions.numpy(), image=photo)
    tree.save(OUT / "tree.npz")
    save_png(OUT / "boundaries.png", boundaries(photo, relaxed.numpy()))
    save_png(OUT / "mean.png", mean_colours(photo, relaxed.numpy()))
    save_png(OUT / "contours.png", contour_map(tree.contours()))
    save_png(OUT / "levels.png", level_stack(photo, [tree.cut(tokens=n).numpy() for n in (600, 150, 40, 8)]))
    pixtree.vectorize(photo, paths=1000).save(OUT / "drawing.svg")

    table = Table(title=f"astronaut, 512×512 pixels, tree and 200 regions in {milliseconds:.0f} ms")
    for column in ("cut", "regions", "largest", "median", "smallest"):
        table.add_column(column, justify="left" if column == "cut" else "right")
    chosen = {"tokens=200": regions, "relax=True": relaxed, 'criterion="aicc"': tree.cut(criterion="aicc")}
    for name, cut in {"tokens=50": tree.cut(tokens=50), **chosen, "at_level(5)": tree.at_level(5)}.items():
        areas = cut.areas()
        table.add_row(name, *(str(int(value)) for value in (cut.counts, areas.max(), areas.median(), areas.min())))
    print_line = Console().print
    print_line(table)
    for path in sorted(OUT.iterdir()):
        print_line(f"{path}  ({path.stat().st_size / 1000:.0f} kB)")


if __name__ == "__main__":
    main()
