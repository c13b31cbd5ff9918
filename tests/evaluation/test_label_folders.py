"""Label maps of other programs: how they are read, and that they are measured like ours."""

import json

import numpy as np
import pytest
import typer
from commands import invoke
from PIL import Image
from skimage import data

import pixtree
from pixtree.cli import evaluate
from pixtree.evaluation.annotated_photos import annotated_photos, label_folder
from pixtree.evaluation.superpixel_comparison import compare_superpixels, rows

app = typer.Typer()
evaluate.register(app)


@app.callback()
def _root():
    """Keep the group's name in the command, as in the whole command line."""


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    root = tmp_path_factory.mktemp("people")
    for part in ("images", "groundTruth"):
        (root / part / "val").mkdir(parents=True)
    for name, array in (("astronaut", data.astronaut()), ("coffee", data.coffee())):
        small = np.ascontiguousarray(array[:256:4, :384:4])
        Image.fromarray(small).save(root / "images" / "val" / f"{name}.png")
        Image.fromarray((small.mean(-1) // 64).astype(np.uint8)).save(root / "groundTruth" / "val" / f"{name}_0.png")
    return root


@pytest.fixture
def other(people, tmp_path):
    """The nested cut with 12 regions, as if another program had written it: in two formats, one of them with gaps."""
    folder = tmp_path / "maps"
    folder.mkdir()
    for photo in annotated_photos(people):
        labels = pixtree.segment(photo.pixels(), tokens=12)
        if photo.name == "coffee":
            np.save(folder / "coffee.npy", 7 * labels.astype(np.int64) - 3)
        else:
            Image.fromarray(labels.astype(np.uint16)).save(folder / f"{photo.name}.png")
    return folder


def test_label_maps_are_measured_like_the_method_that_made_them(people, other):
    photos = annotated_photos(people)
    folders = [label_folder("other", other, photos)]
    ours, theirs = rows([one for some in compare_superpixels(photos, ["pixtree-nested"], [12], folders=folders) for one in some])
    assert theirs["method"] == "other"
    assert np.isnan(theirs["seconds"])
    assert {**ours, "method": "", "seconds": 0} == {**theirs, "method": "", "seconds": 0}


def test_the_command_takes_folders_and_records_times_and_licences(people, other, tmp_path):
    (other / "seconds.csv").write_text("astronaut,0.5\ncoffee,0.25\n")
    (other / "about.json").write_text(json.dumps({"licence": "MIT", "source": "a public collection"}))
    record = tmp_path / "r.json"
    words = ["evaluate", "superpixels", people, "--tokens", 12, "--methods", "grid", "--labels", f"other={other}", "--workers", 1]
    done = invoke(app, [*map(str, words), "-o", str(record)])
    assert done.exit_code == 0, done.output
    written = json.loads(record.read_text())
    assert written["programs"] == {"other": {"licence": "MIT", "source": "a public collection"}}
    assert [(row["method"], row["segments"]) for row in written["rows"]] == [("grid", 12), ("other", 12)]
    assert written["rows"][1]["seconds"] == 0.375
    assert written["command"].endswith("--labels other=FOLDER")
    assert str(tmp_path) not in record.read_text()


def test_a_photo_without_a_label_map_is_named_before_any_work(people, other):
    (other / "coffee.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"'other' needs a label map .* 1 of 2 have none, such as coffee"):
        label_folder("other", other, annotated_photos(people))
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        label_folder("other", other / "nowhere", annotated_photos(people))


def test_pictures_that_are_no_label_maps_are_refused(people, other):
    photos = annotated_photos(people)
    np.save(other / "coffee.npy", np.zeros((64, 96, 3), np.uint8))
    with pytest.raises(ValueError, match=r"a label map is \(H, W\) integers, got uint8 of shape \(64, 96, 3\) in coffee.npy"):
        label_folder("other", other, photos).labels("coffee")
    np.save(other / "coffee.npy", np.zeros((0, 96), np.uint8))
    with pytest.raises(ValueError, match=r"a label map is \(H, W\) integers, got uint8 of shape \(0, 96\) in coffee.npy"):
        label_folder("other", other, photos).labels("coffee")
    (other / "coffee.npy").write_bytes(b"")
    with pytest.raises(ValueError, match=r"an intact image is needed, got .*coffee.npy"):
        label_folder("other", other, photos).labels("coffee")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("seconds.csv", "coffee,soon\n", "a line of seconds.csv is"),
        ("about.json", '{"price": 3}', "and nothing else"),
    ],
)
def test_what_stands_beside_label_maps_is_checked(people, other, name, text, message):
    (other / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        label_folder("other", other, annotated_photos(people))


@pytest.mark.parametrize("words", [["--labels", "other"], ["--labels", "a=b", "--labels", "a=c"], ["--labels", "=b"]])
def test_every_folder_needs_a_name_of_its_own(people, words):
    done = invoke(app, ["evaluate", "superpixels", str(people), "--tokens", "12", *words])
    assert done.exit_code != 0
    assert "--labels takes NAME=FOLDER" in done.output


def test_folders_are_measured_at_one_count_and_under_new_names(people, other):
    photos = annotated_photos(people)
    with pytest.raises(ValueError, match="measured at one count, got 2 counts"):
        next(compare_superpixels(photos, ["grid"], [12, 24], folders=[label_folder("other", other, photos)]))
    with pytest.raises(ValueError, match="names of their own, got slic"):
        next(compare_superpixels(photos, ["grid"], [12], folders=[label_folder("slic", other, photos)]))
