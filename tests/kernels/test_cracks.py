import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pixtree.kernels.image.cracks import rings, without_collinear

quick = settings(deadline=None, max_examples=60)  # the first example may compile or import
label_maps = arrays(
    np.int64, st.tuples(st.integers(1, 7), st.integers(1, 7)), elements=st.integers(-1, 2)
)  # few labels: many touches at corners


def corners_of(labels, **options):
    found = without_collinear(rings(np.array(labels), **options))
    return [(int(found.region[i]), int(found.area[i]), found.ring(i).tolist()) for i in range(len(found.region))]


def filled(found, shape):
    """Pixels of every region by the winding number of its rings, from their upright edges: an oracle without crack logic."""
    winding = {}
    for i, region in enumerate(found.region.tolist()):
        ring = found.ring(i)
        image = winding.setdefault(region, np.zeros(shape, dtype=int))
        for (x, y), (next_x, next_y) in zip(ring, np.roll(ring, -1, axis=0), strict=True):
            if x == next_x:
                image[min(y, next_y) : max(y, next_y), :x] += np.sign(next_y - y)
    return winding


def test_one_pixel_is_a_square_walked_east_south_west_north():
    assert corners_of([[0]]) == [(0, 1, [[0, 0], [1, 0], [1, 1], [0, 1]])]


def test_two_halves_share_the_corners_between_them():
    assert corners_of([[0, 0, 1]]) == [
        (0, 2, [[0, 0], [2, 0], [2, 1], [0, 1]]),
        (1, 1, [[2, 0], [3, 0], [3, 1], [2, 1]]),
    ]


def test_a_hole_is_a_ring_of_negative_area_after_the_outer_ring():
    outer, hole, island = corners_of([[0, 0, 0], [0, 1, 0], [0, 0, 0]])
    assert (outer[:2], hole[:2], island[:2]) == ((0, 9), (0, -1), (1, 1))
    assert sorted(hole[2]) == sorted(island[2])


def test_pixels_that_touch_at_a_corner_are_not_joined():
    assert [area for _, area, _ in corners_of([[0, 1], [1, 0]])] == [1, 1, 1, 1]


def test_simple_rings_of_a_connected_region_never_pass_a_corner_twice():
    # Region 0 touches itself at the corner between 1 and 2: one hole that passes it twice, or two holes.
    labels = np.array([[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2, 0], [0, 0, 0, 0]])
    pinched, simple = rings(labels), rings(labels, simple=True)
    assert (pinched.region == 0).sum() == 2
    assert (simple.region == 0).sum() == 3
    for i in range(len(simple.region)):
        assert len(np.unique(simple.ring(i), axis=0)) == len(simple.ring(i))


def test_pixels_outside_a_mask_have_no_ring():
    assert corners_of([[-1, 3], [-2, -1]]) == [(3, 1, [[1, 0], [2, 0], [2, 1], [1, 1]])]
    assert corners_of([[-1, -1]]) == []


@pytest.mark.parametrize("simple", [False, True])
@quick
@given(labels=label_maps)
def test_rings_enclose_exactly_the_pixels_of_their_region(labels, simple):
    found = without_collinear(rings(labels, simple=simple))
    winding = filled(found, labels.shape)
    assert sorted(winding) == [label for label in np.unique(labels).tolist() if label >= 0]
    for region, image in winding.items():
        np.testing.assert_array_equal(image, labels == region)
        assert found.area[found.region == region].sum() == (labels == region).sum()


@quick
@given(labels=label_maps)
def test_every_four_connected_piece_has_one_outer_ring(labels):
    skimage_measure = pytest.importorskip("skimage.measure")
    found = rings(labels)
    for region in np.unique(labels[labels >= 0]):
        pieces = skimage_measure.label(labels == region, connectivity=1).max()
        assert (found.area[found.region == region] > 0).sum() == pieces


@pytest.mark.parametrize("simple", [False, True])
@quick
@given(labels=label_maps)
def test_rings_go_from_corner_to_corner_and_start_at_their_first_pixel(labels, simple):
    found = rings(labels, simple=simple)
    for i in range(len(found.region)):
        ring = found.ring(i)
        step = np.roll(ring, -1, axis=0) - ring
        assert (np.abs(step).sum(axis=1) == 1).all()
        right = (ring + (step - step[:, ::-1] * [1, -1] - 1) // 2).tolist()  # (column, row) of the pixel on the right
        assert min((row, column) for column, row in right) == tuple(right[0][::-1])
        assert all(labels[row, column] == found.region[i] for column, row in right)


def test_unsigned_labels_are_taken():
    assert len(rings(np.array([[0, 255]], dtype=np.uint8)).region) == 2


@pytest.mark.parametrize("labels", [np.zeros((2, 2)), np.zeros((1, 2, 2), dtype=int)])
def test_anything_but_one_integer_map_is_refused(labels):
    with pytest.raises(ValueError, match="integer array of shape"):
        rings(labels)
