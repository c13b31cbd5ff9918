"""The server's answers are those of the library, in a form from which a page can draw every cut."""

import io
import json

import numpy as np
import pytest
from pictures import noise, photo
from PIL import Image
from running import png, request, running, sentence, upload

import pixtree
from pixtree.app.limits import Limits
from pixtree.app.wire import MAGIC, NONE, packed, unpacked
from pixtree.exports.pictures import mean_colours
from pixtree.exports.regions import coco, geojson

PHOTO = photo("astronaut", 90, 120).permute(1, 2, 0).numpy()


@pytest.fixture(scope="module")
def port():
    with running(Limits(regions=600)) as found:
        yield found


@pytest.fixture(scope="module")
def sent(port):
    status, name, body = upload(port, png(PHOTO))
    assert status == 200
    return name, *unpacked(body)


def drawn(header, arrays, count):
    """The labels (H, W) of a cut as the page finds them: the node of every pixel."""
    parent, regions = arrays["parent"], header["regions"]
    region = np.arange(len(parent))
    for node, above in enumerate(parent):
        if above != NONE and above >= count - 1:
            region[node] = region[above]
    return region[regions - 1 + arrays["labels"].astype(int)]


@pytest.mark.parametrize("count", [1, 2, 3, 50, 599, 600])
def test_every_cut_drawn_from_the_answer_is_the_librarys(sent, count):
    _, header, _, arrays = sent
    nodes = drawn(header, arrays, count)
    assert (pixtree.Partition.from_labels(nodes).numpy() == pixtree.segment(PHOTO, tokens=count)).all()
    assert (arrays["colour"][nodes] == mean_colours(PHOTO, pixtree.segment(PHOTO, tokens=count))).all()


def test_borders_say_at_which_count_they_appear(sent):
    _, _, _, arrays = sent
    labels, contours = arrays["labels"].astype(int), pixtree.hierarchy(PHOTO).contours()
    pairs = zip(arrays["border_first"].tolist(), arrays["border_second"].tolist(), strict=True)
    counts = dict(zip(pairs, arrays["border_count"].tolist(), strict=True))
    rows, columns = np.nonzero(labels[:, 1:] != labels[:, :-1])
    assert len(rows) > 500
    for row, column in zip(rows, columns, strict=True):
        pair = tuple(sorted((int(labels[row, column]), int(labels[row, column + 1]))))
        assert counts[pair] == int(contours.right[row, column])


def test_numbers_of_nodes_are_those_of_the_pixels_below(sent):
    _, header, _, arrays = sent
    nodes, lab = drawn(header, arrays, 40), pixtree.hierarchy(PHOTO).features.numpy().reshape(3, 90, 120)
    for node in np.unique(nodes):
        rows, columns = np.nonzero(nodes == node)
        assert arrays["area"][node] == len(rows)
        assert arrays["box"][node].tolist() == [rows.min(), columns.min(), rows.max() + 1, columns.max() + 1]
        assert arrays["spread"][node] == pytest.approx(np.sqrt(lab[:, rows, columns].var(axis=1).sum()), abs=0.02)


def test_levels_are_counted(sent):
    _, header, _, _ = sent
    tree = pixtree.hierarchy(PHOTO)
    assert header["levels"] == [int(tree.at_level(level).counts[0]) for level in range(tree.levels + 1)]


@pytest.mark.parametrize("query", [{"level": 5}, {"criterion": "bic"}, {"criterion": "aicc", "penalty": 0.5}, {"tokens": 77}])
def test_other_cuts_are_the_librarys(port, sent, query):
    words = "&".join(f"{name}={value}" for name, value in query.items())
    status, _, body = request(port, "GET", f"/api/trees/{sent[0]}/cut?{words}")
    assert status == 200
    _, _, arrays = unpacked(body)
    if "penalty" in query:
        query = {"criterion": pixtree.Criterion(query["criterion"], penalty=query["penalty"])}
    expected = pixtree.segment(PHOTO, **query)
    assert (arrays["labels"] == expected).all()
    assert (arrays["colour"][expected] == mean_colours(PHOTO, expected)).all()


def test_exports_are_the_librarys(port, sent):
    labels = pixtree.segment(PHOTO, tokens=30)
    found = {}
    for format in ("png", "geojson", "coco"):
        status, headers, found[format] = request(port, "GET", f"/api/trees/{sent[0]}/regions?tokens=30&format={format}")
        assert status == 200
        assert headers["content-disposition"].startswith("attachment")
    assert (np.asarray(Image.open(io.BytesIO(found["png"]))) == labels).all()
    assert json.loads(found["geojson"]) == json.loads(json.dumps(geojson(labels, PHOTO)))
    assert json.loads(found["coco"]) == coco(labels)


def test_large_photos_are_reduced_and_turned_upright():
    stream = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: width and height change places
    Image.fromarray(np.kron(PHOTO, np.ones((3, 3, 1), np.uint8))).save(stream, "JPEG", exif=exif)
    with running(Limits(side=128, regions=50)) as port:
        status, _, body = upload(port, stream.getvalue())
    assert status == 200
    header, picture, _ = unpacked(body)
    assert (header["height"], header["width"]) == (128, 96)
    assert Image.open(io.BytesIO(picture)).size == (96, 128)


@pytest.mark.parametrize("mode", ["L", "LA", "P", "1", "RGBA", "I;16", "CMYK"])
@pytest.mark.parametrize("side", [400, 64])
def test_every_kind_of_picture_opens(mode, side):
    from pixtree.app.uploads import decoded

    stream = io.BytesIO()
    deep = Image.fromarray(PHOTO[..., 0].astype(np.uint16) * 257)
    image = deep if mode == "I;16" else Image.fromarray(PHOTO).convert(mode)
    image.save(stream, "JPEG" if mode == "CMYK" else "PNG")
    assert decoded(stream.getvalue(), Limits(side=side)).shape == ((90, 120, 3) if side == 400 else (48, 64, 3))


def test_a_picture_of_one_pixel_has_one_region(port):
    status, _, body = upload(port, png(np.full((1, 1, 3), 9, np.uint8)))
    header, _, arrays = unpacked(body)
    assert (status, header["regions"], arrays["parent"].tolist(), header["levels"]) == (200, 1, [NONE], [1])


def test_ids_cannot_be_guessed_and_pictures_are_not_shared(port, sent):
    again = upload(port, png(PHOTO))[1]
    assert again != sent[0]
    assert len(again) >= 24
    status, _, body = request(port, "GET", "/api/trees/guess/cut?tokens=5")
    assert (status, "send it again" in sentence(body)) == (410, True)


def test_the_oldest_trees_are_forgotten_within_the_budget_of_bytes():
    with running(Limits(session_bytes=16_000_000, regions=50)) as port:  # each takes about 7 MB
        names = [upload(port, png(noise(90, 120, seed=seed).permute(1, 2, 0).numpy()))[1] for seed in range(4)]
        statuses = [request(port, "GET", f"/api/trees/{name}/cut?tokens=5")[0] for name in names]
    assert statuses == [410, 410, 200, 200]


def test_a_tree_in_use_is_not_the_one_forgotten():
    with running(Limits(session_bytes=16_000_000, regions=50)) as port:
        first, second = (upload(port, png(noise(90, 120, seed=seed).permute(1, 2, 0).numpy()))[1] for seed in range(2))
        assert request(port, "GET", f"/api/trees/{first}/cut?tokens=5")[0] == 200
        upload(port, png(PHOTO))
        assert request(port, "GET", f"/api/trees/{first}/cut?tokens=5")[0] == 200
        assert request(port, "GET", f"/api/trees/{second}/cut?tokens=5")[0] == 410


def test_answers_pack_and_unpack():
    arrays = {"a": np.arange(5, dtype=np.uint8), "b": np.linspace(0, 1, 3, dtype=np.float32), "c": np.zeros((2, 0), np.uint16)}
    header, picture, found = unpacked(packed({"x": [1]}, arrays, b"photo"))
    assert (header, picture) == ({"x": [1]}, b"photo")
    assert all((found[name] == array).all() and found[name].dtype == array.dtype for name, array in arrays.items())
    with pytest.raises(ValueError, match=MAGIC.decode()):
        unpacked(b"something else")


def test_the_page_and_its_files_are_served(port):
    status, headers, body = request(port, "GET", "/")
    assert status == 200
    assert b"<title>pixtree</title>" in body
    assert headers["content-type"].startswith("text/html")
    status, headers, body = request(port, "GET", "/static/rooms/regions.js")
    assert (status, headers["content-type"].split(";")[0]) == (200, "text/javascript")
    status, headers, body = request(port, "GET", "/examples/coffee?small=true")
    assert (status, max(Image.open(io.BytesIO(body)).size)) == (200, 320)
