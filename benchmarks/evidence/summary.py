"""The first table of the page of results: a claim, the paper's figure, ours, the best other's, the command and the date.

Every figure is looked up in a record when the page is written, and the paper's are quoted from `benchmarks/paper.json` or from the
record. A claim whose record is not there is left out; a row that a record no longer has shows as a dash.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]
Pick = Callable[[Record], str | None]
AIM = 0.005


@dataclass(frozen=True)
class Claim:
    """A line of the first table: words, the record with its figures, and how to find them there."""

    words: str
    record: str
    ours: Pick
    other: Pick | None = None
    paper: str | Pick | None = None  # a key of the quotes, or where the record has it


def fits(row: Record, where: Mapping[str, Any]) -> bool:
    """Whether the fields of a row have these values; shares that were aimed at may miss by half a hundredth."""
    return all(
        row.get(name) == wanted
        or (isinstance(wanted, float) and isinstance(row.get(name), float) and abs(row[name] - wanted) < AIM)
        for name, wanted in where.items()
    )


def value(key: str, form: str, words: str = "", **where: Any) -> Pick:
    """The figure of the row whose fields have these values, with some words after it."""

    def pick(record: Record) -> str | None:
        for row in record["rows"]:
            if row.get(key) is not None and fits(row, where):
                return f"{row[key]:{form}}{words}"
        return None

    return pick


def best(key: str, form: str, name: str, *, least: bool = False, but: tuple[str, ...] = (), **where: Any) -> Pick:
    """The best figure of all rows with these values whose name starts with none of `but`, and that name."""

    def pick(record: Record) -> str | None:
        rows = [row for row in record["rows"] if fits(row, where) and row.get(key) is not None]
        rows = [row for row in rows if not str(row[name]).startswith(but)]
        if not rows:
            return None
        found = (min if least else max)(rows, key=lambda row: float(row[key]))
        return f"{found[key]:{form}} ({found[name]})"

    return pick


def bar(what: str, form: str, words: str = "") -> Pick:
    """The figure of a target, by the beginning of its name."""

    def pick(record: Record) -> str | None:
        found = next((one["found"] for one in record.get("bars", ()) if one["what"].startswith(what)), None)
        return None if found is None else f"{found:{form}}{words}"

    return pick


def printed(key: str, form: str) -> Pick:
    """What a record quotes from the paper about the paper's own method."""

    def pick(record: Record) -> str | None:
        found = next((row for row in record.get("printed", ()) if row["method"].startswith("the paper")), None)
        return None if found is None else f"{found[key]:{form}}"

    return pick


def claimed(name: str, form: str, words: str = "") -> Pick:
    """One of the "claims" of a record."""
    return lambda record: f"{record['claims'][name]:{form}}{words}" if name in record.get("claims", {}) else None


_REGIONS: dict[str, Any] = {"tokens": 200}
_NO_PEER = ("pixtree", "grid", "quadtree")
_OWN_MODEL: dict[str, Any] = {"model": "deit_tiny_patch16_224"}
_HALF: dict[str, Any] = {**_OWN_MODEL, "compute": 0.5}
CLAIMS = (
    Claim(
        "Superpixels, 200 regions: undersegmentation error ↓",
        "superpixels",
        value("undersegmentation_error", ".4f", method="pixtree", **_REGIONS),
        best("undersegmentation_error", ".4f", "method", least=True, but=_NO_PEER, **_REGIONS),
    ),
    Claim(
        "Superpixels, 200 regions: boundary recall ↑",
        "superpixels",
        value("boundary_recall", ".4f", method="pixtree", **_REGIONS),
        best("boundary_recall", ".4f", "method", but=_NO_PEER, **_REGIONS),
    ),
    Claim(
        "Superpixels, 200 regions: explained variation ↑",
        "superpixels",
        value("explained_variation", ".4f", method="pixtree", **_REGIONS),
        best("explained_variation", ".4f", "method", but=_NO_PEER, **_REGIONS),
    ),
    Claim(
        "Superpixels, 200 regions: precision of boundaries ↑",
        "superpixels",
        value("boundary_precision", ".4f", method="pixtree", **_REGIONS),
        best("boundary_precision", ".4f", "method", but=_NO_PEER, **_REGIONS),
    ),
    Claim(
        "The same with nine third-party methods: undersegmentation error ↓",
        "superpixels_peers",
        value("undersegmentation_error", ".4f", method="pixtree", **_REGIONS),
        best("undersegmentation_error", ".4f", "method", least=True, but=_NO_PEER, **_REGIONS),
    ),
    Claim(
        "The same with nine third-party methods: boundary recall ↑",
        "superpixels_peers",
        value("boundary_recall", ".4f", method="pixtree", **_REGIONS),
        best("boundary_recall", ".4f", "method", but=_NO_PEER, **_REGIONS),
    ),
    Claim(
        "The same with nine third-party methods: explained variation ↑",
        "superpixels_peers",
        value("explained_variation", ".4f", method="pixtree", **_REGIONS),
        best("explained_variation", ".4f", "method", but=_NO_PEER, **_REGIONS),
    ),
    Claim(
        "Tree and exact cut of 512 px, ns per pixel of one thread ↓",
        "speed",
        value("nanoseconds", ".0f", method="pixtree", side=512),
        best("nanoseconds", ".0f", "method", least=True, but=("pixtree", "lab", "exact", "tree", "cut", "relax"), side=512),
    ),
    Claim(
        "Top-1 of DeiT-Tiny with 196 region tokens and no training ↑",
        "tokenizers",
        value("top1", ".3f", tokenizer="ours (Lab tree)"),
        best("top1", ".3f", "tokenizer", but=("ours", "patches")),
        "tokenizers",
    ),
    Claim(
        "Share of patches' top-1 right after a retrofit, 196 tokens ↑",
        "retrofit",
        value("kept", ".3f", " (no training)", tokens=196, **_OWN_MODEL),
        paper="retrofit",
    ),
    Claim(
        "Share of top-1 at half the compute, no training ↑",
        "coarsen_5000",
        value("kept", ".3f", method="pixtree: token trees", **_HALF),
        best("kept", ".3f", "method", but=("pixtree",), **_HALF),
    ),
    Claim(
        "Images/s of ViT-S at 384 px against patches, 494 tokens ↑",
        "efficiency",
        value("ratio", ".2f", kind="pixtree", model="vit_small_patch16_384"),
        paper=value("paper", ".2f", kind="pixtree", model="vit_small_patch16_384"),
    ),
    Claim(
        "Segmentation without a decoder, CamVid, 192 tokens: mIoU ↑",
        "camvid",
        value("miou", ".3f", way="regions of the tree"),
        best("miou", ".3f", "way", but=("regions", "all patches")),
    ),
    Claim(
        "Oracle of 144 regions on CamVid: mIoU ↑",
        "oracle",
        value("miou", ".3f", method="pixtree", tokens=144),
        best("miou", ".3f", "method", but=("pixtree",), tokens=144),
    ),
    Claim(
        "Salient objects of ECSSD without training: IoU ↑",
        "salient",
        value("iou", ".3f", dataset="ecssd", model="deit_tiny", way="square patches, pixtree.snap"),
        value("iou", ".3f", " (bilateral solver)", dataset="ecssd", model="deit_tiny", way="square patches, bilateral solver"),
        "salient",
    ),
    Claim(
        "SVG of DiffVG's five, 5,000 paths: PSNR of the mean error, dB ↑",
        "vectors",
        value("psnr_of_mean", ".2f", method="pixtree 5000 paths"),
        best("psnr_of_mean", ".2f", "method", but=("pixtree", "paper")),
        printed("psnr", ".2f"),
    ),
    Claim(
        "The same: SSIM ↑",
        "vectors",
        value("ssim", ".4f", method="pixtree 5000 paths"),
        best("ssim", ".4f", "method", but=("pixtree", "paper")),
        printed("ssim", ".4f"),
    ),
    Claim("SVG at equal bytes on other photos: lead over vtracer, dB ↑", "vectors_others", bar("Mean lead", "+.2f")),
    Claim(
        "Icons of 128 px (OpenMoji): PSNR at four times the size, dB ↑",
        "icons",
        value("psnr", ".2f", set="openmoji", size=128, method="pixtree"),
        best("psnr", ".2f", "method", but=("pixtree",), set="openmoji", size=128),
    ),
    Claim(
        "Selection: clicks to 85 % IoU, ECSSD ↓",
        "select_clicks",
        value("clicks", ".2f", dataset="ecssd", method="pixtree.select"),
        best("clicks", ".2f", "method", least=True, but=("pixtree",), dataset="ecssd"),
    ),
    Claim(
        "Rough masks (jittered by 10 px) made sharp: IoU ↑",
        "select_snap",
        value("snap", ".3f", masks="jittered by 10 px"),
        value("bilateral", ".3f", " (bilateral solver)", masks="jittered by 10 px"),
    ),
    Claim("Web app: from a click to the mask, ms ↓", "app", bar("click to mask", ".0f")),
    Claim("Shape and scale of region residuals", "residuals", claimed("fit", ""), paper="residuals"),
    Claim("Small changes of the sources that a test notices ↑", "mutation", value("score", ".3f", folder="all")),
)


def summary(records: Mapping[str, Record], quotes: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rows with claim, paper, ours, other, record and date, for those claims whose records are there."""
    rows = []
    for claim in CLAIMS:
        if claim.record not in records:
            continue
        record = records[claim.record]
        paper = quotes.get(claim.paper, {}).get("figure") if isinstance(claim.paper, str) else claim.paper and claim.paper(record)
        figures = {"paper": paper, "ours": claim.ours(record), "other": claim.other(record) if claim.other else None}
        shown = {key: figure or "–" for key, figure in figures.items()}
        rows.append({"claim": claim.words, **shown, "record": claim.record, "date": record["date"]})
    return rows
