"""Every table and figure of the paper from end to end on tiny data: the recipe, the command that evaluates it, a figure and a plot.

Models are narrow, pictures small and generated, and training lasts one or two steps: shown is that each step takes what the one
before it leaves, not that the figures are good. `docs/reproduce.md` has the same commands at full size.
"""

import json
import runpy
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from commands import invoke
from generated_pictures import class_folders, generated, label_maps
from labelled_folders import small_weights, table
from PIL import Image
from scipy.io import savemat

import pixtree
from pixtree.cli.main import app
from pixtree.evaluation.label_maps import class_overlay
from pixtree.evaluation.tokenizer_measures import image_at
from pixtree.exports.levels import level_stack
from pixtree.partitioners import partitioner
from pixtree.tokenizer.components import Component
from pixtree.training.reconstruction import load_encoder

ROOT = Path(__file__).parents[2]
ROADS = tuple(f"class {number}" for number in range(12))
NAME = "vit_tiny_patch16_224"
COMPONENTS = get_args(Component)
TINY = ["model.arguments.depth=1", "model.arguments.embed_dim=48", "model.arguments.num_heads=3", "model.image_size=48"]


def command(*words):
    done = invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output + done.stderr
    return done


def trained(recipe, data, output, *changes, start=None, images=4):
    """Follow a recipe for one step."""
    words = [word for change in (*TINY, *changes) for word in ("--set", change)] if "tokenizer" not in recipe else []
    words += [word for change in changes for word in ("--set", change)] if "tokenizer" in recipe else []
    words += ["--set", f"schedule.batch={images}", "--set", "schedule.epochs=null", "--set", "schedule.steps=1"]
    words += [] if start is None else ["--start", start]
    command("train", "recipe", recipe, data, "-o", output, "--workers", 0, *words)
    return output


def retrofit(data, output, *changes, recipe="retrofit", **words):
    """The recipe of the paper on classes of the data and a fresh patch model."""
    fresh = ["model.classes=data", "model.drop_path=0.0", f"model.name={NAME}", "model.start=fresh"]
    return trained(recipe, data, output, *(fresh if "start" not in words else fresh[:3]), *changes, **words)


@pytest.fixture
def evaluated(tmp_path):
    """Run an evaluation; its record, after looking at its plot."""

    def run(*words):
        record, plot = tmp_path / "record.json", tmp_path / "plot.png"
        command("evaluate", *words, "-o", record, "--plot", plot)
        with Image.open(plot) as picture:
            assert np.asarray(picture.convert("L")).std() > 1.0
        return json.loads(record.read_text())["rows"]

    return run


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return class_folders(tmp_path_factory.mktemp("images"), classes=2, each=3, held=1, size=48)


@pytest.fixture(scope="module")
def run(images, tmp_path_factory):
    """What the recipe `retrofit` trains."""
    return retrofit(images, tmp_path_factory.mktemp("runs") / "retrofit")


@pytest.fixture(scope="module")
def patches(tmp_path_factory):
    """timm's smallest model, with its weights in a file."""
    return small_weights(tmp_path_factory.mktemp("weights") / "small.safetensors")


@pytest.fixture(scope="module")
def thousand(tmp_path_factory):
    """Two images with classes of ImageNet."""
    return table(tmp_path_factory.mktemp("thousand"), [0, 1])


def test_tab_imgcls_scores_a_retrofit_on_val_real_v2_and_by_its_features(run, images, thousand, evaluated, tmp_path):
    tokenizer = trained("tokenizer", images, tmp_path / "tokenizer", "encoder.crop=32", images=2)
    run = retrofit(images, tmp_path / "run", f"model.encoder={tokenizer / 'encoder.safetensors'}")
    top1 = evaluated("top1", run, images)
    assert 0 <= top1[0]["top1"] <= 1
    assert top1[0]["tokens"] > 1
    assert 0 <= evaluated("knn", run, images)[0]["knn"] <= 1
    assert 0 <= evaluated("probe", run, images)[0]["probe"] <= 1
    real = tmp_path / "real.json"
    real.write_text("[[0, 1], [1]]")
    bank = class_folders(tmp_path / "bank", classes=2, each=2, size=48) / "train"
    for part in bank.iterdir():
        part.rename(bank / {"class_0": "n01440764", "class_1": "n01443537"}[part.name])
    found = evaluated("knn", run, thousand, "--bank", bank, "--real-labels", real)
    assert 0.5 <= found[0]["knn"] <= 1
    second = tmp_path / "v2"
    for number in (0, 1):
        (second / str(number)).mkdir(parents=True)
        Image.fromarray(generated(9, number, 48)).save(second / str(number) / "a.jpeg")
    assert 0 <= evaluated("knn", run, second, "--bank", bank)[0]["knn"] <= 1


def test_tab_tok_cls_compares_patches_and_regions_trained_by_one_recipe(images, evaluated, tmp_path):
    regions = trained("pretrain_laptop", images, tmp_path / "regions", "model.name=pixtree_paper_vit_tiny", "model.tokens=null")
    squares = retrofit(images, tmp_path / "squares", "model.tokenizer=null", "model.position_resolution=null")
    rows = evaluated("top1", squares, images, "--variant", f"run={regions}")
    assert [row["variant"] for row in rows] == ["as it is", "run=regions"]
    assert rows[0]["tokens"] == 9


def segmented(roads, run, evaluated, tmp_path):
    small = ["layout=camvid", f"model.name={NAME}", "model.tokenizer=paper", "model.drop_path=0.0"]
    trained("segment", roads, tmp_path / "segmenter", *small, start=run, images=2)
    return evaluated("segmentation", tmp_path / "segmenter", roads, "--size", 48)


@pytest.fixture(scope="module")
def roads(tmp_path_factory):
    return label_maps(tmp_path_factory.mktemp("roads"), each=3, held=2, size=48)


def test_tab_seg_combined_scores_a_segmenter_that_starts_from_a_retrofit(run, roads, evaluated, tmp_path):
    rows = segmented(roads, run, evaluated, tmp_path)
    assert rows[0]["class"] == "all"
    assert 0 <= rows[0]["miou"] <= 1
    picture = tmp_path / "overlay.png"
    truth = np.asarray(Image.open(next((roads / "labels" / "val").iterdir())))
    photo = np.asarray(Image.open(next((roads / "images" / "val").iterdir())))
    Image.fromarray(class_overlay(photo, truth, ROADS)).save(picture)  # fig:segvis_main
    assert picture.stat().st_size > 100


def test_tab_seg_coco10k_reads_its_own_layout_for_the_same_command(run, evaluated, tmp_path):
    root = tmp_path / "coco10k"
    for name in ("images", "annotations", "imageLists"):
        (root / name).mkdir(parents=True)
    for number, part in enumerate(("train", "test")):
        picture = generated(number, number, 48)
        Image.fromarray(picture).save(root / "images" / f"{part}.jpg")
        truth = np.where(picture[..., 0] > 150, 3, 1).astype(np.uint8)
        savemat(root / "annotations" / f"{part}.mat", {"S": truth})
        (root / "imageLists" / f"{part}.txt").write_text(f"{part}\n")
    small = ["layout=coco-stuff-10k", f"model.name={NAME}", "model.tokenizer=paper", "model.drop_path=0.0"]
    trained("segment", root, tmp_path / "segmenter", *small, start=run, images=1)
    rows = evaluated("segmentation", tmp_path / "segmenter", root, "--layout", "coco-stuff-10k", "--size", 48)
    assert 0 <= rows[0]["miou"] <= 1


def test_tab_salient_segmentation_cuts_the_tokens_of_a_trained_model(images, evaluated, tmp_path):
    run = retrofit(images, tmp_path / "run", "model.arguments.depth=5")  # the cut takes the keys of the fifth block from the end
    for name in ("images", "masks"):
        (tmp_path / "ecssd" / name).mkdir(parents=True)
    picture = generated(0, 0, 64)
    Image.fromarray(picture).save(tmp_path / "ecssd" / "images" / "a.jpg")
    Image.fromarray(np.where(picture[..., 0] > 180, 255, 0).astype(np.uint8)).save(tmp_path / "ecssd" / "masks" / "a.png")
    rows = evaluated("salient", tmp_path / "ecssd", "--model", run, "--size", 48, "--tokens", 16)
    assert all(0 <= row["iou"] <= 1 for row in rows)


def test_tab_imagetrace_and_the_figures_of_drawings(evaluated, tmp_path):
    (tmp_path / "photos").mkdir()
    Image.fromarray(generated(0, 0, 48)).save(tmp_path / "photos" / "a.png")
    rows = evaluated("vectors", tmp_path / "photos", "--paths", "51", "--style", "paper", "--no-baselines")
    assert rows[0]["psnr"] > 5
    drawing = tmp_path / "a.svg"  # fig:vector_graphics, fig:vectorized_zoom, fig:morevectorized, fig:vectorized_pathqual
    command("vectorize", tmp_path / "photos" / "a.png", "-o", drawing, "--style", "paper", "--paths", 51)
    assert drawing.read_text().count("<path") > 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [(["features=24"], "features 24"), (["criterion=bic", "kernel=cosine"], "kernel cosine, criterion bic")],
)
def test_tab_hyperparam_ablations_trains_each_value_at_the_papers_rate(changes, said, images, evaluated, tmp_path):
    usual = trained("tokenizer", images, tmp_path / "usual", "encoder.crop=32", images=2)
    changes = [f"encoder.{change}" for change in changes]
    other = trained("tokenizer", images, tmp_path / "other", "encoder.crop=32", *changes, images=2)
    log = json.loads((other / "log.jsonl").read_text().splitlines()[0])
    assert log["rate"] == 1e-4
    rows = evaluated("tokenizer", usual, other, images, "--size", 32, "--limit", 2)
    assert [row["changed"] for row in rows] == [
        "paper",
        ", ".join(change[8:].replace("=", " ") for change in sorted(changes)[::-1]),
    ]
    assert all(0 < row["mse"] < 1 and -1 <= row["ssim"] <= 1 and row["tokens"] >= 1 for row in rows)


def test_tab_sensitivity_gaussian_trains_each_shape(images, evaluated, tmp_path):
    runs = [trained("tokenizer", images, tmp_path / f"b{b}", "encoder.crop=32", f"encoder.shape={b}", images=2) for b in (1.0, 0.5)]
    rows = evaluated("tokenizer", *runs, images, "--size", 32, "--limit", 1)
    assert [row["changed"] for row in rows] == ["shape 1.0", "shape 0.5"]


def test_tab_ablation_rebuttal_trains_every_row(run, images, evaluated, tmp_path):
    parts = {one: retrofit(images, tmp_path / one, f"model.without={one}") for one in COMPONENTS}
    words = [word for one in parts.values() for word in ("--variant", f"run={one}")]
    rows = {row["variant"]: row for row in evaluated("top1", run, images, *words)}
    assert list(rows) == ["as it is", *(f"run={one}" for one in COMPONENTS)]
    assert rows["run=selection"]["tokens"] > max(row["tokens"] for name, row in rows.items() if name != "run=selection")


def test_tab_kernelpos_trains_a_table_of_each_resolution(images, evaluated, tmp_path):
    runs = [retrofit(images, tmp_path / f"bins{bins}", f"model.position_resolution={bins}") for bins in (16, 24)]
    rows = evaluated("top1", runs[0], images, "--variant", f"run={runs[1]}")
    assert rows[1]["gflops"] > rows[0]["gflops"]


def test_tab_efficiency_takes_what_was_trained(run, evaluated):
    rows = evaluated("efficiency", run, "--rounds", 1, "--batch", 2)
    assert rows[0]["tokens_per_second"] > 0


def test_fig_scale_invariance_merges_the_criterions_regions_to_the_number_of_patches(patches, thousand, evaluated):
    rows = evaluated("scale", "test_vit", thousand, "--weights", patches, "--sizes", "64,96")
    merged = [row for row in rows if row["kind"] == "the criterion's regions, merged"]
    squares = [row for row in rows if row["kind"] == "patches"]
    assert [row["size"] for row in merged] == [64, 96]
    assert all(0 < one["tokens"] <= other["tokens"] for one, other in zip(merged, squares, strict=True))


def test_the_four_configurations_train_one_after_another(images, roads, tmp_path):
    """[`tab:all_config`] What each recipe leaves is what the next one starts from."""
    own = ["model.classes=data", "model.name=pixtree_paper_vit_tiny", "model.drop_path=0.0"]
    first = trained("pretrain", images, tmp_path / "pretrain", *own)
    second = trained("finetune", images, tmp_path / "finetune", *own, start=first)
    small = ["layout=camvid", "model.name=pixtree_paper_vit_tiny", "model.drop_path=0.0"]
    third = trained("segment", roads, tmp_path / "segment", *small, start=second, images=2)
    resolutions = [json.loads((folder / "config.json").read_text())["position_resolution"] for folder in (first, second, third)]
    assert resolutions == [16, 24, 48]


def test_fig_resdensity_fits_the_residuals_of_a_pretrained_tokenizers_regions(images, tmp_path):
    script = runpy.run_path(str(ROOT / "benchmarks" / "residuals.py"))
    run = load_encoder(trained("tokenizer", images, tmp_path / "tokenizer", "encoder.crop=32", images=2))
    image = image_at(next((images / "train" / "class_0").iterdir()))
    with torch.no_grad():
        labels = run.encoder(image[None], run.budget).partition.labels[0]
    residuals = script["residuals_of"](image, labels, np.random.default_rng(0))
    shape, scale = script["fitted"](residuals)
    assert 0.2 <= shape <= 3.0
    row = {"shape": shape, "scale": scale, "deviation": float(residuals.std())}
    script["plot"]({"trained": (row, residuals), "again": (row, residuals)}, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_figures_of_partitions_have_the_methods_of_the_paper(tmp_path):
    """[`fig:teaser`, `fig:spatgran`, `fig:arbopixels`]"""
    picture = tmp_path / "a.png"
    Image.fromarray(generated(0, 0, 48)).save(picture)
    image = np.asarray(Image.open(picture))
    counts = {name: int(partitioner(name, 9)(image_at(picture)[None]).counts[0]) for name in ("grid", "quadtree", "slic")}
    assert all(count > 1 for count in counts.values())
    cuts = [pixtree.segment(image, level=level) for level in (2, 3, 4)]
    assert [int(cut.max()) for cut in cuts] == sorted((int(cut.max()) for cut in cuts), reverse=True)
    assert level_stack(image, cuts, width=200).std() > 1.0
