"""Drawings for editors: plain paths in groups that follow the tree, and layers by masks."""

import re
import subprocess
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from evidence.renderers import RENDERERS
from pictures import noise, photo
from renderers import each, needs

from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import rendered, vectorize

SVG, INKSCAPE = "{http://www.w3.org/2000/svg}", "{http://www.inkscape.org/namespaces/inkscape}"
PHOTO = photo(height=96, width=112)
Y, X = np.mgrid[:96, :112]
DISC, BOX = (Y - 40) ** 2 + (X - 50) ** 2 < 27**2, (Y > 50) & (X > 60) & (X < 100)


def flat_image():
    """Two bars on white; the mask of the first one and half of its ground crosses no colour."""
    image = np.full((60, 80, 3), 255, np.uint8)
    image[10:50, 10:30] = (200, 30, 30)
    image[20:40, 45:70] = (20, 60, 200)
    return image


def layers_in(text):
    """The elements of layers with names of their own, by that name, whatever the groups inside are called."""
    groups = ET.fromstring(text).iter(f"{SVG}g")
    named = {group.get(f"{INKSCAPE}label"): group for group in groups}
    return {name: group for name, group in named.items() if name and not re.search(r"-\d+$", name)}


def inside(text, name):
    """The pixels that the shapes of a layer cover where nothing else is drawn, (H, W) bool."""
    root = ET.fromstring(text)
    page = ET.Element(root.tag, root.attrib)
    page.append(layers_in(text)[name])
    for path in page.iter(f"{SVG}path"):
        path.set("fill", "#000")
    return rendered(ET.tostring(page, encoding="unicode"))[..., 0] < 128


def overlap(first, second):
    return (first & second).sum() / (first | second).sum()


def test_an_editable_drawing_is_plain_paths_with_ids_in_groups_within_groups():
    drawing = vectorize(PHOTO, paths=200, editable=True)
    root = ET.fromstring(str(drawing))
    assert {element.tag for element in root.iter()} == {f"{SVG}{tag}" for tag in ("svg", "title", "g", "path")}
    ids = [element.get("id") for element in root.iter() if element.tag in (f"{SVG}g", f"{SVG}path")]
    assert len(set(ids)) == len(ids) > 200
    assert drawing.paths == len(list(root.iter(f"{SVG}path"))) == 200
    groups = list(root.iter(f"{SVG}g"))
    assert all(len(group) > 1 for group in groups)
    assert all(group.get(f"{INKSCAPE}label") == group.get("id") for group in groups)
    assert root.find(f"./{SVG}g/{SVG}g/{SVG}path") is not None


@each("resvg", "cairosvg", "librsvg")
def test_an_editable_drawing_looks_like_the_default(renderer):
    large = photo(height=240, width=280)
    texts = [str(vectorize(large, paths=300, editable=editable)) for editable in (False, True)]
    assert "<use" in texts[0]
    first, second = (RENDERERS[renderer](text).astype(np.float64) for text in texts)
    assert psnr(mean_squared_error(first, second)) >= 40


@pytest.mark.parametrize("count", [1, 3, 15, 16, 40])
def test_few_shapes_need_few_groups(count):
    root = ET.fromstring(str(vectorize(PHOTO, paths=count, editable=True)))
    assert len(list(root.iter(f"{SVG}path"))) == count
    assert all(len(group) > 1 for group in root.iter(f"{SVG}g"))


@pytest.mark.parametrize("editable", [False, True])
def test_every_mask_is_a_layer_of_its_shape(editable):
    text = str(vectorize(PHOTO, paths=300, editable=editable, passes="single", layers={"disc": DISC, "box": BOX}))
    assert list(layers_in(text)) == ["disc", "box"]
    assert overlap(inside(text, "box"), BOX) > 0.98
    assert overlap(inside(text, "disc") & ~BOX, DISC & ~BOX) > 0.98
    assert len(list(ET.fromstring(text).iter(f"{SVG}path"))) == 300


def test_the_layers_of_artwork_keep_its_colours():
    image = flat_image()
    drawing = vectorize(image, layers={"bar": image[..., 1] == 30, "left": (image[..., 0] == 255) & (np.arange(80) < 40)})
    assert drawing.artwork
    assert (rendered(str(drawing)) == image).all()
    fills = {name: {path.get("fill") for path in layer.iter(f"{SVG}path")} for name, layer in layers_in(str(drawing)).items()}
    assert fills == {"bar": {"#c81e1e"}, "left": {"#fff"}}


LOGOS = {
    "apart": '<circle cx="30" cy="30" r="20" fill="#e4002b"/><path d="M55 15h33v30h-33z" fill="#0057b8"/>'
    '<path d="M20 90L50 55 80 90z" fill="#ffb81c"/>',
    "over each other": '<circle cx="40" cy="40" r="25" fill="#e4002b"/><path d="M45 35h40v40h-40z" fill="#0057b8"/>'
    '<path d="M20 90L50 55 80 90z" fill="#ffb81c"/>',
    "shades of a colour": '<circle cx="50" cy="50" r="45" fill="#113"/><circle cx="50" cy="50" r="30" fill="#668"/>'
    '<circle cx="50" cy="50" r="15" fill="#aac"/>',
    "side by side": '<path d="M10 20L55 10 60 90 15 80z" fill="#0a6"/><path d="M55 10L90 30 60 90z" fill="#fa0"/>'
    '<circle cx="30" cy="50" r="12" fill="#fff5e0"/>',
}


@pytest.mark.parametrize("size", [64, 200, 512])
@pytest.mark.parametrize("name", LOGOS)
def test_a_logo_of_three_shapes_on_white_has_a_path_for_each(name, size):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" viewBox="0 0 100 100">'
    logo = rendered(f"{head}{LOGOS[name]}</svg>")
    drawing = vectorize(logo, editable=True)
    assert drawing.artwork
    assert len(list(ET.fromstring(str(drawing)).iter(f"{SVG}path"))) == drawing.paths == 4
    assert psnr(mean_squared_error(rendered(str(drawing)), logo)) > 35


def test_a_mask_of_the_whole_image_has_every_shape():
    text = str(vectorize(PHOTO, paths=20, passes="single", layers={"all": np.ones((96, 112), bool)}))
    assert len(list(layers_in(text)["all"].iter(f"{SVG}path"))) == 20
    assert inside(text, "all").all()


def test_names_of_layers_are_escaped():
    text = str(vectorize(PHOTO, paths=30, layers={'hat "&" <b>scarf</b>': DISC, "Röcke": BOX}))
    assert list(layers_in(text)) == ['hat "&" <b>scarf</b>', "Röcke"]
    assert re.findall(r'id="(hat[^"]*|R[^"]*)"', text) == ["hat______b_scarf__b_", "Röcke"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": {"a": np.zeros((96, 112), bool)}}, "layer 'a': a mask needs at least 1 pixel"),
        ({"layers": {"a": np.ones((9, 9), bool)}}, "layer 'a': a mask must have the image's height and width"),
        ({"layers": {"a": BOX, "b": np.ones((96, 112), bool)}}, "pixels of its own, got 'a' below"),
        ({"layers": {"a b": BOX, "a_b": DISC}}, "names of their own, got 'a b' and 'a_b'"),
        ({"layers": {"r5": BOX}}, "the name of a layer begins with a letter"),
        ({"layers": {"": BOX}}, "the name of a layer begins with a letter"),
        ({"layers": {"a\n": BOX}}, "the name of a layer begins with a letter"),
        ({"layers": {"a": BOX}, "colors": 4}, "joins shapes of different layers"),
        ({"layers": {"a": BOX}, "preset": "sketch"}, "layers= draws shapes in groups, got style='strokes'"),
        ({"layers": {"a": (X + Y) % 2 == 0}, "paths": 9}, "ask for at least as many paths"),
        ({"editable": True, "passes": "double"}, "written in a single pass, got passes='double'"),
        ({"editable": True, "style": "paper"}, "editable=True draws shapes in groups, got style='paper'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        vectorize(PHOTO, **options)


def test_noise_has_its_layers_too():
    upper = np.arange(1600).reshape(40, 40) < 700
    text = str(vectorize(noise(height=40, width=40), paths=60, passes="single", layers={"upper": upper}))
    assert overlap(inside(text, "upper"), upper) > 0.98


@pytest.mark.slow
@needs("inkscape")
def test_inkscape_lists_the_groups_and_every_shape(tmp_path):
    drawing = vectorize(PHOTO, paths=120, editable=True, layers={"disc": DISC, "box": BOX})
    drawing.save(tmp_path / "drawing.svg")
    done = subprocess.run(
        ["inkscape", "--query-all", str(tmp_path / "drawing.svg")], capture_output=True, text=True, check=True, timeout=180
    )
    names = [line.partition(",")[0] for line in done.stdout.splitlines()]
    assert {"disc", "box", "region-1"} <= set(names)
    assert sum(re.fullmatch(r"r\d+", name) is not None for name in names) == drawing.paths == 120
