"""The paper's preset agrees with a transcription of the paper in numpy that shares no code with it, on ten images."""

import numpy as np
import pytest
import torch
from transcription import chosen_regions, extract, gaussian, hierarchy, positions

import pixtree
from pixtree.tokenizer.cutting import WEIGHT_SCALE
from pixtree.trees.build import hierarchy_of_planes

HEIGHT, WIDTH, PATCH, BINS = 32, 48, 8, 6
CLOSE = 1e-5


def image_of(seed):
    """Coloured rectangles under noise, so that no two similarities are equal, (3, H, W) in 0..1."""
    rng = np.random.default_rng(seed)
    image = np.tile(rng.random((3, 1, 1)), (1, HEIGHT, WIDTH))
    for _ in range(6):
        top, left = rng.integers(0, HEIGHT - 8), rng.integers(0, WIDTH - 8)
        image[:, top : top + rng.integers(6, 20), left : left + rng.integers(6, 24)] = rng.random((3, 1, 1))
    return torch.from_numpy(np.clip(image + rng.normal(0, 0.03, image.shape), 0, 1)).to(torch.float32)


@pytest.fixture(scope="module", params=["weighted", "means"])
def tokenizer(request):
    """The paper's system with an encoder and a W that are no identities, and a σ at which κ varies."""
    torch.manual_seed(0)
    given = {} if request.param == "weighted" else {"picks": request.param}
    made = pixtree.Tokenizer.paper(width=16, patch=PATCH, positions=BINS, mean=(0.0,) * 3, std=(1.0,) * 3, **given).eval()
    with torch.no_grad():
        for weight in made.regions.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
        made.regions.similarity.log_sigma.fill_(-1.0)
    return made


@pytest.mark.parametrize("seed", range(10))
@torch.no_grad()
def test_levels_regions_features_tokens_and_positions_agree(tokenizer, seed):
    image, budget = image_of(seed), tokenizer.budget
    found = tokenizer.encode(image[None])
    pixels = found.features[0].T.numpy().astype(np.float64)
    sigma = float(tokenizer.regions.similarity.log_sigma.exp())
    picks = tokenizer.options.picks
    levels = hierarchy(pixels, HEIGHT, WIDTH, lambda a, b: np.exp(-((a - b) ** 2).sum(-1) / (2 * sigma**2)), picks)

    planes = found.features[0] * WEIGHT_SCALE
    rule = tokenizer.regions.rule.at(tokenizer.regions.similarity.precision, WEIGHT_SCALE).rule
    tree = hierarchy_of_planes(planes, (HEIGHT, WIDTH), rule)
    assert tree.levels == len(levels) - 1
    for number, level in enumerate(levels):
        assert np.array_equal(tree.at_level(number).labels.numpy().ravel(), level.region)

    scaled = [level._replace(means=level.means * WEIGHT_SCALE) for level in levels]
    chosen = chosen_regions(scaled, pixels * WEIGHT_SCALE, HEIGHT, WIDTH, budget.penalty, budget.floor)
    labels = found.partition.labels[0].numpy()
    assert np.array_equal(labels.ravel(), chosen)

    features, checked = found.pooled[0].numpy().astype(np.float64), 0
    for level in levels:
        for region, size in enumerate(level.sizes):
            own = np.unique(chosen[level.region == region])
            if len(own) == 1 and size == (chosen == own[0]).sum():  # a whole region of this level
                assert np.allclose(features[own[0]], level.features[region], atol=CLOSE)
                checked += 1
    assert checked >= 1

    projection, bias = (one.numpy().astype(np.float64) for one in (tokenizer.regions.colour.weight, tokenizer.regions.colour.bias))
    background, mix = tokenizer.sampler.background.numpy(), float(tokenizer.sampler.mix)
    expected = extract(image.numpy().astype(np.float64), features, labels, projection, bias, PATCH, background, mix)
    assert np.allclose(tokenizer.samples(found)[0].numpy(), expected, atol=CLOSE)

    placed = tokenizer.positions(found.partition.labels, int(found.partition.counts[0]))[0].numpy()
    table = tokenizer.positions.table.numpy().astype(np.float64)
    assert np.allclose(placed, positions(labels, BINS, tokenizer.positions.bandwidth) @ table, atol=CLOSE)


def test_the_weights_of_alg_merge_decide_levels_of_their_own():
    """With σ = 1/e the levels that compare f_t are other ones than those that compare plain means, from level 2 on."""
    image = image_of(0).numpy().astype(np.float64).reshape(3, -1).T

    def kernel(a, b):
        return gaussian(a, b, np.exp(-1.0))

    means, weighted = (hierarchy(image, HEIGHT, WIDTH, kernel, picks) for picks in ("means", "weighted"))
    assert np.array_equal(means[1].region, weighted[1].region)
    assert not np.array_equal(means[2].region, weighted[2].region)
