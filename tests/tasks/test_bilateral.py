"""The bilateral solver: edges of the image, and a second implementation that solves the whole system at once."""

import itertools

import numpy as np
import pytest

from pixtree.tasks.snap import BISTOCHASTIC_ROUNDS, YUV, bilateral_solver


def two_colours(height=48, width=64, edge=35):
    image = np.full((height, width, 3), (30, 90, 160), np.uint8)
    image[:, edge:] = (220, 120, 40)
    return image, np.arange(width)[None].repeat(height, 0) >= edge


def test_an_outline_beside_the_edge_moves_onto_it():
    image, inside = two_colours()
    rough = (np.arange(64)[None].repeat(48, 0) >= 29).astype(float)
    found = bilateral_solver(image, rough)
    assert ((found > 0.5) == inside).all()
    assert ((rough > 0.5) != inside).any()


def test_a_constant_stays_what_it_is():
    image = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)
    assert np.allclose(bilateral_solver(image, np.full((20, 30), 0.3)), 0.3, atol=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_second_implementation_solves_the_same_system(seed):
    random = np.random.default_rng(seed)
    image, target = random.integers(100, 150, (8, 9, 3)).astype(np.uint8), random.random((8, 9))
    confidence, smooth, cells = 0.9, 2.0, np.array([4, 4, 16, 16, 16])
    vertex: dict[tuple[int, ...], int] = {}
    of_pixel = []
    for row, column in itertools.product(range(8), range(9)):
        colour = YUV @ image[row, column] + (0, 128, 128)
        place = tuple(int(value) for value in np.array([row, column, *colour]) / cells)
        of_pixel.append(vertex.setdefault(place, len(vertex)))
    blur = np.zeros((len(vertex),) * 2)
    for (one, i), (other, j) in itertools.product(vertex.items(), repeat=2):
        apart = np.abs(np.subtract(one, other)).sum()
        blur[i, j] = 10 if apart == 0 else float(apart == 1)
    splat = np.eye(len(vertex))[of_pixel].T
    pixels, weight = splat.sum(axis=1), np.ones(len(vertex))
    for _ in range(BISTOCHASTIC_ROUNDS):
        weight = np.sqrt(weight * pixels / (blur @ weight))
    smoothness = np.diag(weight * (blur @ weight)) - weight[:, None] * blur * weight
    solved = np.linalg.solve(smooth * smoothness + np.diag(confidence * pixels), confidence * splat @ target.ravel())
    found = bilateral_solver(image, target, confidence, smooth, space=4, luma=16, chroma=16)
    assert np.allclose(found.ravel(), solved[of_pixel], atol=1e-4)
