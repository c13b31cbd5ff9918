"""The compiled backend equals the reference bit for bit."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import checkerboard, constant, noise, photo, small_images

from pixtree.kernels import kernels_for
from pixtree.kernels.arithmetic import compiled as compiled_arithmetic
from pixtree.kernels.arithmetic import definition as arithmetic
from pixtree.trees.build import hierarchy_of_image
from pixtree.trees.criteria import Criterion
from pixtree.trees.hierarchy import Hierarchy
from pixtree.trees.options import ENERGIES, SIMILARITIES, Likelihood, TreeOptions, Ward

TREE = ("parent", "left", "right", "level", "altitude", "gain", "pick")
ATTRIBUTES = ("size", "mean", "deviation", "box", "volume", "scale", "rank")


compiled, reference = kernels_for("numba"), kernels_for("torch")


def both(image: torch.Tensor, mask: torch.Tensor | None = None, **options: object) -> tuple[Hierarchy, Hierarchy]:
    trees = (hierarchy_of_image(image, TreeOptions(**options), mask=mask, backend=b, picks=True) for b in ("torch", "numba"))
    return tuple(trees)


def assert_same_tree(a: Hierarchy, b: Hierarchy) -> None:
    for name in TREE + ATTRIBUTES:
        assert torch.equal(getattr(a, name), getattr(b, name)), name


@pytest.mark.parametrize("energy", ENERGIES)
@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize(
    "image",
    [photo(height=60, width=50), photo("coffee", 40, 70), noise(31, 29), noise(20, 30, 1), noise(9, 14, 8), constant(24, 24)],
    ids=["astronaut", "coffee", "noise", "grey", "eight channels", "constant"],
)
def test_trees_are_equal_for_every_similarity_and_energy(image, similarity, energy):
    assert_same_tree(*both(image, similarity=similarity, energy=energy))


@given(small_images(), st.sampled_from(sorted(SIMILARITIES)), st.booleans())
@settings(max_examples=60, deadline=None)
def test_trees_are_equal_on_any_small_image(image, similarity, compact):
    assert_same_tree(*both(image, similarity=similarity, compactness=0.1 if compact else 0.0))


@given(small_images(), st.integers(0, 2**32 - 1), st.sampled_from(sorted(SIMILARITIES)))
@settings(max_examples=40, deadline=None)
def test_trees_are_equal_inside_any_mask(image, seed, similarity):
    mask = torch.from_numpy(np.random.default_rng(seed).random(tuple(image.shape[1:])) < 0.7)
    mask[0, 0] = True
    a, b = both(image, mask=mask, similarity=similarity)
    assert_same_tree(a, b)
    assert a.pieces == b.pieces
    assert a.cut(budget=Criterion()) == b.cut(budget=Criterion())


@pytest.mark.parametrize("length_exponent", [0.0, 0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("ward_rounds", [1, 3])
def test_trees_are_equal_for_every_length_exponent(length_exponent, ward_rounds):
    image = photo(height=40, width=40)
    assert_same_tree(*both(image, similarity=Likelihood(length_exponent, ward_rounds)))
    assert_same_tree(*both(image, similarity=Ward(length_exponent)))


def test_large_components_are_ordered_alike():
    # A ramp whose steps shrink makes every pixel pick the next one: one component, longer than what is sorted by insertion.
    ramp = torch.sqrt(torch.linspace(0, 1, 300)).expand(3, 2, 300).contiguous()
    assert_same_tree(*both(ramp))


@given(small_images(), st.integers(1, 30), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_cuts_pieces_and_relaxation_are_equal(image, tokens, seed):
    a, b = both(image)
    tokens = min(tokens, a.leaves)
    assert a.cut(tokens=tokens) == b.cut(tokens=tokens)
    assert a.cut(tokens=tokens, relax=True) == b.cut(tokens=tokens, relax=True)
    for rule, nodes in itertools.product(("optimal", "pixel"), ("binary", "levels")):
        budget = Criterion(rule=rule, nodes=nodes, penalty=0.05)
        assert a.cut(budget=budget) == b.cut(budget=budget)
    labels = torch.from_numpy(np.random.default_rng(seed).integers(-1, 3, tuple(image.shape[1:])))
    assert torch.equal(reference.connected_pieces(labels), compiled.connected_pieces(labels))


@pytest.mark.parametrize("image", [photo("coffee", 64, 64), checkerboard(5, 7)])
def test_lab_is_equal_for_bytes_and_the_reference_for_floats(image):
    assert torch.equal(reference.lab(image), compiled.lab(image))
    floats = image.to(torch.float32) / 255
    assert torch.equal(reference.lab(floats), compiled.lab(floats))
    assert torch.equal(reference.lab(floats), reference.lab(image))


def test_lab_and_lightness_agree_with_scikit_image():
    from skimage.color import rgb2lab

    # Our white point is the one of the matrix itself, so that grey has a = b = 0; theirs differs in the fifth digit.
    image = photo("chelsea", 64, 64)
    expected = rgb2lab(image.permute(1, 2, 0).numpy())
    assert np.abs(reference.lab(image).T.reshape(64, 64, 3).numpy() - expected).max() < 0.01
    grey = image[:1]
    expected = rgb2lab(grey.expand(3, -1, -1).permute(1, 2, 0).numpy())[..., 0]
    assert np.abs(reference.lightness(grey).view(64, 64).numpy() - expected).max() < 0.01


def test_shared_arithmetic_has_the_same_bits_and_is_accurate():
    import numba

    values = torch.cat((1 + torch.rand(20_000), torch.rand(20_000) * 1e6 + 1, torch.tensor([1.0, 2.0, 3e38])))

    @numba.njit
    def logs(x, out):
        for i in range(x.size):
            out[i] = compiled_arithmetic.log_at_least_one(x[i])

    @numba.njit
    def roots(x, out):
        for i in range(x.size):
            out[i] = compiled_arithmetic.cube_root(x[i])

    for kernel, function, exact in (
        (logs, arithmetic.log_at_least_one, torch.log),
        (roots, arithmetic.cube_root, lambda x: x ** (1 / 3)),
    ):
        out = np.empty(values.numel(), np.float32)
        kernel(values.numpy(), out)
        assert np.array_equal(out, function(values).numpy())
        assert torch.allclose(function(values).to(torch.float64), exact(values.to(torch.float64)), rtol=5e-7, atol=1e-7)


def test_the_edge_hash_has_the_same_bits():
    import numba

    first, second = torch.arange(1000), torch.arange(1000) * 977 + 1

    @numba.njit
    def hashes(a, b, out):
        for i in range(a.size):
            out[i] = compiled_arithmetic.edge_hash(a[i], b[i])

    out = np.empty(1000, np.int64)
    hashes(first.numpy(), second.numpy(), out)
    assert np.array_equal(out, arithmetic.edge_hash(first, second).numpy())


@pytest.mark.parametrize(("mean", "std"), [(0.5, 0.5), (0.485, 0.229), (0.406, 0.225)])
def test_an_image_and_its_normalised_twin_have_the_same_lab(mean, std):
    image = torch.arange(256, dtype=torch.uint8).repeat(3, 4, 1)
    twin = (image / 255.0 - mean) / std * std + mean
    assert torch.equal(compiled.lab(twin), compiled.lab(image))


def test_floats_between_bytes_have_lab_as_scikit_image_has_it():
    from skimage.color import rgb2lab

    floats = torch.rand(3, 40, 50, generator=torch.Generator().manual_seed(0))
    expected = rgb2lab(floats.permute(1, 2, 0).numpy()).reshape(-1, 3).T
    assert torch.equal(compiled.lab(floats), reference.lab(floats))
    assert np.abs(compiled.lab(floats).numpy() - expected).max() < 0.01
    outside = torch.tensor([torch.nan, -0.2, 1.3, 1.0]).expand(3, 1, 4)
    assert torch.equal(compiled.lab(outside).nan_to_num(7.0), reference.lab(outside).nan_to_num(7.0))
    assert bool(compiled.lab(outside)[:, 0].isnan().all())
