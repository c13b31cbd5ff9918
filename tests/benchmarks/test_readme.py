"""The figures of the README's table and limits are those of the committed records."""

from pathlib import Path

import pytest
from evidence.report import records_in
from evidence.summary import best, printed, value

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
RECORDS = records_in(ROOT / "benchmarks" / "results")
OTHERS = ("pixtree", "grid", "quadtree")
DEIT = {"model": "deit_tiny_patch16_224", "compute": 0.5}
SALIENT = {"dataset": "ecssd", "model": "deit_tiny"}
FINETUNED, PEERS = "top-1 of DeiT-Tiny fine-tuned", "superpixels_peers"
DRAWN, SHOWN = "PSNR of DiffVG's five images", "Salient objects are found best"


def of(measure, form, **where):
    return value(measure, form, tokens=200, **where)


FIGURES = [  # the start of a line, a record, and how a figure of the line is found in it
    ("boundary recall", PEERS, of("boundary_recall", ".3f", method="pixtree")),
    ("boundary recall", PEERS, of("boundary_recall", ".3f", method="pixtree-detail")),
    ("boundary recall", PEERS, of("boundary_recall", ".3f", method="crs-rgb")),
    ("boundary recall", PEERS, of("boundary_recall", ".3f", method="etps-0")),
    ("undersegmentation error", PEERS, of("undersegmentation_error", ".4f", method="pixtree")),
    ("undersegmentation error", PEERS, of("undersegmentation_error", ".3f", method="disf")),
    ("boundary precision", "superpixels", of("boundary_precision", ".3f", method="pixtree")),
    ("boundary precision", "superpixels", of("boundary_precision", ".3f", method="felzenszwalb")),
    ("fraction of DeiT-Tiny's top-1", "coarsen_5000", value("kept", ".3f", method="pixtree: token trees", **DEIT)),
    ("fraction of DeiT-Tiny's top-1", "coarsen_5000", value("kept", ".3f", method="MCTF", **DEIT)),
    (FINETUNED, "finetune", value("top1", ".3f", kind="196 regions")),
    (FINETUNED, "finetune", value("top1", ".3f", kind="the paper's preset")),
    (FINETUNED, "finetune", value("top1", ".3f", kind="196 patches, 224 px")),
    ("A retrofit loses accuracy", "knn", value("knn", ".3f", variant="the paper's preset")),
    ("A retrofit loses accuracy", "knn", value("knn", ".3f", variant="196 patches")),
    (DRAWN, "vectors", value("psnr_of_mean", ".1f", method="pixtree 5000 paths")),
    (DRAWN, "vectors", value("psnr_of_mean", ".1f", method="paper 5000 paths")),
    (DRAWN, "vectors", printed("psnr", ".1f")),
    (DRAWN, "vectors", value("psnr_of_mean", ".1f", method="vtracer fine")),
    (SHOWN, "salient", value("iou", ".3f", way="square patches, pixtree.snap", **SALIENT)),
    (SHOWN, "salient", value("iou", ".3f", way="retrofit, its own 784 regions", **SALIENT)),
    (SHOWN, "salient", value("iou", ".3f", way="square patches, best setting", **SALIENT)),
]


@pytest.mark.parametrize(("start", "record", "pick"), FIGURES)
def test_a_figure_of_the_readme_is_that_of_its_record(start, record, pick):
    (line,) = (line for line in README if line.startswith((f"| {start}", f"- {start}")))
    figure = pick(RECORDS[record])
    assert figure is not None
    assert figure.removeprefix("0") in line


@pytest.mark.parametrize(
    ("start", "record", "key", "least"),
    [
        ("boundary recall", PEERS, "boundary_recall", False),
        ("undersegmentation error", PEERS, "undersegmentation_error", True),
        ("boundary precision", "superpixels", "boundary_precision", False),
    ],
)
def test_the_other_method_of_the_readme_is_the_best_one(start, record, key, least):
    (line,) = (line for line in README if line.startswith(f"| {start}"))
    found = best(key, ".3f", "method", least=least, but=OTHERS, tokens=200)(RECORDS[record])
    figure, _, name = found.partition(" ")
    assert figure.removeprefix("0") in line
    assert name.strip("()").partition("-")[0] in line.lower()
