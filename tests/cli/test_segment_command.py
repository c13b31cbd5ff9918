import json

import numpy as np
import pytest
from commands import invoke
from PIL import Image

from pixtree.cli.main import app


@pytest.fixture
def photo(tmp_path):
    y, x = np.mgrid[:30, :40]
    pixels = np.stack((x * 6, y * 8, (x * y) % 90), axis=2).astype(np.uint8)
    pixels[8:20, 10:25] = (220, 30, 40)
    path = tmp_path / "photo.png"
    Image.fromarray(pixels).save(path)
    return path


def run(*arguments):
    return invoke(app, [str(argument) for argument in arguments])


def labels_in(path):
    with Image.open(path) as image:
        return np.asarray(image)


def assert_refused(result, folder, *words, code=1):
    """One line of error, the exit code, and nothing left behind."""
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert all(word in result.stderr for word in words), result.stderr
    assert list(folder.iterdir()) == []


def test_the_default_is_200_regions_in_a_label_map(photo, out):
    result = run("segment", photo, "-o", out / "labels.png")
    assert result.exit_code == 0, result.output
    assert len(np.unique(labels_in(out / "labels.png"))) == 200
    assert f"200 regions: {out / 'labels.png'}" in result.output


@pytest.mark.parametrize("masked", [False, True])
def test_a_small_image_has_one_region_per_pixel_by_default_and_no_more_when_asked(tmp_path, out, masked):
    Image.fromarray(np.arange(240, dtype=np.uint8).reshape(10, 8, 3)).save(tmp_path / "small.png")
    Image.fromarray(np.repeat([0, 255], 40).reshape(10, 8).astype(np.uint8)).save(tmp_path / "mask.png")
    mask, pixels = (["--mask", tmp_path / "mask.png"], 40) if masked else ([], 80)
    command = ["segment", tmp_path / "small.png", "-o", out / "labels.png", *mask]
    assert_refused(run(*command, "--tokens", pixels + 1), out, f"at most {pixels} regions, got {pixels + 1}; ask for fewer")
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert f"{pixels} regions: {out / 'labels.png'}" in result.output


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.tiff", "a.npz", "a.geojson", "a.coco.json"])
def test_the_suffix_decides_the_format(photo, out, name):
    result = run("segment", photo, "-o", out / name, "--tokens", 7)
    assert result.exit_code == 0, result.output
    assert [path.name for path in out.iterdir()] == [name]
    if name.endswith("json"):
        record = json.loads((out / name).read_text())
        assert len(record.get("features") or record["annotations"]) == 7
    elif name.endswith("npz"):
        assert np.load(out / name)["counts"].tolist() == [7]
    else:
        assert labels_in(out / name).max() == 6


def test_a_named_format_wins_over_the_suffix(photo, out):
    assert run("segment", photo, "-o", out / "regions.json", "--format", "coco", "--tokens", 5).exit_code == 0
    record = json.loads((out / "regions.json").read_text())
    assert record["images"][0] == {"id": 1, "width": 40, "height": 30, "file_name": "photo.png"}


@pytest.mark.parametrize(
    "cut",
    [("--criterion", "aicc"), ("--at-most", 5), ("--at-most", 5, "--criterion", "bic"), ("--level", 2), ("--tokens", 9, "--relax")],
)
def test_every_cut_of_the_library_can_be_asked_for(photo, out, cut):
    result = run("segment", photo, "-o", out / "labels.png", *cut)
    assert result.exit_code == 0, result.output
    count = int(labels_in(out / "labels.png").max()) + 1
    assert f"{count} regions" in result.output
    assert "--at-most" not in cut or count <= 5


@pytest.mark.parametrize(
    ("words", "relax"),
    [
        (["PHOTO"], False),
        (["--relax", "PHOTO"], True),
        (["PHOTO", "--relax"], True),
        (["--relax", "--", "PHOTO"], True),
        (["--relax", "detail", "PHOTO"], "detail"),
        (["PHOTO", "--relax=detail"], "detail"),
    ],
)
def test_relax_takes_a_mode_or_none_and_never_an_image(photo, out, words, relax):
    from pixtree import segment

    result = run("segment", "-o", out / "labels.png", "--tokens", 9, *(photo if word == "PHOTO" else word for word in words))
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(labels_in(out / "labels.png"), segment(photo, tokens=9, relax=relax))


def test_an_unknown_way_to_relax_lists_the_known_ones(photo, out):
    refused = run("segment", photo, "-o", out / "labels.png", "--relax=fine")
    assert_refused(refused, out, "--relax takes the mode detail or none, got 'fine'", code=2)


def test_a_mask_leaves_pixels_out(photo, out, tmp_path):
    mask = np.zeros((30, 40), dtype=np.uint8)
    mask[5:25, 5:35] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    assert run("segment", photo, "-o", out / "labels.png", "--tokens", 6, "--mask", tmp_path / "mask.png").exit_code == 0
    values = labels_in(out / "labels.png")
    assert ((values == 0) == (mask == 0)).all()
    assert values.max() == 6


def test_another_partitioner_can_be_named(photo, out):
    result = run("segment", photo, "-o", out / "labels.png", "--partitioner", "grid", "--tokens", 12)
    assert result.exit_code == 0, result.output
    assert len(np.unique(labels_in(out / "labels.png"))) == 12


@pytest.mark.parametrize("style", ["boundaries", "mean", "random"])
def test_an_overlay_is_drawn_beside(photo, out, style):
    overlay = out / "overlay.png"
    result = run("segment", photo, "-o", out / "labels.npz", "--tokens", 5, "--overlay", overlay, "--overlay-style", style)
    assert result.exit_code == 0, result.output
    assert labels_in(overlay).shape == (30, 40, 3)
    assert str(overlay) in result.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--tokens", "0"], ["at least 1", "got 0"]),
        (["--criterion", "best"], ["aicc", "best"]),
        (["--similarity", "looks"], ["likelihood", "looks"]),
        (["--backend", "abacus"], ["numba", "abacus"]),
        (["--partitioner", "scissors"], ["slic", "scissors"]),
        (["--format", "bmp"], ["geojson", "bmp"]),
        (["--overlay-style", "loud", "--overlay", "o.png"], ["boundaries", "loud"]),
        (["--overlay", "o.jpg"], [".png", "o.jpg"]),
        (["--mask", "no-mask.png"], ["no-mask.png"]),
    ],
)
def test_a_bad_value_is_one_line_and_writes_nothing(photo, out, options, words):
    assert_refused(run("segment", photo, "-o", out / "labels.png", *options), out, *words)


@pytest.mark.parametrize(
    "options",
    [
        ["--tokens", "5", "--level", "3"],
        ["--tokens", "5", "--criterion", "aicc"],
        ["--at-most", "5", "--tokens", "3"],
    ],
)
def test_options_that_exclude_one_another_are_a_usage_error(photo, out, options):
    assert_refused(run("segment", photo, "-o", out / "labels.png", *options), out, "--", code=2)


@pytest.mark.parametrize("options", [["--level", "3"], ["--relax"], ["--relax", "detail"], ["--compactness", "0.1"]])
def test_another_partitioner_takes_a_count_only(photo, out, options):
    refused = run("segment", photo, "-o", out / "labels.png", "--partitioner", "grid", *options)
    assert_refused(refused, out, "takes tokens= only")


def test_an_output_replaces_neither_the_input_nor_another_output(photo, out):
    assert_refused(run("segment", photo, "-o", photo), out, photo.name, "twice", code=2)
    assert_refused(run("segment", photo, "-o", out / "a.png", "--overlay", out / "a.png"), out, "a.png", "twice", code=2)


def test_pixels_that_are_not_finite_are_refused(out, tmp_path):
    import numpy as np
    from PIL import Image

    Image.fromarray(np.full((4, 4), np.nan, np.float32)).save(tmp_path / "nan.tif")
    assert_refused(run("segment", tmp_path / "nan.tif", "-o", out / "labels.png", "--tokens", "2"), out, "NaN")


def test_an_unknown_suffix_lists_the_choices(photo, out):
    assert_refused(run("segment", photo, "-o", out / "labels.bmp"), out, ".png", ".coco.json", "labels.bmp")


def test_a_missing_output_folder_is_named(photo, out):
    assert_refused(run("segment", photo, "-o", out / "nowhere" / "labels.png"), out, "nowhere")


def test_outputs_are_checked_before_the_image_is_read(tmp_path, out):
    assert_refused(run("segment", tmp_path / "absent.png", "-o", out / "labels.bmp"), out, "labels.bmp")


def test_bad_images_are_one_line(photo, out, tmp_path):
    text, truncated = tmp_path / "text.png", tmp_path / "truncated.jpg"
    text.write_text("not an image")
    with Image.open(photo) as image:
        image.resize((400, 300)).save(truncated, quality=95)
    truncated.write_bytes(truncated.read_bytes()[:3000])
    for path in (tmp_path / "absent.png", text, truncated):
        assert_refused(run("segment", path, "-o", out / "labels.png"), out, path.name)


def test_an_old_output_survives_a_failure(photo, out):
    target = out / "labels.png"
    target.write_bytes(b"old")
    assert run("segment", photo, "-o", target, "--tokens", 0).exit_code == 1
    assert target.read_bytes() == b"old"
    assert len(list(out.iterdir())) == 1


def test_words_where_numbers_belong_are_a_usage_error(photo, out):
    result = run("segment", photo, "-o", out / "labels.png", "--tokens", "many")
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("command", ["segment", "hierarchy", "vectorize"])
def test_every_command_takes_a_window_and_a_page(tmp_path, out, command):
    pages = [Image.fromarray(np.arange(48, dtype=np.int32).reshape(6, 8) * 50 - 1000) for _ in range(2)]
    pages[0].save(tmp_path / "scan.tif", save_all=True, append_images=pages[1:])
    target = out / {"segment": "a.png", "hierarchy": "a.npz", "vectorize": "a.svg"}[command]
    given = [command, tmp_path / "scan.tif", "-o", target]
    assert_refused(run(*given, "--window", "auto"), out, "got 2 pages in", "choose one, from page=0 on")
    assert_refused(run(*given, "--page", 1), out, 'got int32 from -1000 to 1350; pass window="auto"')
    assert_refused(
        run(*given, "--page", 1, "--window", "low"), out, "--window is auto or two numbers with a comma between, got 'low'"
    )
    result = run(*given, "--page", 1, "--window", "-160,240")
    assert result.exit_code == 0, result.output
    assert target.exists()


@pytest.mark.parametrize("cut", [("--tokens", 70_000), ("--level", 0)])
def test_more_labels_than_a_png_holds_are_refused_before_any_work(tmp_path, out, cut, monkeypatch):
    def worked(*_, **__):
        raise AssertionError

    monkeypatch.setattr("pixtree.tasks.segment.segment", worked)
    Image.fromarray(np.zeros((250, 300), np.uint8)).save(tmp_path / "wide.png")
    refused = run("segment", tmp_path / "wide.png", "-o", out / "labels.png", *cut)
    count = 69_999 if cut[0] == "--tokens" else 74_999
    assert_refused(refused, out, f"a 16-bit PNG holds values up to 65535, got {count}; write .tif or .npz instead")
