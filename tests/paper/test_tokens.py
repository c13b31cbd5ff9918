"""The paper's token embeddings, one test per equation; each names its label."""

import math

import pytest
import torch
from pictures import photo
from tree_rounds import rounds_of

from pixtree.kernels import kernels_for
from pixtree.kernels.tokens.aggregate import Grown, Kernel
from pixtree.kernels.tokens.aggregate.definition import Rows, log_kernel
from pixtree.kernels.tokens.positions.definition import joint_histogram
from pixtree.kernels.tokens.sample import Background, Boxes, Injected
from pixtree.kernels.tokens.sample.definition import extract
from pixtree.kernels.tree import MOST_LEVELS
from pixtree.tokenizer.encoder import Encoder
from pixtree.tokenizer.sampling import frames
from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.training.reconstruction import reconstruction_loss
from pixtree.trees.build import hierarchy_of_image
from pixtree.trees.cuts import Exactly
from pixtree.trees.options import TreeOptions
from pixtree.trees.partition import Partition


def test_sec_sp_cnn_the_encoder_is_a_residual_and_a_downsampling_branch():
    """Section *Subobject Feature Projection*: f = 1×1 convolution + bilinear upsampling of two strided convolutions."""
    torch.manual_seed(0)
    encoder, images = Encoder(), torch.rand(1, 3, 16, 24)
    torch.nn.init.normal_(encoder.second.weight)
    inner = encoder.second(torch.nn.functional.silu(encoder.first(images)))
    assert inner.shape[-2:] == (4, 6)
    up = torch.nn.functional.interpolate(inner, scale_factor=4, mode="bilinear")
    assert torch.allclose(encoder(images), encoder.residual(images) + up, atol=1e-5)  # sums of 128 products in another order


def test_eq_weighted_aggr_weights_each_member_by_the_kernel_of_its_own_pick():
    """`eq:weighted_aggr`: f_{t+1} = Σ_u |S_t|/|S_{t+1}| κ(u, u_max) f_t(u), here spelled out over two levels."""
    tree = hierarchy_of_image(photo(height=10, width=12), TreeOptions("gaussian"), picks=True)
    levels = torch.empty((1, 4, 2 * tree.leaves + MOST_LEVELS), dtype=torch.int32)
    kernels_for().tree_levels(tree.tree, levels[0])
    features = torch.randn(1, 4, tree.leaves, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    value, size = list(features[0].T), [1] * tree.leaves
    for members in rounds_of(levels[0], tree.leaves)[:2]:
        sizes = [0] * members.groups
        for u, group in enumerate(members.component.tolist()):
            sizes[group] += size[u]
        sums = [torch.zeros(4, dtype=torch.float64)] * members.groups
        for u, (group, pick) in enumerate(zip(members.component.tolist(), members.pick.tolist(), strict=True)):
            kernel = torch.exp(-(value[u] - value[pick]).square().sum() / 2)
            sums[group] = sums[group] + size[u] / sizes[group] * kernel * value[u]
        value, size = sums, sizes
    labels, one, half = tree.at_level(2).labels.flatten(1), torch.tensor(1.0), torch.tensor(0.5)
    grown, kernel = Grown(labels, len(value), levels), Kernel(one, half)
    found = kernels_for().aggregate(features, features[:, :0], grown, kernel, "raw")
    assert torch.allclose(found[0], torch.stack(value), atol=1e-12)


def injected(pixels, change, labels, backend="auto"):
    """x̂ (B, C, n, n) as models sample it: the box of every region is the image, sampled at its pixels and shown whole (λ = 1)."""
    batch, channels, side, _ = pixels.shape
    one, none = pixels.new_ones(channels), pixels.new_zeros(channels)
    frame = torch.tensor([0.0, 0.0, side, side]).expand(batch, change.shape[1], 4)
    background = Background(pixels.new_ones(()), pixels.new_zeros(channels, side, side))
    tokens = kernels_for(backend).sample(Injected(pixels, change, one, none), Boxes(labels, frame), background)
    assert torch.equal(tokens[:, 0], tokens[:, 1])
    return tokens[:, 0]


HALVES = torch.tensor([0, 0, 1, 1, 1], dtype=torch.int32).expand(1, 5, 5)


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_eq_mean_injection_replaces_the_mean_of_each_region(backend):
    """`eq:mean_injection`: x̂ = x + W f* − x̄*; with W f* = x̄* the image is left as it is."""
    pixels = torch.tensor([1.0, 3.0, 4.0, 5.0, 6.0]).expand(1, 1, 5, 5)
    means = torch.tensor([[[2.0], [5.0]]])
    assert torch.equal(injected(pixels, means - means, HALVES, backend), pixels)
    changed = injected(pixels, torch.tensor([[[10.0], [0.0]]]) - means, HALVES, backend)
    assert changed.tolist() == [[[[9.0, 11.0, -1.0, 0.0, 1.0]] * 5]]


def test_eq_mean_injection_is_what_a_tokenizer_samples():
    """`eq:mean_injection`: W f* and x̄* of the encoded regions, on square patches, normalised."""
    torch.manual_seed(0)
    tokenizer = Tokenizer(Exactly(4), width=None, patch=4, smallest_box=4, positions=0, mix=1.0)
    torch.nn.init.normal_(tokenizer.regions.encoder.residual.weight)
    images, labels = torch.rand(1, 3, 8, 8), (torch.arange(8)[:, None] // 4 * 2 + torch.arange(8) // 4).to(torch.int32)
    with torch.no_grad():
        regions = tokenizer.encode(images, Partition(labels[None]))
        change = (regions.colours - regions.means)[:, labels.flatten().to(torch.int64)].mT.view_as(images)
        scale, shift = (one[:, None, None] for one in (tokenizer.normalisation.scale, tokenizer.normalisation.shift))
        patches = (scale * (images + change) + shift).unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).flatten(1, 2)
        assert float(change.abs().max()) > 0.1
        assert torch.allclose(tokenizer.samples(regions), patches, atol=1e-5)


def test_eq_mean_injection_passes_gradients_to_w_and_features():
    """`eq:mean_injection`: "enabling full gradient flow from tokenization to the ViT backbone"."""
    pixels = torch.rand(1, 2, 5, 5, dtype=torch.float64)
    means = torch.rand(1, 2, 2, dtype=torch.float64)
    features = torch.rand(1, 2, 3, dtype=torch.float64, requires_grad=True)
    matrix = torch.rand(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda f, w: injected(pixels, f @ w.T - means, HALVES), (features, matrix))


def test_eq_recloss_is_the_mean_squared_distance_over_pixels():
    """`eq:recloss`: 1/|V| Σ_v ‖x(v) − W f*(v)‖²."""
    labels = torch.tensor([[0, 1]], dtype=torch.int32)
    pixels = torch.tensor([[[1.0, 2.0], [0.0, 0.0]]])
    colours = torch.tensor([[[0.0, 2.0], [2.0, 3.0]]])
    assert float(reconstruction_loss(pixels, colours, labels)) == pytest.approx(((1 + 4) + (0 + 9)) / 2)


def test_background_masking_blends_foreground_background_and_beta():
    """Section *Background Masking*: F(S) = (M⁺ + λM⁻) ⊙ x̂(S) + (1 − λ) M⁻ ⊙ β."""
    image, mix = torch.rand(1, 3, 8, 8), torch.tensor(0.3)
    labels = (torch.rand(1, 8, 8) > 0.5).to(torch.int32)
    frame, beta = torch.tensor([[[0.0, 0.0, 8.0, 8.0]] * 2]), torch.rand(3, 8, 8)
    for region in (0, 1):
        inside = (labels[0] == region).to(torch.float32)
        expected = (inside + mix * (1 - inside)) * image[0] + (1 - mix) * (1 - inside) * beta
        assert torch.allclose(extract(image, Boxes(labels, frame), Background(mix, beta))[0, region], expected, atol=1e-6)


def test_alg_features_samples_the_bounding_box_bilinearly():
    """`alg:features`: s = BilinearSample(x̂, bbox, i, j), m = DownsampleMask(S), m s + (1 − m)(λ s + (1 − λ) β)."""
    image = torch.rand(1, 1, 12, 10)
    labels = torch.ones(1, 12, 10, dtype=torch.int32)
    labels[0, 2:10, 1:7] = 0
    frame = frames(torch.tensor([[[2, 1, 10, 7]]], dtype=torch.int32), (12, 10), 1, None)
    tokens = extract(image, Boxes(labels, frame), Background(torch.tensor(0.25), torch.zeros(1, 3, 3)))
    box = image[:, :, 2:10, 1:7]
    assert torch.allclose(tokens[0, 0], torch.nn.functional.interpolate(box, (3, 3), mode="bilinear")[0], atol=1e-6)


def test_alg_features_positions_are_a_joint_histogram_in_the_unit_interval():
    """`alg:features`: P ∈ [0, 1]^{N×p×p}, the kernelised joint histogram of the positions of each region."""
    labels = hierarchy_of_image(photo(height=32, width=40)).cut(tokens=9).labels
    histogram = joint_histogram(labels, 9, 8)
    assert float(histogram.min()) >= 0
    assert float(histogram.max()) <= 1
    region = labels[0] == 4
    rows, columns = torch.nonzero(region, as_tuple=True)
    cell = int((rows[0] * 8 // 32) * 8 + columns[0] * 8 // 40)
    expected = sum(int(r * 8 // 32) * 8 + int(c * 8 // 40) == cell for r, c in zip(rows.tolist(), columns.tolist(), strict=True))
    assert float(histogram[0, 4, cell]) == pytest.approx(expected / len(rows))


def test_kernels_have_the_values_that_the_paper_names():
    """`tab:hyperparam_ablations`: Gaussian, cosine and Tanimoto kernels."""
    a, b = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -0.5]])
    rows = [Rows(one, torch.zeros(1, 0), torch.ones(1), torch.zeros(1, dtype=torch.int64)) for one in (a, b)]
    scalars = torch.tensor(1.0), torch.tensor(0.5)
    names = ("gaussian", "cosine", "tanimoto")
    values = {name: float(log_kernel(*rows, Kernel(*scalars, name)).exp()) for name in names}
    product, squares_a, squares_b = 2.0, 5.0, 9.25
    assert values["gaussian"] == pytest.approx(math.exp(-(4 + 6.25) / 2))
    assert values["cosine"] == pytest.approx(0.5 + 0.5 * product / math.sqrt(squares_a * squares_b))
    assert values["tanimoto"] == pytest.approx(product / (squares_a + squares_b - product))
