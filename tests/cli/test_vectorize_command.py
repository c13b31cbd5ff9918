"""`pixtree vectorize`."""

import numpy as np
import PIL.Image
import pytest
from commands import invoke as run
from pictures import photo

from pixtree.cli.main import app


@pytest.fixture
def folder(tmp_path):
    for name in ("a", "b"):
        PIL.Image.fromarray(photo(height=24, width=30).permute(1, 2, 0).numpy()).save(tmp_path / f"{name}.png")
    return tmp_path


def test_one_image_becomes_one_file(folder):
    result = run(app, ["vectorize", str(folder / "a.png"), "-o", str(folder / "out.svg"), "--paths", "20"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("20 paths")
    assert (folder / "out.svg").read_text().startswith("<svg")


def test_a_folder_becomes_files_beside_its_images(folder):
    result = run(app, ["vectorize", str(folder), "--paths", "5", "--compress"])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in folder.glob("*.svgz")) == ["a.svgz", "b.svgz"]


def test_many_images_go_into_a_folder(folder):
    (folder / "svg").mkdir()
    result = run(app, ["vectorize", str(folder / "a.png"), str(folder / "b.png"), "-o", str(folder / "svg"), "--paths", "5"])
    assert result.exit_code == 0, result.output
    assert len(list((folder / "svg").iterdir())) == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["missing.png"], 1),
        (["a.png", "b.png", "-o", "one.svg"], 2),
        (["a.png", "-o", "nowhere/one.svg"], 1),
        (["a.png", "-o", "one.jpg"], 2),
        (["a.png", "--style", "wavy"], 1),
        (["a.png", "--paths", "0"], 1),
        (["a.png", "--layer", "hat"], 2),
        (["a.png", "--layer", "hat=a.png", "--layer", "hat=b.png"], 2),
        (["a.png", "b.png", "--layer", "hat=a.png"], 2),
        (["a.png", "--layer", "hat=nowhere.png"], 1),
        (["a.png", "--editable", "--passes", "crisp"], 1),
    ],
)
def test_faults_are_one_line_and_write_nothing(folder, monkeypatch, arguments, code):
    monkeypatch.chdir(folder)
    result = run(app, ["vectorize", *arguments])
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error: ")
    assert not list(folder.glob("*.svg"))


def test_a_mask_becomes_a_named_layer_of_an_editable_drawing(folder):
    mask = np.zeros((24, 30), np.uint8)
    mask[4:20, 5:25] = 255
    PIL.Image.fromarray(mask).save(folder / "mask.png")
    words = ["vectorize", str(folder / "a.png"), "--paths", "20", "--editable", "--layer", f"the hat={folder / 'mask.png'}"]
    result = run(app, words)
    assert result.exit_code == 0, result.output
    text = (folder / "a.svg").read_text()
    assert 'inkscape:label="the hat"' in text
    assert "<use" not in text


def test_evaluate_vectors_measures_a_folder_and_writes_its_record(folder):
    record = folder / "record.json"
    result = run(app, ["evaluate", "vectors", str(folder), "--paths", "10", "--no-baselines", "-o", str(record)])
    assert result.exit_code == 0, result.output
    assert "PSNR" in result.output
    assert record.exists()


def test_the_pixels_of_a_file_are_not_changed(folder):
    before = np.array(PIL.Image.open(folder / "a.png"))
    run(app, ["vectorize", str(folder / "a.png"), "--paths", "5"])
    assert (np.array(PIL.Image.open(folder / "a.png")) == before).all()
