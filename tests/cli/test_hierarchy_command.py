import numpy as np
import pytest
from commands import invoke
from PIL import Image

from pixtree.cli.hierarchy import parsed_counts
from pixtree.cli.main import app
from pixtree.trees.hierarchy import Hierarchy


@pytest.fixture
def photo(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    path = tmp_path / "photo.png"
    Image.fromarray(pixels).resize((24, 20)).save(path)
    return path


def run(*arguments):
    return invoke(app, ["hierarchy", *(str(argument) for argument in arguments)])


def size_of(path):
    with Image.open(path) as image:
        return image.size


def test_one_run_draws_the_stack_saves_the_tree_and_draws_the_contours(photo, out):
    stack, tree, contours = out / "stack.png", out / "tree.npz", out / "contours.png"
    result = run(photo, "-o", stack, "-o", tree, "--contours", contours, "--counts", "40, 10,3")
    assert result.exit_code == 0, result.output
    assert "40, 10, 3 regions" in result.output
    assert all(str(path) in result.output for path in (stack, tree, contours))
    assert Hierarchy.load(tree).shape == (20, 24)
    assert size_of(contours) == (24, 20)
    assert size_of(stack)[0] == 1200


@pytest.mark.parametrize("options", [[], ["--levels"]])
def test_without_counts_a_stack_is_drawn_as_well(photo, out, options):
    result = run(photo, "-o", out / "stack.png", *options)
    assert result.exit_code == 0, result.output
    assert "regions" in result.output


@pytest.mark.parametrize("options", [[], ["--levels"], ["--contours", "contours.png"]])
def test_a_single_pixel_has_a_tree(tmp_path, out, options, monkeypatch):
    monkeypatch.chdir(out)
    Image.new("RGB", (1, 1), "red").save(tmp_path / "pixel.png")
    result = run(tmp_path / "pixel.png", "-o", out / "stack.png", *options)
    assert result.exit_code == 0, result.output


def test_a_mask_of_several_pieces_raises_the_usual_counts(photo, out, tmp_path):
    mask = np.zeros((20, 24), dtype=np.uint8)
    mask[::4, ::4] = 255  # 30 pixels that do not touch
    Image.fromarray(mask).save(tmp_path / "mask.png")
    result = run(photo, "-o", out / "stack.png", "--mask", tmp_path / "mask.png", "--contours", out / "contours.png")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("options", "word", "code"),
    [
        (["-o", "stack.jpg"], ".npz", 1),
        (["-o", "nowhere/stack.png"], "nowhere", 1),
        (["-o", "stack.png", "--contours", "contours.tif"], ".png", 1),
        (["-o", "stack.png", "--counts", "10,few"], "few", 1),
        (["-o", "stack.png", "--counts", "10,0"], "at least 1", 1),
        (["-o", "stack.png", "--similarity", "looks"], "looks", 1),
        (["-o", "stack.png", "--counts", "9", "--levels"], "--levels", 2),
        ([], "--output", 2),
    ],
)
def test_bad_options_are_one_line_and_write_nothing(photo, out, monkeypatch, options, word, code):
    monkeypatch.chdir(out)
    result = run(photo, *options)
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert word in result.stderr
    assert list(out.iterdir()) == []


def test_counts_are_read_with_and_without_spaces():
    assert parsed_counts("1000, 200,50", "--counts") == [1000, 200, 50]
