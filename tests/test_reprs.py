"""Results at a glance: one short line in a console, a picture in a notebook."""

import io

import numpy as np
import PIL.Image
import pytest
import torch
from pictures import photo

import pixtree
from pixtree.vector.potrace import TracedLayers

PICTURE = photo(height=24, width=30)
MASK = np.ones((24, 30), bool)
MASK[:, 25:] = False


def tokens(prefix=0, budget=None):
    with torch.no_grad():
        return pixtree.Tokenizer(budget or pixtree.Exactly(9), width=16, prefix=prefix)(PICTURE[None])


RESULTS = {
    "Hierarchy(24×30 pixels, {levels} levels)": lambda: pixtree.hierarchy(PICTURE),
    "Hierarchy(24×30 pixels, 600 of them inside its mask, {levels} levels)": lambda: pixtree.hierarchy(PICTURE, mask=MASK),
    "Contours(24×30 pixels)": lambda: pixtree.hierarchy(PICTURE).contours(),
    "Partition(24×30 pixels, 9 regions)": lambda: pixtree.hierarchy(PICTURE).cut(tokens=9),
    "Partition(24×30 pixels, 1 region)": lambda: pixtree.hierarchy(PICTURE).cut(tokens=1),
    "Partition(2 images of 1×4 pixels, 1 to 4 regions)": lambda: pixtree.Partition.from_labels(
        np.array([[[0, 0, 0, 0]], [[0, 1, 2, 3]]])
    ),
    "Tokens(1 image, 9 tokens of 16 numbers)": tokens,
    "Tokens(1 image, 9 tokens of 16 numbers, 1 prefix token)": lambda: tokens(1),
    "Drawing(30×24 pixels, 5 paths)": lambda: pixtree.vectorize(PICTURE, paths=5),
    "TracedLayers(30×24 pixels, 5 paths)": lambda: TracedLayers("<svg/>", 5, (30, 24)),
    "Cuts(Partition(24×30 pixels, 9 regions))": lambda: pixtree.Tokenizer(pixtree.Exactly(9), width=16).cut(PICTURE[None]),
    "EncodedRegions(Partition(24×30 pixels, 9 regions), 8 features)": lambda: pixtree.Tokenizer(
        pixtree.Exactly(9), width=16
    ).encode(PICTURE[None]),
}


@pytest.mark.parametrize("line", RESULTS)
def test_a_result_is_one_short_line(line):
    result = RESULTS[line]()
    assert repr(result) == line.format(levels=getattr(result, "levels", ""))


@pytest.mark.parametrize("line", [line for line in RESULTS if line.startswith(("Hierarchy", "Contours", "Partition", "Tokens"))])
def test_notebooks_show_regions_as_a_picture(line):
    result = RESULTS[line]()
    with PIL.Image.open(io.BytesIO(result._repr_png_())) as picture:
        assert picture.format == "PNG"
        assert picture.size == ((30, 24) if "24×30" in line or "Tokens" in line else (8, 1))
        assert len(picture.convert("RGB").getcolors()) > 1 or "1 region" in line


@pytest.mark.parametrize("line", ["Drawing(30×24 pixels, 5 paths)", "TracedLayers(30×24 pixels, 5 paths)"])
def test_notebooks_show_drawings(line):
    result = RESULTS[line]()
    assert result._repr_svg_() == str(result)


def test_a_token_tree_is_one_short_line():
    model = pixtree.coarsen("vit_tiny_patch16_224", schedule=[100, 50], depth=2).eval()
    _, tree = model.forward_tree(torch.zeros(1, 3, 224, 224))
    assert repr(tree) == "TokenTree(1 image, 196 tokens, after the blocks 100, 50)"
