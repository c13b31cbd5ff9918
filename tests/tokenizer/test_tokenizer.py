"""Tokenizer: counts, masks, exact patches, gradients to every parameter, no NaN."""

import pytest
import torch
from pictures import checkerboard, constant, noise, photo

from pixtree.tokenizer.cutting import PerPatch
from pixtree.tokenizer.tokenizer import Options, Tokenizer
from pixtree.training.reconstruction import reconstruction_loss
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import AtMost, Exactly, Level
from pixtree.trees.options import Cosine
from pixtree.trees.partition import Partition


def photos(height=48, width=64):
    return torch.stack([photo(height=height, width=width), photo("coffee", height, width)])


def small(budget=Exactly(12), **options):
    torch.manual_seed(0)
    return Tokenizer(budget, **{"width": 24, "patch": 4, "smallest_box": 4, "positions": 4, **options})


def test_an_exact_budget_gives_that_many_tokens_without_padding():
    tokens = small()(photos())
    assert tokens.features.shape == (2, 12, 24)
    assert tokens.full
    assert tokens.sequence().shape == (2, 13, 24)
    assert tokens.sequence_mask() is None


@pytest.mark.parametrize("budget", [AtMost(40), Criterion("aicc"), Level(4), Criterion("bic", rule="pixel", nodes="levels")])
def test_other_budgets_pad_with_zeros_and_say_so(budget):
    tokens = small(budget)(torch.stack([photo(height=40, width=40), constant(40, 40)]))
    counts = tokens.partition.counts
    assert tokens.valid.sum(1).tolist() == counts.tolist()
    assert tokens.features.shape[1] == int(counts.max())
    assert bool((tokens.features[~tokens.valid] == 0).all())
    if not tokens.full:
        assert tokens.sequence_mask().shape == (2, 1 + int(counts.max()))


def test_token_i_is_region_i_and_to_pixels_paints_it_back():
    tokens = small()(photos())
    numbers = torch.arange(12.0).expand(2, 12)[..., None]
    assert torch.equal(tokens.to_pixels(numbers)[:, 0].to(torch.int32), tokens.partition.labels)
    with pytest.raises(ValueError, match="drop prefix tokens"):
        tokens.to_pixels(torch.zeros(2, 13, 1))


def test_before_any_training_the_image_is_reconstructed_exactly():
    tokenizer = small()
    regions = tokenizer.encode(photos())
    assert torch.allclose(regions.colours, regions.means, atol=1e-6)
    plain = small(aggregation="mean").encode(photos())
    assert torch.equal(regions.partition.labels, plain.partition.labels)


def test_square_patches_become_the_tokens_of_a_plain_vision_transformer():
    torch.manual_seed(1)
    tokenizer = Tokenizer(Exactly(12), width=16, positions=4)
    images = photos(64, 64)
    labels = (torch.arange(64)[:, None] // 16 * 4 + torch.arange(64) // 16).to(torch.int32).expand(2, -1, -1).contiguous()
    tokens = tokenizer(images, Partition(labels))
    pixels = (images.to(torch.float32) / 255 - 0.5) / 0.5
    weight = tokenizer.projection.weight.view(16, 3, 16, 16)
    expected = torch.nn.functional.conv2d(pixels, weight, tokenizer.projection.bias, stride=16).flatten(2).transpose(1, 2)
    assert torch.allclose(tokens.features, expected + tokenizer.positions.table, atol=1e-5)


def test_an_image_alone_gives_the_tokens_it_has_in_a_batch():
    tokenizer, images = small().eval(), photos()
    with torch.no_grad():
        together, alone = tokenizer(images), tokenizer(images[1:])
    assert torch.equal(together.partition.labels[1:], alone.partition.labels)
    assert torch.allclose(together.features[1:], alone.features, atol=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"gradients": 4}, {"aggregation": "normalised"}, {"decision": "features", "aggregation": "raw"}]
)
def test_after_one_step_from_the_start_every_parameter_has_a_gradient(options):
    tokenizer, images = small(**options), photos()
    optimizer = torch.optim.SGD(tokenizer.parameters(), 0.05)
    target = torch.randn(2, 13, 24)
    for _ in range(2):
        optimizer.zero_grad()
        (tokenizer(images).sequence() - target).square().mean().backward()
        optimizer.step()
    empty = [
        name for name, parameter in tokenizer.named_parameters() if parameter.grad is None or not bool((parameter.grad != 0).any())
    ]
    assert empty == []


def test_the_gradient_of_one_image_ignores_the_others():
    tokenizer = small()
    images = (photos().to(torch.float32) / 255).requires_grad_()
    tokenizer(images).features[0].square().sum().backward()
    assert bool((images.grad[0] != 0).any())
    assert bool((images.grad[1] == 0).all())


@pytest.mark.parametrize("aggregation", ["straight", "normalised", "mean"])
def test_the_reconstruction_loss_decreases_on_a_photo(aggregation):
    torch.manual_seed(0)
    tokenizer, images = small(Exactly(40), aggregation=aggregation, compactness=0.0), photos()[:1]
    with torch.no_grad():
        tokenizer.regions.colour.weight.mul_(0.5)
    optimizer = torch.optim.Adam(tokenizer.regions.parameters(), 0.01)
    losses = []
    for _ in range(12):
        regions = tokenizer.encode(images)
        loss = reconstruction_loss(regions.pixels, regions.colours, regions.labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    "image", [constant(24, 30), checkerboard(24, 30), noise(24, 30)], ids=["constant", "checkerboard", "noise"]
)
@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize(
    "options", [{}, {"decision": "features", "similarity": "gaussian", "aggregation": "raw"}], ids=["default", "paper"]
)
def test_nothing_is_nan_for_any_picture_and_scale_of_features(image, scale, options):
    tokenizer = small(Exactly(6), **options)
    with torch.no_grad():
        tokenizer.regions.encoder.residual.weight.mul_(scale)
    features = tokenizer(image[None]).features
    features.square().mean().backward()
    assert bool(features.isfinite().all())
    assert all(bool(p.grad.isfinite().all()) for p in tokenizer.parameters() if p.grad is not None)


@pytest.mark.bfloat16
def test_bfloat16_autocast_cuts_and_embeds_without_nan():
    tokenizer = small()
    with torch.autocast("cpu", torch.bfloat16):
        tokens = tokenizer(photos())
    tokens.features.float().square().mean().backward()
    assert bool(tokens.features.isfinite().all())
    assert tokens.partition.counts.tolist() == [12, 12]
    assert bool(tokenizer.regions.encoder.residual.weight.grad.isfinite().all())


@pytest.mark.bfloat16
@pytest.mark.parametrize("backend", ["numba", "torch"])
@torch.no_grad()
def test_regions_are_encoded_in_float32_inside_autocast(backend):
    tokenizer = small(backend=backend)
    expected = tokenizer.encode(photos())
    with torch.autocast("cpu", torch.bfloat16):
        found = tokenizer.encode(photos())
    for name in ("features", "pooled", "means", "colours"):
        assert getattr(found, name).dtype == torch.float32
        assert torch.equal(getattr(found, name), getattr(expected, name))


@pytest.mark.bfloat16
@pytest.mark.parametrize("gradients", [0, 4])
@pytest.mark.parametrize("backend", ["numba", "torch"])
@torch.no_grad()
def test_samples_are_taken_in_float32_inside_autocast(backend, gradients):
    tokenizer = small(width=None, gradients=gradients, backend=backend)
    regions = tokenizer.encode(photos())
    expected = tokenizer.embed(regions).features
    with torch.autocast("cpu", torch.bfloat16):
        found = tokenizer.embed(regions).features
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


def test_the_papers_budget_and_tree_have_their_stated_numbers():
    tokenizer = Tokenizer.paper(width=16)
    budget, tree = tokenizer.budget, tokenizer.options.tree
    assert (budget.penalty, budget.floor, budget.shape) == (3.6, 10.0, 2.0)
    assert (tree.floor, tree.energy, tree.compactness) == (10.0, "likelihood", 0.0)


def test_the_papers_preset_is_the_papers_system():
    tokenizer = Tokenizer.paper(width=16)
    options = tokenizer.options
    assert (options.encoder.features, options.decision, options.kernel, options.aggregation) == (8, "features", "gaussian", "raw")
    assert (tokenizer.budget.name, tokenizer.budget.rule, tokenizer.budget.nodes) == ("aicc", "pixel", "levels")
    tokens = tokenizer(photos(32, 40))
    tokens.features.square().mean().backward()
    assert tokenizer.sampler.logit.grad is not None
    assert bool((tokenizer.sampler.background.grad != 0).any())


def test_kernel_and_similarity_of_the_papers_preset_agree_unless_both_are_given():
    for changes, kernel, similarity in (
        ({}, "gaussian", "gaussian"),
        ({"kernel": "cosine"}, "cosine", "cosine"),
        ({"similarity": "tanimoto"}, "tanimoto", "tanimoto"),
        ({"similarity": Cosine()}, "cosine", Cosine()),
        ({"similarity": "ward"}, "gaussian", "ward"),
        ({"kernel": "cosine", "similarity": "gaussian"}, "cosine", "gaussian"),
    ):
        options = Tokenizer.paper(width=16, **changes).options
        assert (options.kernel, options.tree.similarity) == (kernel, similarity)
    with pytest.raises(ValueError, match="gaussian, cosine, tanimoto"):
        Tokenizer.paper(kernel="sigmoid")


@pytest.mark.parametrize("aggregation", ["raw", "normalised"])
def test_weights_of_the_tree_refuse_a_partition(aggregation):
    tokenizer = small(aggregation=aggregation)
    with pytest.raises(ValueError, match="follow the rounds of the tree, got regions of a given partition"):
        tokenizer(photos(), tokenizer.partition(photos()))


def test_sizes_that_are_no_multiple_of_anything_work():
    with torch.no_grad():
        for height, width, count in ((1, 1, 1), (3, 50, 7), (17, 5, 7)):
            assert bool(small(Exactly(count))(noise(height, width)[None]).features.isfinite().all())
    with pytest.raises(ValueError, match="1×6 pixels cannot have 7 regions"):
        small(Exactly(7))(noise(1, 6)[None])


def test_both_backends_give_the_same_tokens():
    images = photos(20, 24)
    with torch.no_grad():
        compiled, reference = small()(images), small(backend="torch")(images)
    assert torch.equal(compiled.partition.labels, reference.partition.labels)
    assert torch.allclose(compiled.features, reference.features, atol=1e-5)


def test_what_does_not_fit_is_refused_before_any_work():
    with pytest.raises(ValueError, match="batch of images"):
        small()(photos()[0])
    with pytest.raises(ValueError, match="uint8 or float"):
        small()(photos().to(torch.int64))
    with pytest.raises(ValueError, match="lab, features"):
        small(decision="rgb")
    with pytest.raises(ValueError, match="one value per channel"):
        small(mean=(0.5,))
    with pytest.raises(TypeError):
        Tokenizer(Exactly(4), Options(), widht=3)


def test_without_a_width_tokens_are_their_samples():
    tokens = small(width=None)(photos())
    assert tokens.features.shape == (2, 12, 3 * 4 * 4)


@pytest.mark.parametrize("channels", [1, 4])
def test_images_of_other_channels_are_refused_in_one_sentence(channels):
    images = torch.zeros(1, channels, 32, 32)
    for call in (Tokenizer(Exactly(4)), Tokenizer(Exactly(4)).partition):
        with pytest.raises(ValueError, match=f"of 3 channels, got {channels}; convert them"):
            call(images)


@pytest.mark.parametrize(("height", "width"), [(12, 2), (2, 12)])
@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_tall_and_wide_images_have_as_many_tokens_as_asked_for(height, width, backend):
    with torch.no_grad():
        assert small(Exactly(10), backend=backend)(noise(height, width)[None]).features.shape[1] == 10


def test_every_tokenizer_has_196_tokens_unless_another_budget_is_given():
    assert Tokenizer(width=8).budget == Tokenizer.pretrained(width=8).budget == Exactly(196)


def test_means_deviations_and_other_fixed_numbers_are_no_weights():
    names = set(small().state_dict())
    assert names == {name for name, _ in small().named_parameters()}
    assert not any("shift" in name or "normalisation" in name for name in names)


def test_the_papers_background_starts_as_noise_and_a_retrofits_dark():
    torch.manual_seed(0)
    assert float(Tokenizer.paper(width=8).sampler.background.detach().std()) == pytest.approx(0.1, rel=0.1)
    assert not Tokenizer(width=8).sampler.background.any()


def test_features_alone_count_once_and_those_next_to_colours_by_a_weight():
    assert small(decision="features").regions.decision.weight == 1
    assert float(small().regions.decision.weight.detach()) == pytest.approx(100 * 0.05)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: small(gradients=1), "needs at least 2 bins per direction, got 1"),
        (lambda: small(aggregation="middle"), "an aggregation is one of .*, got 'middle'"),
        (lambda: small(background=-0.1), "standard deviation of 0 or more, got -0.1"),
        (lambda: small(mix=1.5), "λ lies between 0 and 1, got 1.5"),
        (lambda: small(patch=0), "expected patch ≥ 1"),
        (lambda: small(smallest_box=9, largest_box=8), "smallest ≤ largest box, got .*, 9, 8"),
        (lambda: small(bandwidth=0.0), "bandwidth"),
    ],
)
def test_options_out_of_range_are_refused_when_a_tokenizer_is_made(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_images_that_are_no_tensors_are_refused():
    with pytest.raises(TypeError, match="ndarray"):
        small()(photos().numpy())


def test_a_budget_by_patches_has_as_many_regions_as_whole_and_cut_off_patches():
    with torch.no_grad():
        assert small(PerPatch(4))(noise(9, 12)[None]).features.shape[1] == 3 * 3
