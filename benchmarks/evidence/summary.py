"""The first table of the page of results: a claim, the paper's figure, ours, the best other's, the command and the date.

Every figure is looked up in a record when the page is written, and the paper's are quoted from `benchmarks/paper.json` or from the
record. A claim whose record is not there is left out; a row that a record no longer has shows as a dash.
"""

from collections.abc import Callable, Iterator, Mapping
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


def best(
    key: str,
    form: str,
    name: str,
    *,
    least: bool = False,
    but: tuple[str, ...] = (),
    connected: bool = False,
    **where: Any,
) -> Pick:
    """The best figure of all rows with these values whose name starts with none of `but`, and that name.

    `connected` leaves out segmentations whose labels fall into more pieces than labels.
    """

    def pick(record: Record) -> str | None:
        rows = [row for row in record["rows"] if fits(row, where) and row.get(key) is not None]
        rows = [row for row in rows if not str(row[name]).startswith(but)]
        if connected:
            rows = [row for row in rows if row["pieces"] <= row["segments"] + AIM]
        if not rows:
            return None
        found = (min if least else max)(rows, key=lambda row: float(row[key]))
        return f"{found[key]:{form}} ({found[name]})"

    return pick


def listed(*picks: Pick) -> Pick:
    """Several figures in one cell, without those that the record does not have."""

    def pick(record: Record) -> str | None:
        return ", ".join(found for one in picks if (found := one(record))) or None

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
_SMALL: dict[str, Any] = {"kind": "pixtree", "model": "vit_small_patch16_384"}
_SALIENT: dict[str, Any] = {"dataset": "ecssd", "model": "deit_tiny"}


def relaxed(key: str) -> Pick:
    """A measure of both kinds of relaxed regions at 200 regions."""
    modes = {"relax=True": "pixtree", 'relax="detail"': "pixtree-detail"}
    return listed(*(value(key, ".4f", f" (`{mode}`)", method=method, **_REGIONS) for mode, method in modes.items()))


def peers(key: str, *, least: bool = False) -> Pick:
    """The best of the other methods, and the best of those whose regions are connected if that is another one."""

    def pick(record: Record) -> str | None:
        options: dict[str, Any] = {"least": least, "but": _NO_PEER, **_REGIONS}
        first, connected = (best(key, ".4f", "method", connected=only, **options)(record) for only in (False, True))
        return first if first == connected or connected is None else f"{first}; with connected regions {connected}"

    return pick


def claims_about_superpixels() -> Iterator[Claim]:
    """The two comparisons on BSDS500, measure by measure."""
    measures = {
        "undersegmentation error ↓": "undersegmentation_error",
        "boundary recall ↑": "boundary_recall",
        "explained variation ↑": "explained_variation",
        "boundary precision ↑": "boundary_precision",
    }
    for others, record in (("methods of common libraries", "superpixels"), ("nine third-party methods", "superpixels_peers")):
        for words, key in measures.items():
            yield Claim(f"200 superpixels, {others}: {words}", record, relaxed(key), peers(key, least="↓" in words))


CLAIMS = (
    *claims_about_superpixels(),
    Claim(
        "Tree and exact cut of 512 px, ns per pixel of one thread ↓",
        "speed",
        value("nanoseconds", ".0f", method="pixtree", side=512),
        best("nanoseconds", ".0f", "method", least=True, but=("pixtree", "lab", "exact", "tree", "cut", "relax"), side=512),
    ),
    Claim(
        "Top-1 of DeiT-Tiny with 196 tokens of another kind, no training ↑",
        "tokenizers",
        value("top1", ".3f", " (regions of the Lab tree)", tokenizer="ours (Lab tree)"),
        listed(
            value("top1", ".3f", " (patches, as it was trained)", tokenizer="patches"),
            best("top1", ".3f", "tokenizer", but=("ours", "patches")),
        ),
        "tokenizers",
    ),
    Claim(
        "Share of patches' top-1 right after a retrofit, 196 tokens ↑",
        "retrofit",
        value("kept", ".3f", " (no training)", tokens=196, **_OWN_MODEL),
        paper="retrofit",
    ),
    Claim(
        "Top-1 of DeiT-Tiny fine-tuned on Imagenette, 49 steps ↑",
        "finetune",
        listed(
            value("top1", ".3f", " (196 regions)", kind="196 regions"),
            value("top1", ".3f", " (the paper's preset)", kind="the paper's preset"),
        ),
        value("top1", ".3f", " (196 patches)", kind="196 patches, 224 px"),
        "finetune",
    ),
    Claim(
        "Nearest neighbours on Imagenette, no training: accuracy ↑",
        "knn",
        listed(
            value("knn", ".3f", " (196 regions)", variant="196 regions"),
            value("knn", ".3f", " (the paper's preset)", variant="the paper's preset"),
        ),
        value("knn", ".3f", " (196 patches)", variant="196 patches"),
        "neighbours",
    ),
    Claim(
        "Share of top-1 at half the compute, no training ↑",
        "coarsen_5000",
        value("kept", ".3f", method="pixtree: token trees", **_HALF),
        best("kept", ".3f", "method", but=("pixtree",), **_HALF),
    ),
    Claim(
        "Images/s of ViT-S at 384 px relative to 576 patches, 494 tokens ↑",
        "efficiency",
        value("ratio", ".2f", " (two threads of a CPU)", **_SMALL),
        paper=value("paper", ".2f", " (eight MI250X GPUs, whose patch models are far faster)", **_SMALL),
    ),
    Claim(
        "Segmentation without a decoder, CamVid: mIoU ↑",
        "camvid",
        value("miou", ".3f", " (192 regions, after blocks that see all 768 patches)", way="regions of the tree"),
        listed(
            value("miou", ".3f", " (all 768 patches, logits interpolated)", way="all patches, logits interpolated"),
            value("miou", ".3f", " (192 square cells)", way="square cells"),
        ),
    ),
    Claim(
        "Upper bound of 144 regions on CamVid: mIoU ↑",
        "oracle",
        value("miou", ".3f", method="pixtree", tokens=144),
        best("miou", ".3f", "method", but=("pixtree",), tokens=144),
    ),
    Claim(
        "Salient objects of ECSSD by TokenCut, DeiT-Tiny, no training: IoU ↑",
        "salient",
        listed(
            value("iou", ".3f", " (square patches, then `snap`)", way="square patches, pixtree.snap", **_SALIENT),
            value("iou", ".3f", " (a retrofit's own 784 regions)", way="retrofit, its own 784 regions", **_SALIENT),
        ),
        listed(
            value("iou", ".3f", " (square patches, then a bilateral solver)", way="square patches, bilateral solver", **_SALIENT),
            value("iou", ".3f", " (square patches)", way="square patches, best setting", **_SALIENT),
        ),
        "salient",
    ),
    *(
        Claim(
            f"SVG of DiffVG's five images, 5,000 paths: {words} ↑",
            "vectors",
            listed(
                value(key, form, " (our drawings)", method="pixtree 5000 paths"),
                value(key, form, " (the paper's pipeline in our code)", method="paper 5000 paths"),
            ),
            best(key, form, "method", but=("pixtree", "paper")),
            printed(printed_key, form),
        )
        for words, key, printed_key, form in (
            ("PSNR of the mean error, dB", "psnr_of_mean", "psnr", ".2f"),
            ("SSIM", "ssim", "ssim", ".4f"),
        )
    ),
    Claim(
        "The authors' released demo on these five images, at its own path counts: PSNR of the mean error, dB ↑",
        "vectors_release",
        listed(
            value("psnr_of_mean", ".2f", " (our drawings)", method="pixtree, as many paths"),
            value("psnr_of_mean", ".2f", " (the paper's pipeline in our code)", method="paper, as many paths"),
        ),
        value("psnr_of_mean", ".2f", " (the demo)", method="released demo"),
    ),
    Claim("SVG at equal bytes on other photos: lead over vtracer, dB ↑", "vectors_others", bar("Mean lead", "+.2f")),
    Claim(
        "Icons of 128 px (OpenMoji): PSNR at four times the size, dB ↑",
        "icons",
        value("psnr", ".2f", set="openmoji", size=128, method="pixtree"),
        best("psnr", ".2f", "method", but=("pixtree",), set="openmoji", size=128),
    ),
    Claim(
        "Selection without a learned model: clicks to 85 % IoU, ECSSD ↓",
        "select_clicks",
        value("clicks", ".2f", dataset="ecssd", method="pixtree.select"),
        best("clicks", ".2f", "method", least=True, but=("pixtree",), dataset="ecssd"),
    ),
    Claim(
        "True masks jittered by 10 px, then refined: IoU ↑",
        "select_snap",
        value("snap", ".3f", masks="jittered by 10 px"),
        value("bilateral", ".3f", " (bilateral solver)", masks="jittered by 10 px"),
    ),
    Claim("Web app on one machine: from a click to the mask, ms ↓", "app", bar("click to mask", ".0f")),
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
