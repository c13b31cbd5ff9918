"""Do learned features cut better than colours? Trained against annotations of other pictures, measured on BSDS500 val.

    python benchmarks/learned_encoder.py --data $PIXTREE_DATA --runs FOLDER -o benchmarks/results/learned_encoder.json

Every setting of TRIED is trained on the class maps of CamVid's training pictures and on the masks of pets and of the odd half of
ECSSD, and is compared with Lab in the same tree on 24 photos. The one with the least undersegmentation error there is trained with
further seeds and measured on all photos; the 76 others are what counts. Networks and scores are kept in --runs, so that a run that
was stopped goes on; remove the folder to start anew. The weights are not for publication: neither are the pictures.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from evidence.records import provenance, write_record
from numpy.typing import NDArray
from region_features import (
    BLOCKS,
    COLOURS,
    LEAST_HARM,
    UNIT,
    Moments,
    Pairs,
    RegionFeatures,
    association_loss,
    filtered,
    merge_loss,
    multiplications,
    pooled,
    undersegmentation,
)
from rich.progress import track
from torch import Tensor

from pixtree.evaluation.annotated_photos import AnnotatedPhoto, annotated_photos
from pixtree.evaluation.label_maps import IGNORED, LabelledImage, labelled_set
from pixtree.evaluation.superpixels import superpixel_scores
from pixtree.files import replacing, write_json
from pixtree.kernels import kernels_for
from pixtree.training.segmenting import class_shares
from pixtree.trees.build import exact_cut_of_planes, hierarchy_of_planes
from pixtree.trees.cuts import relaxed
from pixtree.trees.options import TreeOptions
from pixtree.trees.region_graph import RegionGraph, region_graph

KERNELS = kernels_for("auto")
FINE, COUNT = 1500, 200
CUTS = (200, 400, 800)  # whose pairs are compared in training
CHOSEN_ON = 24
NESTED, RELAXED = "nested", "relaxed"
MEASURED = ("undersegmentation_error", "achievable_accuracy", "boundary_recall", "explained_variation")
STEPS, BATCH, RATE, DECAY = 200, 8, 4e-3, 1e-3
SEEDS = (0, 1, 2)
VIT_SMALL = 4.6e9  # products of a forward pass of ViT-S/16 at 224 px


@dataclass(frozen=True)
class Setting:
    """What is trained: the loss and its temperature, pictures, the size of the network, whether factors of Lab are learned."""

    name: str
    loss: str = "merges"
    border: float = 2.0  # what lost outlines count beside the undersegmentation error
    sets: tuple[str, ...] = ("camvid", "pets_salient", "ecssd")
    temperature: float = 0.5
    features: int = 8
    hidden: int = 32
    learned_colour: bool = True
    weight: float = 1.0  # of the features beside Lab, in the tree


TRIED = (
    Setting("merges, area and outlines"),
    Setting("merges, area and outlines, weight .7", weight=0.7),
    Setting("merges, area alone", border=0.0),
    Setting("merges, area alone, Lab as it is, weight .6", border=0.0, learned_colour=False, weight=0.6),
    Setting("merges, area and more outlines", border=5.0),
    Setting("merges, area and outlines, 16 features", features=16, hidden=64),
    Setting("merges, area and outlines, masks only", sets=("pets_salient", "ecssd")),
    Setting("association, as SSN", loss="association", temperature=1.0),
)


class Picture(NamedTuple):
    """An annotated picture for training, as the regions of its fine cut in Lab."""

    kind: str
    colours: Moments
    descriptors: Tensor  # (R, F)
    votes: Tensor  # (R, K) pixels of every segment
    touching: Tensor  # (E, 2) int64
    pairs: tuple[Pairs, ...]  # of CUTS; with harm in none of them, the picture teaches nothing


def described(pixels: NDArray[np.uint8]) -> tuple[Tensor, RegionGraph, Moments, Tensor]:
    """Lab planes (3, H·W), the fine cut, its moments and descriptors, of RGB pixels (H, W, 3)."""
    lab = KERNELS.colours(torch.from_numpy(pixels).permute(2, 0, 1).contiguous())
    shape = pixels.shape[:2]
    graph = region_graph(hierarchy_of_planes(lab, shape), FINE)
    labels = torch.from_numpy(graph.labels)
    every = Moments(torch.ones(lab.shape[1]), lab.t(), torch.zeros_like(lab.t())).grouped(labels.flatten().to(torch.int64))
    return lab, graph, every, pooled(filtered(lab.view(-1, *shape)), labels, every.size)


def training_pictures(data: Path) -> Iterator[tuple[str, LabelledImage]]:
    """Kinds and pictures: CamVid's for training, all pets, and the odd half of ECSSD, whose other half is a test set elsewhere."""
    yield from (("camvid", one) for one in labelled_set(data / "camvid", "camvid", "train").images)
    yield from (("pets_salient", without_band(one)) for one in labelled_set(data / "pets_salient", "salient").images)
    yield from (("ecssd", one) for one in labelled_set(data / "ecssd", "salient").images[1::2])


def without_band(image: LabelledImage) -> LabelledImage:
    """A pet whose outline, a band in its trimap, counts nowhere."""
    classes = tuple(IGNORED if 64 < grey < 192 else int(grey > 127) for grey in range(256))
    return replace(image, target=image.target.parents[1] / "trimaps" / image.target.name, classes=classes)


def picture(kind: str, image: LabelledImage) -> Picture:
    """Regions, pairs and harms of one picture."""
    truth = torch.from_numpy(image.labels())
    _, graph, colours, descriptors = described(image.pixels())
    classes = int(truth[truth != IGNORED].max()) + 1
    shares, seen = class_shares(torch.from_numpy(graph.labels)[None], truth[None], classes, len(graph))
    votes = shares[0] * (seen[0] * colours.size)[:, None]
    touching = torch.from_numpy(graph.pairs)
    length = torch.from_numpy(graph.length).to(torch.float32)
    return Picture(
        kind, colours, descriptors, votes, touching, tuple(pairs_of(graph.cut(count), touching, length, votes) for count in CUTS)
    )


def pairs_of(cut: NDArray[np.int64], touching: Tensor, length: Tensor, votes: Tensor) -> Pairs:
    """The touching regions of a cut (R,) and the harm of merging each two, for votes (R, K) of the fine regions."""
    group = torch.from_numpy(cut)
    count = int(group.max()) + 1
    ends = group[touching].sort(dim=1).values
    apart = ends[:, 0] != ends[:, 1]
    pair, place = torch.unique(ends[apart, 0] * count + ends[apart, 1], return_inverse=True)
    shared = torch.zeros(len(pair)).index_add(0, place, length[apart])
    first, second = pair // count, pair % count
    region = torch.zeros(count, votes.shape[1]).index_add(0, group, votes)
    harm = undersegmentation(region[first] + region[second]) - undersegmentation(region[first]) - undersegmentation(region[second])
    shares = region / region.sum(1, keepdim=True).clamp_min(1)
    border = (1 - (shares[first] * shares[second]).sum(1)) * shared / (4 * (votes.sum() / count).sqrt())
    known = (region.sum(1)[first] > 0) & (region.sum(1)[second] > 0)
    return Pairs(group, first[known], second[known], shared[known], harm[known] * (count / votes.sum()), border[known])


def changed(descriptors: Tensor, colours: Moments, generator: torch.Generator) -> tuple[Tensor, Moments]:
    """Descriptors and moments of the picture with another contrast, brightness and hue: filters are linear in what changes."""
    factor = torch.exp(torch.rand(COLOURS, generator=generator) * 0.8 - 0.4)
    offset = torch.randn(COLOURS, generator=generator) * torch.tensor([10.0, 8.0, 8.0]) / UNIT
    sign = torch.cat((torch.ones(1), torch.randint(2, (2,), generator=generator) * 2.0 - 1.0))
    order = torch.tensor([0, 2, 1]) if torch.rand(1, generator=generator) < 0.5 else torch.arange(3)
    blocks = descriptors[:, : COLOURS * BLOCKS].view(-1, BLOCKS, COLOURS)[:, :, order] * factor
    means = blocks[:, :4] * sign + offset  # deviations know neither signs nor offsets
    found = torch.cat((means.flatten(1), blocks[:, 4:].flatten(1), descriptors[:, COLOURS * BLOCKS :] * factor[0]), 1)
    return found, Moments(colours.size, colours.mean[:, order] * factor, colours.deviation[:, order] * factor.square())


def loss_of(network: RegionFeatures, one: Picture, cut: int, setting: Setting, generator: torch.Generator) -> Tensor:
    """The loss of a setting on one cut of a picture."""
    descriptors, colours = changed(one.descriptors, one.colours, generator)
    features = network(descriptors)
    fine = Moments(
        colours.size,
        torch.cat((colours.mean * network.colour, features), 1),
        torch.cat((colours.deviation * network.colour.square(), torch.zeros_like(features)), 1),  # painted: flat in fine regions
    )
    if setting.loss == "association":
        return association_loss(fine, one.votes, one.touching, one.pairs[cut].group, setting.temperature)
    return merge_loss(fine, one.pairs[cut], generator, setting.temperature, setting.border)


def fresh(setting: Setting, pictures: Sequence[Picture]) -> RegionFeatures:
    """An untrained network."""
    every = torch.cat([one.descriptors for one in pictures])
    return RegionFeatures(every.mean(0), every.std(0) + 1e-3, setting.features, setting.hidden, setting.learned_colour)


def trained(setting: Setting, pictures: Sequence[Picture], seed: int, title: str) -> tuple[RegionFeatures, list[float]]:
    """A network and its curve: the mean loss of every tenth part of the training."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    network = fresh(setting, pictures)
    lessons = [(one, cut) for one in pictures if one.kind in setting.sets for cut in taught(one)]
    optimiser = torch.optim.AdamW((one for one in network.parameters() if one.requires_grad), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=STEPS, pct_start=0.1)
    losses = []
    for _ in track(range(STEPS), description=title):
        drawn = torch.randint(len(lessons), (BATCH,), generator=generator).tolist()
        loss = torch.stack([loss_of(network, *lessons[number], setting, generator) for number in drawn]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    return network.eval(), [float(np.mean(part)) for part in np.array_split(losses, 10)]


def taught(one: Picture) -> list[int]:
    """The cuts of a picture in which a merge does harm."""
    return [number for number, pairs in enumerate(one.pairs) if bool((pairs.harm > LEAST_HARM).any())]


class Photo(NamedTuple):
    """A photo of BSDS500 with what its trees need."""

    photo: AnnotatedPhoto
    lab: Tensor  # (3, H·W)
    shape: tuple[int, int]
    fine: Tensor  # (H·W,) int64
    descriptors: Tensor

    def planes(self, network: RegionFeatures | None, weight: float) -> Tensor:
        """Lab alone, or Lab and the painted features."""
        if network is None:
            return self.lab
        features = weight * network(self.descriptors)
        return torch.cat((self.lab * network.colour[:, None], features.t()[:, self.fine]))

    def scores(self, network: RegionFeatures | None, weight: float, polished: bool) -> dict[str, dict[str, float]]:
        """The measures of the cut with exactly COUNT regions, and if asked for, of the same cut relaxed in Lab."""
        cuts = {NESTED: exact_cut_of_planes(self.planes(network, weight), self.shape, COUNT).labels.view(self.shape)}
        if polished:
            cuts[RELAXED] = relaxed(cuts[NESTED], self.lab.view(-1, *self.shape), KERNELS, TreeOptions().floor)
        pixels, truths = self.photo.pixels().astype(np.float32) / 255, self.photo.segmentations()
        found = {name: superpixel_scores(labels.numpy(), pixels, truths) for name, labels in cuts.items()}
        return {name: {key: scores[key] for key in MEASURED} for name, scores in found.items()}


def photo_of(photo: AnnotatedPhoto) -> Photo:
    pixels = photo.pixels()
    lab, graph, _, descriptors = described(pixels)
    fine = torch.from_numpy(graph.labels).flatten().to(torch.int64)
    return Photo(photo, lab, (pixels.shape[0], pixels.shape[1]), fine, descriptors)


Scores = dict[str, dict[str, float]]  # of photos by name


class Runs(NamedTuple):
    """The folder in which a run keeps what it has done, and its data."""

    folder: Path
    data: Path

    def pictures(self) -> list[Picture]:
        """The pictures for training."""
        path = self.folder / "pictures.pt"
        if not path.is_file():
            given = list(training_pictures(self.data))
            with replacing(path) as temporary:
                torch.save([picture(*one) for one in track(given, description="pictures")], temporary)
        with torch.serialization.safe_globals([Picture, Moments, Pairs]):
            found: list[Picture] = torch.load(path, weights_only=True)
        return found

    def network(self, setting: Setting, seed: int, pictures: Sequence[Picture]) -> tuple[RegionFeatures, list[float]]:
        """The trained network and its curve; settings that differ in the weight alone share one."""
        path = self.folder / f"{slug(replace(setting, weight=1.0, name=''))}-{seed}.pt"
        if not path.is_file():
            network, curve = trained(setting, pictures, seed, f"{setting.name}, seed {seed}")
            with replacing(path) as temporary:
                torch.save({"network": network.state_dict(), "curve": curve}, temporary)
        kept = torch.load(path, weights_only=True)
        network = fresh(setting, pictures).eval()
        network.load_state_dict(kept["network"])
        return network, kept["curve"]

    @torch.no_grad()
    def scores(
        self, name: str, photos: Sequence[Photo], network: RegionFeatures | None, weight: float, polished: bool
    ) -> dict[str, Scores]:
        """Measures by photo, of nested cuts and, if asked for, of relaxed ones."""
        path = self.folder / f"scores-{name}.json"
        kept = json.loads(path.read_text()) if path.is_file() else {}
        kinds = (NESTED, RELAXED) if polished else (NESTED,)
        missing = [one for one in photos if not set(kinds) <= kept.get(one.photo.name, {}).keys()]
        for number, one in enumerate(track(missing, description=f"photos, {name}", disable=not missing), start=1):
            kept[one.photo.name] = one.scores(network, weight, polished)
            if number % 25 == 0 or number == len(missing):
                write_json(path, kept)
        return {kind: {one.photo.name: kept[one.photo.name][kind] for one in photos} for kind in kinds}


def slug(setting: Setting) -> str:
    """A file name that tells settings apart."""
    return "_".join(str(value if not isinstance(value, tuple) else "+".join(value)) for value in asdict(setting).values()).strip(
        "_"
    )


def mean_scores(runs: Sequence[Scores]) -> Scores:
    """By photo, the mean over seeds."""
    return {name: {key: float(np.mean([run[name][key] for run in runs])) for key in MEASURED} for name in runs[0]}


def row(name: str, photos: str, found: Scores, lab: Scores) -> dict[str, Any]:
    """Means, and the paired difference to Lab with its standard error."""
    values: dict[str, Any] = {"what": name, "photos": photos}
    for key in MEASURED:
        difference = np.array([found[photo][key] - lab[photo][key] for photo in found])
        mean, error = float(difference.mean()), float(difference.std(ddof=1) / len(difference) ** 0.5)
        values |= {key: float(np.mean([one[key] for one in found.values()])), f"{key}_difference": mean, f"{key}_se": error}
        values[f"{key}_against"] = None if error == 0 else against(mean, error, less_is_better=key == MEASURED[0])
    return values


def against(difference: float, error: float, less_is_better: bool) -> str:
    """The difference in words: a tie below two standard errors."""
    word = "tie" if abs(difference) < 2 * error else "ahead" if (difference < 0) == less_is_better else "behind"
    return f"{difference:+.4f} ± {error:.4f}, {word}"


def best(rows: Sequence[dict[str, Any]]) -> int:
    """The least undersegmentation error among rows whose recall is not behind Lab's; among all if there is none."""
    level = [one["boundary_recall_difference"] > -2 * one["boundary_recall_se"] for one in rows]
    able = [number for number, fine in enumerate(level) if fine] or list(range(len(rows)))
    return min(able, key=lambda number: rows[number][MEASURED[0]])


def measured(runs: Runs) -> dict[str, Any]:
    """Everything: the settings on 24 photos, the best of them with all seeds on the 76 others and on all."""
    pictures = runs.pictures()
    names = {one.name for one in annotated_photos(runs.data / "bsds500", "val", CHOSEN_ON)}
    photos = [photo_of(one) for one in track(annotated_photos(runs.data / "bsds500", "val"), description="photos")]
    few = [one for one in photos if one.photo.name in names]
    lab = runs.scores("lab", photos, None, 1.0, True)
    tried, curves = [row("Lab, nested", "24", {one: lab[NESTED][one] for one in sorted(names)}, lab[NESTED])], {}
    for setting in TRIED:
        network, curves[setting.name] = runs.network(setting, SEEDS[0], pictures)
        found = runs.scores(f"{slug(replace(setting, name=''))}-{SEEDS[0]}", few, network, setting.weight, False)
        tried.append(row(setting.name, "24", found[NESTED], lab[NESTED]))
    chosen = TRIED[best(tried[1:])]
    final = []
    for seed in SEEDS:
        network, curves[f"{chosen.name}, seed {seed}"] = runs.network(chosen, seed, pictures)
        final.append(runs.scores(f"{slug(replace(chosen, name=''))}-{seed}", photos, network, chosen.weight, True))
    rows = []
    for kind in (NESTED, RELAXED):
        for part, inside in (("76", set(lab[kind]) - names), ("100", set(lab[kind]))):
            kept = [{name: one for name, one in found[kind].items() if name in inside} for found in (lab, *final)]
            rows += [row(f"Lab, {kind}", part, kept[0], kept[0]), row(f"learned, {kind}", part, mean_scores(kept[1:]), kept[0])]
    seeds = [row(f"seed {seed}", "100", found[NESTED], lab[NESTED]) for seed, found in zip(SEEDS, final, strict=True)]
    return {"rows": [*rows, *tried], "seeds": seeds, "chosen": asdict(chosen), "curves": curves, "chosen_on": sorted(names)}


def columns() -> list[list[str]]:
    titles = ("Underseg. error ↓", "ASA ↑", "Recall ↑", "Expl. variation ↑")
    shown = [["what", "Features of the tree", ""], ["photos", "Photos", ""]]
    for key, title in zip(MEASURED, titles, strict=True):
        shown += [[key, title, ".4f"], [f"{key}_against", "against Lab", ""]]
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with bsds500, camvid, pets_salient and ecssd")
    parser.add_argument("--runs", type=Path, required=True, help="where networks and scores are kept")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    found = measured(Runs(options.runs, options.data))
    chosen = found["chosen"]
    share = multiplications(224 * 224, FINE, chosen["features"], chosen["hidden"]) / VIT_SMALL
    record = {
        "benchmark": "table",
        "title": "Learned features against colours",
        **provenance("python benchmarks/learned_encoder.py --data $PIXTREE_DATA --runs FOLDER"),
        "columns": columns(),
        **found,
        "share_of_vit_small": share,
        "notes": [],
    }
    record["notes"] = notes(record)
    if options.output:
        write_record(record, options.output)


def notes(record: dict[str, Any]) -> list[str]:
    """Plain words below the table."""
    return [
        f"Exactly {COUNT} regions of BSDS500 val. Differences are paired by photo, with their standard error; below two of them "
        "they are ties. The settings at the end of the table were compared on 24 photos, whose names are in the record, with one "
        f"seed; the one that was chosen ({record['chosen']['name']}: the least undersegmentation error among those whose recall is "
        f"not behind) was then measured with {len(SEEDS)} seeds, whose scores are averaged by photo, on the 76 others and on "
        "all 100.",
        "The network was trained on class maps and masks of CamVid, pets and ECSSD. No annotation of BSDS500 was trained on.",
        f"The encoder has {100 * record['share_of_vit_small']:.1f} % of the products of a ViT-S forward pass at 224 px. The tree "
        f"is built twice: in Lab for a cut into {FINE:,} regions, over which filter responses are averaged, and with the features.",
    ]


if __name__ == "__main__":
    main()
