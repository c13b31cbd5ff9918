"""A drawing is a picture: nothing in it runs, loads or links, whatever the file that it was made of is called or contains."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from commands import invoke
from PIL import Image, PngImagePlugin

from pixtree.cli.main import app
from pixtree.tasks.vectorize import vectorize

SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
LAYER = "{http://www.inkscape.org/namespaces/inkscape}"
ELEMENTS = {SVG + name for name in ("svg", "title", "g", "path", "use", "rect")}
ATTRIBUTES = {
    *("width", "height", "viewBox", "id", "d", "x", "y", "fill", "fill-opacity", "fill-rule", "shape-rendering", "transform"),
    *("stroke", "stroke-width", "stroke-linecap", "stroke-linejoin"),
    *(LINK, f"{LAYER}groupmode", f"{LAYER}label"),
}
VALUES = re.compile(r"[\w#.,() +-]*")  # no quotes, colons, angles or ampersands, so no addresses and no markup
NASTY = '"><script>alert(1)</script><image href="x" onload="alert(1)">&{;}'


def active_content(text):
    """Everything in a drawing that is not one of the few elements, attributes and values that drawings need."""
    found = [word for word in ("<!", "<?") if word in text]  # entities, comments, stylesheets
    for element in ElementTree.fromstring(text).iter():
        found += [element.tag] * (element.tag not in ELEMENTS)
        for name, value in element.attrib.items():
            found += [f"{name}={value}"] * (name not in ATTRIBUTES or not VALUES.fullmatch(value))
            found += [value] * (name == LINK and not re.fullmatch(r"#layer\d+", value))
    return found


def pixels(seed=0):
    generator = np.random.default_rng(seed)
    return np.kron(generator.integers(0, 256, (4, 5, 3), dtype=np.uint8), np.ones((8, 8, 1), np.uint8))


def transparent():
    return np.dstack((pixels(), np.tile(np.arange(0, 240, 6, dtype=np.uint8), (32, 1))))


@pytest.mark.parametrize(
    "options",
    [
        *({"style": "polyline"}, {"style": "smooth"}, {"style": "polygon"}, {"preset": "poster"}, {"preset": "icon"}),
        *({"preset": "sketch"}, {"groups": 3, "ids": True}, {"passes": "crisp"}, {"artwork": True}, {"artwork": False}),
    ],
    ids=str,
)
def test_drawings_have_only_shapes(options):
    assert active_content(str(vectorize(pixels(), **options))) == []


def test_transparent_drawings_have_only_shapes():
    assert active_content(str(vectorize(transparent(), paths=20))) == []


@pytest.mark.parametrize(
    "text",
    [
        '<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>',
        '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>',
        '<svg xmlns="http://www.w3.org/2000/svg"><foreignObject/></svg>',
        '<svg xmlns="http://www.w3.org/2000/svg"><path fill="url(http://a.example/b)"/></svg>',
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"><use xlink:href="a.svg#b"/></svg>',
        '<svg xmlns="http://www.w3.org/2000/svg"><style>@import "a.css"</style></svg>',
        '<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg"/>',
        "<svg xmlns='http://www.w3.org/2000/svg'><path style='background:none'/></svg>",
    ],
)
def test_active_content_would_be_found(text):
    assert active_content(text)


def hostile_files(folder):
    """Pictures with markup in their names, metadata and palettes."""
    about = PngImagePlugin.PngInfo()
    for key in ("Title", "Description", "XML:com.adobe.xmp"):
        about.add_itxt(key, NASTY)
    Image.fromarray(pixels()).save(folder / "about.png", pnginfo=about)
    named = Image.fromarray(pixels()).quantize(7)
    named.putpalette((NASTY.encode() * 20)[:768])
    named.save(folder / "palette.png", pnginfo=about)
    Image.fromarray(pixels()).save(folder / "comment.jpg", comment=NASTY.encode())
    Image.fromarray(pixels()).save(folder / (NASTY.replace("/", "_") + ".png"))
    return sorted(folder.iterdir())


def test_names_metadata_and_palettes_stay_out_of_drawings(tmp_path):
    for path in hostile_files(tmp_path):
        text = str(vectorize(path, paths=12, groups=2, ids=True))
        assert active_content(text) == []
        assert "alert" not in text


def test_files_of_the_command_line_have_only_shapes(tmp_path):
    (tmp_path / "in").mkdir()
    (hostile,) = [path for path in hostile_files(tmp_path / "in") if "script" in path.name]
    done = invoke(app, ["vectorize", str(hostile), "-o", str(tmp_path / "out.svg"), "--paths", "9"])
    assert done.exit_code == 0, done.stderr
    assert active_content((tmp_path / "out.svg").read_text(encoding="utf-8")) == []


def test_an_id_or_a_fill_cannot_be_text():
    """Ids are numbers that the library counts; colours come as bytes. What is no number never reaches the document."""
    with pytest.raises((TypeError, ValueError)):
        vectorize(pixels(), groups=NASTY)
    with pytest.raises((TypeError, ValueError)):
        vectorize(pixels(), colors=NASTY)
