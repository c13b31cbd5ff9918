"""The front door: any image in, exactly the asked regions out."""

from hashlib import sha256

import numpy as np
import pytest
import torch
from fresh_process import found, loaded_after
from pictures import noise, photo

import pixtree
from pixtree.partitioners import NAMES


def regions(labels: np.ndarray | torch.Tensor) -> int:
    return int(labels.max()) + 1


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_tokens_are_counted_exactly_in_every_kind_of_image(backend, tmp_path):
    from PIL import Image

    array = photo(height=40, width=44).permute(1, 2, 0).numpy()
    Image.fromarray(array).save(tmp_path / "photo.png")
    expected = pixtree.segment(array, tokens=23, backend=backend)
    assert expected.dtype == np.int32
    assert expected.shape == (40, 44)
    assert regions(expected) == 23
    for image in (tmp_path / "photo.png", str(tmp_path / "photo.png"), Image.fromarray(array)):
        assert np.array_equal(pixtree.segment(image, tokens=23, backend=backend), expected)
    assert np.array_equal(pixtree.segment(np.moveaxis(array, -1, 0), tokens=23, channel_axis=0, backend=backend), expected)
    tensor = pixtree.segment(torch.from_numpy(array).permute(2, 0, 1), tokens=23, backend=backend)
    assert isinstance(tensor, torch.Tensor)
    assert np.array_equal(tensor.numpy(), expected)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 13, 64])
def test_any_number_of_channels_works(channels):
    image = noise(12, 15, channels)
    assert regions(pixtree.segment(image, tokens=9)) == 9
    assert regions(pixtree.segment(image.to(torch.float32) / 255, tokens=9)) == 9


def test_grey_arrays_need_no_channel_axis():
    grey = photo()[0].numpy()
    assert np.array_equal(pixtree.segment(grey, tokens=9), pixtree.segment(grey, tokens=9, channel_axis=None))


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_an_image_alone_equals_the_image_in_any_batch_and_order(backend):
    images = torch.stack([photo(height=30, width=31), noise(30, 31), photo("coffee", 30, 31)])
    for relax in (False, True, "detail"):
        batch = pixtree.segment(images, tokens=20, relax=relax, backend=backend)
        turned = pixtree.segment(images.flip(0), tokens=20, relax=relax, backend=backend)
        for index, image in enumerate(images):
            alone = pixtree.segment(image, tokens=20, relax=relax, backend=backend)
            assert torch.equal(batch[index], alone)
            assert torch.equal(turned[2 - index], alone)


@pytest.mark.parametrize(("name", "expected"), [("astronaut", "dd93b9ba2f8820bf"), ("coffee", "0eefa3a82838dd2a")])
def test_polished_boundaries_are_those_of_earlier_versions(name, expected):
    labels = pixtree.segment(photo(name, 200, 240), tokens=100, relax=True)
    assert sha256(labels.numpy().tobytes()).hexdigest()[:16] == expected


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_detail_is_the_same_with_and_without_the_whole_tree(backend):
    image = photo(height=48, width=56)
    whole = pixtree.hierarchy(image, backend=backend).cut(tokens=9, relax="detail").labels[0]
    assert torch.equal(pixtree.segment(image, tokens=9, relax="detail", backend=backend), whole)
    assert torch.equal(pixtree.segment(image, tokens=9, relax="detail"), whole)
    assert not torch.equal(pixtree.segment(image, tokens=9, relax=True), whole)


def test_unknown_relaxations_are_refused_before_the_image_is_read():
    with pytest.raises(ValueError, match=r'relax is False, True or "detail", got \'smooth\''):
        pixtree.segment("missing.png", tokens=9, relax="smooth")


@pytest.mark.bfloat16
@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_autocast_and_gradients_change_nothing(backend):
    image = photo(height=30, width=31).to(torch.float32) / 255
    expected = pixtree.segment(image, tokens=20, backend=backend)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(pixtree.segment(image, tokens=20, backend=backend), expected)
        relaxed = pixtree.segment(image, tokens=20, relax=True, backend=backend)
    assert torch.equal(relaxed, pixtree.segment(image, tokens=20, relax=True, backend=backend))
    assert torch.equal(pixtree.segment(image.requires_grad_(), tokens=20, backend=backend), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"tokens": 20},
        {"tokens": 20, "relax": True},
        {"tokens": 8, "relax": "detail"},
        {"criterion": pixtree.Criterion("aicc", penalty=0.05)},
        {"criterion": pixtree.Criterion(rule="pixel", nodes="levels")},
        {"criterion": pixtree.Criterion(shape=1.0, penalty=0.05)},
        {"tokens": 20, "mask": np.arange(30 * 31).reshape(30, 31) % 31 != 15},
    ],
)
def test_the_reference_runs_under_deterministic_algorithms(options):
    image = photo(height=30, width=31)
    expected = pixtree.segment(image, backend="torch", **options)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(pixtree.segment(image, backend="torch", **options), expected)
    finally:
        torch.use_deterministic_algorithms(False)


def test_pixels_outside_a_mask_get_one_less_than_the_start_label():
    image = photo(height=20, width=20)
    mask = np.zeros((20, 20), bool)
    mask[3:17, 4:16] = True
    labels = pixtree.segment(image.permute(1, 2, 0).numpy(), tokens=7, mask=mask)
    assert set(np.unique(labels)) == set(range(-1, 7))
    assert np.array_equal(labels >= 0, mask)
    one_based = pixtree.segment(image.permute(1, 2, 0).numpy(), tokens=7, mask=mask, start_label=1)
    assert np.array_equal(one_based, labels + 1)


def test_other_budgets_are_named_arguments():
    image = photo()
    tree = pixtree.hierarchy(image)
    assert torch.equal(pixtree.segment(image, criterion="bic"), tree.cut(criterion="bic").labels[0])
    assert torch.equal(pixtree.segment(image, at_most=5), tree.cut(at_most=5).labels[0])
    assert torch.equal(pixtree.segment(image, level=3), tree.at_level(3).labels[0])
    assert torch.equal(pixtree.segment(image, budget=pixtree.Exactly(4)), tree.cut(tokens=4).labels[0])


@pytest.mark.parametrize("name", NAMES)
def test_every_partitioner_works_by_name(name):
    image = photo(height=48, width=64)
    labels = pixtree.segment(image, tokens=12, partitioner=name)
    assert labels.shape == (48, 64)
    assert 4 <= regions(labels) <= 80  # connected pieces of a baseline; the tree and the quadtree are exact
    assert torch.equal(labels, pixtree.segment(image[None], tokens=12, partitioner=name)[0])


def test_other_engines_take_a_count_only_and_unknown_ones_list_the_choices():
    image = photo(height=20, width=20)
    with pytest.raises(ValueError, match="takes tokens= only"):
        pixtree.segment(image, criterion="aicc", partitioner="slic")
    with pytest.raises(ValueError, match="takes tokens= only"):
        pixtree.segment(image, tokens=4, relax=True, partitioner="slic")
    with pytest.raises(ValueError, match="takes tokens= only, got similarity, compactness"):
        pixtree.segment(image, tokens=4, similarity="cosine", compactness=0.1, partitioner="pixtree")
    with pytest.raises(ValueError, match="takes tokens= only, got mask"):
        pixtree.segment(image, tokens=4, mask=np.ones((20, 20), bool), partitioner="slic")
    with pytest.raises(ValueError, match="grid, quadtree, slic"):
        pixtree.segment(image, tokens=4, partitioner="best")


def test_compactness_makes_regions_rounder():
    from skimage.measure import regionprops

    def roundness(compactness: float) -> float:
        labels = pixtree.segment(photo().permute(1, 2, 0).numpy(), tokens=50, compactness=compactness)
        return float(np.mean([region.area / region.area_bbox for region in regionprops(labels + 1)]))

    assert roundness(0.3) > roundness(0.1) > roundness(0.0)


@pytest.mark.parametrize(
    ("image", "options", "message"),
    [
        (np.full((4, 4, 3), np.nan), {"tokens": 2}, "NaN"),
        (np.zeros((0, 4, 3), np.uint8), {"tokens": 2}, "empty|at least"),
        (np.zeros((4, 4, 65), np.uint8), {"tokens": 2, "channel_axis": -1}, "64"),
        (np.zeros((4, 4, 3), np.uint8), {"tokens": 0}, "at least 1 region"),
        (np.zeros((4, 4, 3), np.uint8), {}, "exactly one"),
        (np.zeros((4, 4, 3), np.uint8), {"tokens": 2, "similarity": "nearest"}, "got 'nearest'"),
        (np.zeros((4, 4, 3), np.uint8), {"criterion": "best"}, "got 'best'"),
        (np.zeros((4, 4, 3), np.uint8), {"tokens": 3.0}, "whole number"),
        (np.zeros((4, 4, 3), np.uint8), {"tokens": float("nan")}, "whole number"),
        (np.zeros((4, 4, 3), np.uint8), {"level": 1.5}, "whole number"),
        ("missing.png", {"tokens": 2}, "missing.png"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(image, options, message):
    with pytest.raises((ValueError, OSError), match=message) as raised:
        pixtree.segment(image, **options)
    assert "\n" not in str(raised.value)


def test_a_tree_belongs_to_one_image():
    with pytest.raises(ValueError, match="one image"):
        pixtree.hierarchy(torch.zeros(2, 3, 4, 4, dtype=torch.uint8))


def test_importing_pixtree_is_cheap_and_lists_its_names():
    assert loaded_after("pixtree").isdisjoint({"torch", "numpy", "numba", "PIL"})
    assert found()["version"] == pixtree.__version__
    assert "segment" in found()["names"]
    with pytest.raises(AttributeError, match="it has"):
        _ = pixtree.nothing


@pytest.mark.parametrize("start", [2**31, 2**31 - 30, -(2**31), 10**30])
def test_labels_that_would_not_fit_are_refused_before_any_work(start, monkeypatch):
    monkeypatch.setattr("pixtree.tasks.segment.partition_images", lambda *_, **__: pytest.fail("work was done"))
    with pytest.raises(ValueError, match=r"start_label must be from -2147483647 to 2147483611 here, got .*; labels are int32"):
        pixtree.segment(torch.zeros(3, 6, 6, dtype=torch.uint8), tokens=3, start_label=start)


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_more_tokens_than_pixels_are_refused(backend):
    image = np.zeros((20, 30), np.uint8)
    for cut in (
        lambda: pixtree.segment(image, tokens=601, backend=backend),
        lambda: pixtree.hierarchy(image, backend=backend).cut(601),
    ):
        with pytest.raises(ValueError, match="an image of 600 pixels has at most 600 regions, got 601; ask for fewer"):
            cut()
    assert regions(pixtree.segment(image, tokens=600, backend=backend)) == 600


def test_the_largest_start_label_fits():
    assert int(pixtree.segment(torch.zeros(3, 2, 2, dtype=torch.uint8), tokens=4, start_label=2**31 - 5).max()) == 2**31 - 2
