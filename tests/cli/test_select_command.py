"""Objects selected and masks made sharp on the command line."""

import json

import numpy as np
import pytest
from commands import invoke
from PIL import Image

from pixtree.cli.main import app

RED = np.zeros((40, 60), bool)
RED[10:30, 20:40] = True


@pytest.fixture
def photo(tmp_path):
    pixels = np.full((40, 60, 3), (60, 140, 60), np.uint8)
    pixels[RED] = (190, 40, 40)
    path = tmp_path / "photo.png"
    Image.fromarray(pixels).save(path)
    return path


def run(*arguments):
    return invoke(app, [str(argument) for argument in arguments])


def read(path):
    with Image.open(path) as image:
        return np.asarray(image)


def saved(path, values):
    Image.fromarray(values).save(path)
    return path


def assert_refused(result, folder, *words, code=1):
    """One line of error, the exit code, and nothing left behind."""
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert all(word in result.stderr for word in words), result.stderr
    assert list(folder.iterdir()) == []


def test_a_point_gives_a_mask_that_is_white_inside(photo, out):
    result = run("select", photo, "--inside", "20,30", "--outside", "2,2", "-o", out / "mask.png")
    assert result.exit_code == 0, result.output
    assert f"400 of 2400 pixels: {out / 'mask.png'}" in result.output
    mask = read(out / "mask.png")
    assert mask.dtype == np.uint8
    assert (mask == 255 * RED).all()


@pytest.mark.parametrize("marks", [("12,22", "28,38"), ("8,18,32,42",), ("20.4,29.7",)], ids=["points", "box", "floats"])
def test_marks_may_be_points_and_boxes(photo, out, marks):
    given = [word for mark in marks for word in ("--inside", mark)]
    assert run("select", photo, *given, "-o", out / "mask.png").exit_code == 0
    assert (read(out / "mask.png") == 255 * RED).all()


def test_marks_may_be_drawn_in_a_picture(photo, out, tmp_path):
    drawn = np.zeros((40, 60), np.uint8)
    drawn[15:20, 25:28] = 200
    scribble = saved(tmp_path / "marks.png", drawn)
    result = run("select", photo, "--inside", scribble, "--inside", "25,35", "-o", out / "mask.png")
    assert result.exit_code == 0, result.output
    assert (read(out / "mask.png") == 255 * RED).all()


def test_the_object_may_be_an_annotation(photo, out):
    assert run("select", photo, "--inside", "20,30", "-o", out / "object.coco.json").exit_code == 0
    record = json.loads((out / "object.coco.json").read_text())
    assert [one["bbox"] for one in record["annotations"]] == [[20, 10, 20, 20]]
    assert record["images"][0]["file_name"] == "photo.png"


def test_an_overlay_shows_the_outline(photo, out):
    assert run("select", photo, "--inside", "20,30", "-o", out / "mask.png", "--overlay", out / "seen.png").exit_code == 0
    assert read(out / "seen.png").shape == (40, 60, 3)


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("--inside", "50,3"), ("40 rows and 60 columns", "row 50"), 1),
        (("--inside", "20,30", "--outside", "20,30"), ("contradict", "row 20, column 30"), 1),
        (("--inside", "1,2,3"), ("--inside is row,column", "3 numbers"), 2),
        (("--inside", "absent.png"), ("absent.png", "does not exist"), 1),
    ],
)
def test_wrong_marks_are_one_line_and_nothing_is_written(photo, out, arguments, words, code):
    assert_refused(run("select", photo, *arguments, "-o", out / "mask.png"), out, *words, code=code)


def test_a_selection_without_marks_is_a_usage_error(photo, out):
    assert run("select", photo, "-o", out / "mask.png").exit_code == 2
    assert list(out.iterdir()) == []


def test_an_output_must_not_replace_an_input(photo, out):
    assert_refused(run("select", photo, "--inside", "20,30", "-o", photo), out, "a separate file", code=2)


def rough(shift=2):
    return np.roll(RED, (shift, shift), (0, 1))


def test_a_rough_mask_becomes_sharp(photo, out, tmp_path):
    mask = saved(tmp_path / "mask.png", 255 * rough().astype(np.uint8))
    result = run("snap", mask, photo, "-o", out / "sharp.png")
    assert result.exit_code == 0, result.output
    assert "% of the pixels changed" in result.output
    assert (read(out / "sharp.png") == 255 * RED).all()


def test_a_palette_stays(photo, out, tmp_path):
    picture = Image.fromarray(7 * rough().astype(np.uint8), "P")
    picture.putpalette([value % 256 for value in range(768)])
    picture.save(tmp_path / "labels.png")
    assert run("snap", tmp_path / "labels.png", photo, "-o", out / "sharp.png").exit_code == 0
    with Image.open(out / "sharp.png") as sharp:
        assert sharp.mode == "P"
        assert sharp.getpalette()[21:24] == [21, 22, 23]
        assert (np.asarray(sharp) == 7 * RED).all()


def test_sixteen_bits_stay(photo, out, tmp_path):
    mask = saved(tmp_path / "labels.png", (1000 * rough()).astype(np.uint16))
    assert run("snap", mask, photo, "-o", out / "sharp.png").exit_code == 0
    assert (read(out / "sharp.png") == 1000 * RED).all()


def test_soft_values_are_probabilities(photo, out, tmp_path):
    mask = saved(tmp_path / "soft.png", np.where(rough(), 180, 40).astype(np.uint8))
    assert run("snap", mask, photo, "--soft", "-o", out / "sharp.png").exit_code == 0
    assert (read(out / "sharp.png") == 255 * RED).all()


def test_a_mask_of_another_size_is_refused(photo, out, tmp_path):
    mask = saved(tmp_path / "mask.png", np.zeros((30, 60), np.uint8))
    assert_refused(run("snap", mask, photo, "-o", out / "sharp.png"), out, "(40, 60)", "(30, 60)")


def test_a_coloured_mask_is_refused(photo, out):
    other = photo.with_name("mask.png")
    other.write_bytes(photo.read_bytes())
    assert_refused(run("snap", other, photo, "-o", out / "sharp.png"), out, "one channel", "mode RGB")


def test_a_mask_that_is_no_picture_is_refused(photo, out, tmp_path):
    (tmp_path / "mask.png").write_text("no picture")
    assert_refused(run("snap", tmp_path / "mask.png", photo, "-o", out / "sharp.png"), out, "readable image")
    assert_refused(run("snap", tmp_path / "absent.png", photo, "-o", out / "sharp.png"), out, "does not exist")
