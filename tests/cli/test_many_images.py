"""Files, folders and patterns: a bad picture is reported, the rest goes on, and what exists is kept."""

import json

import numpy as np
import pytest
from commands import invoke
from PIL import Image

from pixtree.cli.main import app

ENDINGS = {"segment": ".png", "hierarchy": ".png", "vectorize": ".svg"}


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    y, x = np.mgrid[:20, :24]
    for name in ("a.png", "b.jpg", "more/c.png"):
        pixels = np.stack((x * 9, y * 12, (x * y) % 90 + len(name)), axis=2).astype(np.uint8)
        Image.fromarray(pixels).save(folder / name)
    (folder / "notes.txt").write_text("no picture")
    return folder


def run(*arguments):
    return invoke(app, [str(argument) for argument in arguments])


def few(command):
    return {"segment": ["--tokens", 5], "hierarchy": ["--counts", 5], "vectorize": ["--paths", 5]}[command]


@pytest.mark.parametrize("command", ENDINGS)
def test_a_folder_becomes_a_folder(photos, out, command):
    result = run(command, photos, "-o", out, *few(command))
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == [f"a{ENDINGS[command]}", f"b{ENDINGS[command]}"]
    assert result.stdout.count("\n") == 2


@pytest.mark.parametrize("command", ENDINGS)
def test_a_pattern_is_a_list_of_images(photos, out, command):
    result = run(command, photos / "**" / "*.png", "-o", out, *few(command))
    assert result.exit_code == 0, result.output
    assert sorted(path.stem for path in out.iterdir()) == ["a", "c"]


@pytest.mark.parametrize("command", ENDINGS)
def test_a_bad_picture_is_reported_and_the_rest_goes_on(photos, out, command):
    (photos / "aa.png").write_text("not a picture")
    result = run(command, photos, "-o", out, *few(command))
    assert result.exit_code == 1
    assert sorted(path.stem for path in out.iterdir()) == ["a", "b"]
    first, last = result.stderr.splitlines()
    assert first == (
        f"error: {photos / 'aa.png'}: a readable PNG, JPEG, WebP or TIFF is needed, but '{photos / 'aa.png'}' is none of them, "
        "whatever its name; convert it to PNG"
    )
    assert last == "error: 1 of 3 images failed; see the lines above"


@pytest.mark.parametrize("command", ENDINGS)
def test_outputs_that_exist_are_kept(photos, out, command):
    target = out / f"a{ENDINGS[command]}"
    target.write_text("mine")
    result = run(command, photos, "-o", out, *few(command))
    assert result.exit_code == 0, result.output
    assert f"kept: {target}" in result.stdout
    assert target.read_text() == "mine"
    assert (out / f"b{ENDINGS[command]}").exists()

    alone = run(command, photos / "a.png", "-o", target, *few(command))
    assert alone.exit_code == 1
    assert alone.stderr == f"error: existing outputs are kept, and {str(target)!r} exists; give --overwrite or another name\n"

    assert run(command, photos, "-o", out, "--overwrite", *few(command)).exit_code == 0
    assert target.read_bytes() != b"mine"


def test_the_format_of_a_folder_can_be_named(photos, out):
    assert run("segment", photos, "-o", out, "--format", "geojson", "--tokens", 5).exit_code == 0
    assert run("hierarchy", photos, "-o", out, "--format", "npz", "--contours", out).exit_code == 0
    names = [f"{stem}{ending}" for stem in "ab" for ending in (".contours.png", ".geojson", ".npz")]
    assert sorted(path.name for path in out.iterdir()) == sorted(names)


def test_overlays_of_many_images_go_into_a_folder(photos, out):
    result = run("segment", photos, "-o", out, "--overlay", out, "--tokens", 5)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == ["a.overlay.png", "a.png", "b.overlay.png", "b.png"]


def test_one_file_holds_one_image(photos, out):
    result = run("segment", photos, "-o", out / "labels.png")
    assert result.exit_code == 2
    assert result.stderr == "error: --output names one file, got 2 images for it; give a folder that exists\n"


def test_two_images_of_one_name_need_two_folders(photos, out):
    (photos / "a.jpg").write_bytes((photos / "b.jpg").read_bytes())
    result = run("segment", photos, "-o", out)
    assert result.exit_code == 2
    assert result.stderr == "error: every input and output must be a separate file, got 'a.png' twice; give another name\n"
    assert list(out.iterdir()) == []


def test_an_output_never_replaces_an_image(photos):
    result = run("segment", photos, "-o", photos, "--overwrite")
    assert result.exit_code == 2
    assert "got 'a.png' twice" in result.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("absent.png", "expected an image, a folder or a pattern, but 'absent.png' does not exist; check the path"),
        ("*.tiff", "expected a pattern that matches images, but '*.tiff' matches none; check it"),
        (
            "empty",
            "expected a folder of images, 'empty' has none (.png, .jpg, .jpeg, .webp, .tif, .tiff, .bmp, .gif); check the path",
        ),
    ],
)
def test_what_means_no_image_is_refused(photos, out, monkeypatch, given, message):
    monkeypatch.chdir(photos)
    (photos / "empty").mkdir()
    result = run("segment", given, "-o", out)
    assert result.exit_code in (1, 2)
    assert result.stderr == f"error: {message}\n"


def test_json_says_what_was_done(photos, out):
    (photos / "aa.png").write_text("not a picture")
    (out / "b.png").write_text("mine")
    result = run("segment", photos, "-o", out, "--tokens", 5, "--json")
    assert result.exit_code == 1
    first, second, third = json.loads(result.stdout)
    assert first == {"image": str(photos / "a.png"), "output": str(out / "a.png"), "regions": 5}
    assert "convert it to PNG" in second["error"]
    assert third == {"image": str(photos / "b.jpg"), "kept": str(out / "b.png")}


@pytest.mark.parametrize("command", ENDINGS)
def test_json_of_one_image_is_a_list_of_one(photos, out, command):
    result = run(command, photos / "a.png", "-o", out / f"a{ENDINGS[command]}", "--json", *few(command))
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)) == 1
    again = run(command, photos / "a.png", "-o", out / f"a{ENDINGS[command]}", "--json", *few(command))
    assert again.exit_code == 1
    assert "existing outputs are kept" in json.loads(again.stdout)[0]["error"]


def test_the_limit_of_pixels_can_be_raised(photos, out, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    refused = run("segment", photos / "a.png", "-o", out / "a.png", "--tokens", 5)
    assert refused.exit_code == 1
    assert "--max-pixels on the command line" in refused.stderr
    result = run("segment", photos / "a.png", "-o", out / "a.png", "--tokens", 5, "--max-pixels", 480)
    assert result.exit_code == 0, result.output
