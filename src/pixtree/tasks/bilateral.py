"""The bilateral solver [Barron & Poole 2016], by which TokenCut's masks are usually refined.

OpenCV's wheels have it without its solver, so it is written here from the paper's equations.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

ROUNDS = 10  # of making the blur bistochastic
YUV = np.array([[0.299, 0.587, 0.114], [-0.147, -0.289, 0.436], [0.615, -0.515, -0.100]])  # of RGB, before U and V are centred


def bilateral_solver(
    image: NDArray[np.uint8],
    target: NDArray[np.float64],
    confidence: float = 0.999,
    smooth: float = 128.0,
    space: float = 16.0,
    luma: float = 16.0,
    chroma: float = 8.0,
) -> NDArray[np.float64]:
    """Values (H, W) near the target (H, W) in 0..1 that are smooth where the image (H, W, 3) is.

    smooth: weight of smoothness against the target. space, luma, chroma: cells of the grid in pixels and in grey values.
    """
    from scipy.sparse import diags
    from scipy.sparse.linalg import cg

    splat, blur = _grid(image, space, luma, chroma)
    weight, mass = _bistochastic(blur, np.asarray(splat.sum(axis=1)).ravel())
    sure = splat @ np.full(target.size, confidence)
    laplacian = diags(mass) - diags(weight) @ blur @ diags(weight)
    system = smooth * laplacian + diags(np.maximum(sure, 1e-9))
    wanted = splat @ (confidence * target.ravel())
    solved, _ = cg(system, wanted, x0=wanted / np.maximum(sure, 1e-9), M=diags(1 / system.diagonal()), maxiter=25, rtol=1e-5)
    values: NDArray[np.float64] = (splat.T @ solved).reshape(target.shape)
    return values


def _grid(image: NDArray[np.uint8], space: float, luma: float, chroma: float) -> tuple[Any, Any]:
    """Which vertex of the bilateral grid each pixel falls into, (V, P), and the blur between vertices, (V, V); both sparse."""
    from scipy.sparse import coo_matrix, csr_matrix, diags

    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]]
    colour = image @ YUV.T + (0, 128, 128)
    axes = [rows / space, columns / space, colour[..., 0] / luma, colour[..., 1] / chroma, colour[..., 2] / chroma]
    places = np.stack([axis.astype(np.int64).ravel() for axis in axes], axis=1)
    step = np.cumprod([1, *(places.max(axis=0)[:-1] + 3)])  # room for a neighbour on either side
    vertices, of_pixel = np.unique(places @ step, return_inverse=True)
    count = len(vertices)
    splat = csr_matrix((np.ones(of_pixel.size), (of_pixel, np.arange(of_pixel.size))), shape=(count, of_pixel.size))
    blur = 2.0 * len(step) * diags(np.ones(count))
    for one in step:
        next_place = np.searchsorted(vertices, vertices + one)
        near = np.flatnonzero(vertices[np.minimum(next_place, count - 1)] == vertices + one)
        links = coo_matrix((np.ones(near.size), (near, next_place[near])), shape=(count, count))
        blur = blur + links + links.T
    return splat, csr_matrix(blur)


def _bistochastic(blur: Any, pixels: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights of the vertices under which the blur keeps their mass, and that mass."""
    weight = np.ones(len(pixels))
    for _ in range(ROUNDS):
        weight = np.sqrt(weight * pixels / (blur @ weight))
    return weight, weight * (blur @ weight)
