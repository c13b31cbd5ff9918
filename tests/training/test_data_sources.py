"""Sources of images: folders, shards and tables give the same images, and mistakes in them are one sentence."""

import io
import json
import tarfile

import pytest
from commands import invoke
from generated_pictures import class_folders, generated
from PIL import Image

from pixtree.cli.main import app
from pixtree.training.logs import read_log
from pixtree.training.sources import TableReader, source_of

CLASSES, EACH, OTHERS = 2, 3, 1


def encoded(number, kind):
    file = io.BytesIO()
    Image.fromarray(generated(number, kind)).save(file, "png")
    return file.getvalue()


def samples(part="train"):
    """Class, name and bytes of all pictures of a part, in the order of a folder."""
    numbers = range(EACH) if part == "train" else range(EACH, EACH + OTHERS)
    return [(kind, f"{kind}_{number}", encoded(number, kind)) for kind in range(CLASSES) for number in numbers]


def add(archive, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def shard(path, members, ending=".cls"):
    """A tar file as webdataset writes it: the picture and its class under one name."""
    with tarfile.open(path, "w") as archive:
        for kind, name, content in members:
            add(archive, f"{name}.png", content)
            if ending:
                add(archive, f"{name}{ending}", json.dumps(kind if ending == ".cls" else {"label": kind}).encode())
    return path


@pytest.fixture
def shards(tmp_path):
    folder = tmp_path / "shards"
    folder.mkdir()
    shard(folder / "small-train-000.tar", samples()[:2])
    shard(folder / "small-train-001.tar", samples()[2:], ".json")
    shard(folder / "small-validation-000.tar", samples("val"))
    return folder


def table(part="train", names=None):
    datasets = pytest.importorskip("datasets")
    rows = samples(part)
    found = {
        "image": [{"bytes": content, "path": f"{name}.png"} for _, name, content in rows],
        "label": [kind for kind, _, _ in rows],
    }
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=names or ["disc", "bar"])})
    return datasets.Dataset.from_dict(found, features=features)


@pytest.fixture
def saved(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.DatasetDict({"train": table(), "validation": table("val")}).save_to_disk(str(tmp_path / "saved"))
    return tmp_path / "saved"


@pytest.fixture
def parquet(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "tables").mkdir()
    table().to_parquet(str(tmp_path / "tables" / "train-00000-of-00001.parquet"))
    table("val").to_parquet(str(tmp_path / "tables" / "validation-00000-of-00001.parquet"))
    return tmp_path / "tables"


def pictures(reader):
    return [(Image.open(file).convert("RGB").tobytes(), target) for file, target in (reader[place] for place in range(len(reader)))]


@pytest.mark.parametrize("kind", ["shards", "saved", "parquet"])
def test_all_sources_have_the_pictures_of_the_folder(kind, tmp_path, request):
    expected = source_of(str(class_folders(tmp_path / "folder", CLASSES, EACH, held=OTHERS)))
    found = source_of(str(request.getfixturevalue(kind)))
    assert len(found.classes) == len(expected.classes) == CLASSES
    assert pictures(found.learned) == pictures(expected.learned)
    assert pictures(found.held) == pictures(expected.held)
    assert found.learned.filename(1) == "0_1.png"


SMALL = ["--set", "model.arguments.depth=1", "--set", "model.image_size=32", "--set", "model.tokens=9"]
SHORT = ["--set", "schedule.batch=4", "--set", "schedule.epochs=1.34", "--workers", "0"]


@pytest.mark.parametrize("kind", ["shards", "saved"])
def test_a_recipe_trains_on_them(kind, tmp_path, request):
    data = request.getfixturevalue(kind)
    output = tmp_path / "run"
    result = invoke(app, ["train", "recipe", "pretrain_laptop", str(data), "-o", str(output), *SMALL, *SHORT])
    assert result.exit_code == 0, result.output
    assert json.loads((output / "result.json").read_text())["tested"] == CLASSES * OTHERS


def test_one_shard_alone_is_all_that_is_learned_from(tmp_path):
    found = source_of(str(shard(tmp_path / "pictures.tar", samples())))
    assert (len(found.learned), found.held, found.classes) == (6, None, ("0", "1"))


def test_damaged_pictures_of_a_shard_are_counted_by_the_log_and_the_result(tmp_path):
    members = [*samples(), (0, "broken", b"no picture"), (1, "short", samples()[0][2][:60])]
    data, output = shard(tmp_path / "train.tar", members), tmp_path / "run"
    whole = ["--set", "schedule.batch=8", "--set", "schedule.epochs=1", "--workers", "0"]
    result = invoke(app, ["train", "recipe", "pretrain_laptop", str(data), "-o", str(output), *SMALL, *whole])
    assert result.exit_code == 0, result.output
    counted = json.loads((output / "result.json").read_text())["damaged"]
    assert counted == sum(line["damaged"] for line in read_log(output / "log.jsonl"))
    assert counted >= 2  # the two lie together, and the first may pass over both


def refused(data, tmp_path, words):
    result = invoke(app, ["train", "recipe", "pretrain_laptop", str(data), "-o", str(tmp_path / "run")])
    assert result.exit_code == 1, result.output
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_shards_that_cannot_be_read_are_one_sentence(tmp_path):
    path = tmp_path / "train.tar"
    path.write_bytes(b"no archive" * 100)
    refused(path, tmp_path, "expected an uncompressed tar file, 'train.tar' is damaged or another file")
    shard(path, [(0, "a", b"x"), ("three", "b", b"x")])
    refused(path, tmp_path, "expected the number of a class in 'b.cls'")
    shard(path, [])
    refused(path, tmp_path, "expected images in 'train.tar'")
    shard(path, samples(), ending="")
    refused(path, tmp_path, "expected images of several classes, got 0")
    with tarfile.open(path, "w") as archive:
        add(archive, "a.png", b"x")
        add(archive, "a.cls", b"0")
        add(archive, "b.png", b"x")
    refused(path, tmp_path, "'b.png' of 'train.tar' has none; add .cls to it")


def test_validation_photos_are_refused_in_shards_and_tables(tmp_path):
    datasets = pytest.importorskip("datasets")
    named = [(kind, f"ILSVRC2012_val_{number:08}", content) for number, (kind, _, content) in enumerate(samples())]
    shard(tmp_path / "train.tar", named)
    refused(tmp_path / "train.tar", tmp_path, "never trained on, got ILSVRC2012_val_00000000.png")
    rows = {"image": [{"bytes": content, "path": f"{name}.png"} for _, name, content in named]}
    rows["label"] = [kind for kind, _, _ in named]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["disc", "bar"])})
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(str(tmp_path / "saved"))
    refused(tmp_path / "saved", tmp_path, "never trained on, got ILSVRC2012_val_00000000.png")


def test_tables_need_a_column_of_pictures_and_a_split_to_learn_from(tmp_path):
    datasets = pytest.importorskip("datasets")
    with pytest.raises(ValueError, match="expected a column of images, got words"):
        TableReader(datasets.Dataset.from_dict({"words": ["a"]}))
    datasets.DatasetDict({"all": table()}).save_to_disk(str(tmp_path / "saved"))
    refused(tmp_path / "saved", tmp_path, "expected a split called train, got all")
    datasets.DatasetDict({"train": table(), "test": table("val", ["disc", "line"])}).save_to_disk(str(tmp_path / "other"))
    refused(tmp_path / "other", tmp_path, "expected the same classes in both splits")
