"""How the pixels of a region scatter around its mean. [`fig:resdensity`]

    python benchmarks/residuals.py $PIXTREE_DATA/bsds500 -o benchmarks/results/residuals.json --plot docs/pictures/residuals.png

A generalised normal distribution, density b / (2 α Γ(1/b)) · exp(−(|r| / α)^b), is fitted by maximum likelihood to the residuals of
all channels, values in 0..1. --plot draws the density and a QQ plot beside the paper's b = .551 and α = .031.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from evidence.records import PACKAGES, provenance, write_record
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from scipy.stats import gennorm

import pixtree
from pixtree.evaluation.annotated_photos import annotated_photos
from pixtree.files import replacing
from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.tokenizer.weights import IMAGENET_STD

PAPER = (0.551, 0.031)
UNIT = sum(IMAGENET_STD) / 3  # of values that are normalised as for a Vision Transformer
PER_PHOTO, BOOTSTRAPS = 6000, 50
COLUMNS = [
    ["cut", "Regions from", ""],
    ["regions", "Regions per photo", ".0f"],
    ["shape", "Shape b", ".3f"],
    ["shape_error", "± s.e.", ".3f"],
    ["scale", "Scale α", ".4f"],
    ["scale_error", "± s.e.", ".4f"],
    ["normalised", "α of normalised values", ".4f"],
    ["deviation", "Standard deviation", ".4f"],
    ["beyond_normal", "Log-likelihood over a normal's, nats per value", ".3f"],
]
Values = NDArray[np.float64]


def log_likelihood(shape: float, residuals: Values) -> float:
    """Mean log-density at the scale that is best for this shape, α^b = b · mean |r|^b."""
    scale = (shape * np.mean(np.abs(residuals) ** shape)) ** (1 / shape)
    return float(np.log(shape / (2 * scale)) - gammaln(1 / shape) - 1 / shape)


def fitted(residuals: Values) -> tuple[float, float]:
    """Shape and scale of greatest likelihood."""
    shape = float(minimize_scalar(lambda b: -log_likelihood(b, residuals), bounds=(0.2, 3.0), method="bounded").x)
    return shape, float((shape * np.mean(np.abs(residuals) ** shape)) ** (1 / shape))


def cuts() -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    """Images (1, 3, H, W) to labels (H, W): the paper's system, ours as it ships, and plain Lab colours."""
    paper, shipped = Tokenizer.paper(width=None), Tokenizer.pretrained(pixtree.Exactly(200), width=None)
    return {
        "the paper's system, untrained (AICC decides)": lambda images: paper.partition(images).labels[0],
        "pixtree, shipped encoder, 200": lambda images: shipped.partition(images).labels[0],
        "pixtree, Lab, 200": lambda images: torch.as_tensor(pixtree.segment(images[0], tokens=200)),
        "pixtree, Lab, 1000": lambda images: torch.as_tensor(pixtree.segment(images[0], tokens=1000)),
    }


def residuals_of(image: torch.Tensor, labels: torch.Tensor, generator: np.random.Generator) -> Values:
    """Some residuals of the pixels of regions with at least two of them, drawn evenly over pixels and channels."""
    places = labels.flatten().long()
    pixels = image.flatten(1).double() / 255
    sizes = torch.bincount(places)
    means = torch.zeros(3, len(sizes), dtype=torch.float64).index_add_(1, places, pixels) / sizes
    found = (pixels - means[:, places])[:, sizes[places] > 1].flatten().numpy()
    return generator.choice(found, min(PER_PHOTO, len(found)), replace=False)


def measured(name: str, cut: Callable[[torch.Tensor], torch.Tensor], photos: list) -> tuple[dict, Values]:
    """A row, with standard errors over photos drawn anew, and the residuals."""
    generator, groups, counts = np.random.default_rng(0), [], []
    for photo in photos:
        image = torch.from_numpy(photo.pixels()).permute(2, 0, 1).contiguous()
        with torch.no_grad():
            labels = cut(image[None])
        counts.append(int(labels.max()) + 1)
        groups.append(residuals_of(image, labels, generator))
    everything = np.concatenate(groups)
    shape, scale = fitted(everything)
    again = [generator.integers(0, len(groups), len(groups)) for _ in range(BOOTSTRAPS)]
    errors = np.std([fitted(np.concatenate([groups[place][:1500] for place in places])) for places in again], axis=0, ddof=1)
    row = {
        "cut": name,
        "regions": float(np.mean(counts)),
        "shape": shape,
        "scale": scale,
        "normalised": scale / UNIT,
        "deviation": float(everything.std()),
    }
    row |= {"shape_error": float(errors[0]), "scale_error": float(errors[1])}
    row["beyond_normal"] = log_likelihood(shape, everything) - log_likelihood(2.0, everything)
    print(row, flush=True)
    return row, everything


def plot(found: dict[str, tuple[dict, Values]], path: Path) -> None:
    """QQ plot and density, as in the paper, for the paper's system and for ours."""
    import matplotlib.pyplot as plt

    names = list(found)[:2]
    figure, axes = plt.subplots(len(names), 2, figsize=(9, 3.7 * len(names)))
    for (quantiles, density), name in zip(axes, names, strict=True):
        row, values = found[name]
        levels = (np.arange(1, 2000) / 2000).clip(0.0005, 0.9995)
        empirical = np.quantile(values, levels)
        for (shape, scale), colour, label in (
            ((row["shape"], row["scale"]), "#0a7d5a", f"fitted: b = {row['shape']:.3f}, α = {row['scale']:.4f}"),
            ((PAPER[0], PAPER[1] * UNIT), "#c8372d", f"the paper's: b = .551, α = .031 · {UNIT:.3f}"),
            ((2.0, row["deviation"] * 2**0.5), "#888888", "normal"),
        ):
            quantiles.plot(gennorm.ppf(levels, shape, scale=scale), empirical, color=colour, lw=1.8, label=label)
            grid = np.linspace(-0.2, 0.2, 801)
            density.plot(grid, gennorm.pdf(grid, shape, scale=scale), color=colour, lw=1.5, label=label)
        limit = float(np.abs(empirical).max()) * 1.05
        quantiles.plot([-limit, limit], [-limit, limit], color="black", lw=0.7, ls=":")
        quantiles.set(xlim=(-limit, limit), ylim=(-limit, limit), xlabel="quantiles of the model", ylabel="quantiles of residuals")
        quantiles.set_title(f"QQ: {name}", fontsize=10)
        density.hist(values, bins=np.linspace(-0.2, 0.2, 161), density=True, color="#b9c6e8", label="residuals")
        density.set(
            yscale="log",
            ylim=(0.02, 2000),
            xlim=(-0.2, 0.2),
            xticks=[-0.2, -0.1, 0, 0.1, 0.2],
            xlabel="pixel − mean of its region, 0..1",
            ylabel="density",
        )
        density.set_title("density, logarithmic", fontsize=10)
        quantiles.legend(fontsize=8, frameon=False, loc="lower right")
        density.legend(fontsize=8, frameon=False, loc="upper left")
    figure.tight_layout()
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a folder in the layout of BSDS500")
    parser.add_argument("--limit", type=int, default=50, help="photos of val, evenly spaced")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    photos = annotated_photos(options.data, "val", options.limit)
    found = {name: measured(name, cut, photos) for name, cut in cuts().items()}
    first = found[next(iter(found))][0]
    picture = " --plot docs/pictures/residuals.png" if options.plot else ""
    record = {
        "benchmark": "table",
        "title": "Residuals of the pixels of regions",
        **provenance(
            f"python benchmarks/residuals.py $PIXTREE_DATA/{options.data.name} --limit {options.limit}{picture}",
            (*PACKAGES, "scipy"),
        ),
        "columns": COLUMNS,
        "rows": [row for row, _ in found.values()],
        "claims": {"fit": f"shape {first['shape']:.3f}, scale {first['normalised']:.4f}"},
        "paper": {"shape": PAPER[0], "scale": PAPER[1]},
        "notes": [
            f"A generalised normal distribution fitted by maximum likelihood to {PER_PHOTO:,} residuals per photo of all three "
            f"channels, values in 0..1, on {len(photos)} photos of {options.data.name} val; standard errors over photos.",
            f"The paper prints b = {PAPER[0]} and α = {PAPER[1]} for its trained system on ImageNet's validation photos. For "
            f"values in 0..1 that would be a standard deviation of {gennorm.std(PAPER[0], scale=PAPER[1]):.2f}, nearly that of "
            f"whole photos, so its values are probably normalised by ImageNet's deviation ({UNIT:.3f}); one column has our scale "
            "in that unit, and the picture draws the paper's curve so. b = 2 would be a normal distribution, b = 1 Laplace's.",
            "Residuals of every cut are sharper and heavier-tailed than a normal distribution, as the paper says.",
        ],
    }
    if options.output:
        write_record(record, options.output)
    if options.plot:
        plot(found, options.plot)


if __name__ == "__main__":
    main()
