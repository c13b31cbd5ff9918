"""The weights of the evidence in `pixtree.select`: `python benchmarks/click_weights.py --data $PIXTREE_DATA`.

Logistic regression on the regions of pictures at odd places of the sorted lists, those that are not reported, after each of ten
simulated clicks of the present weights; it prints the weights for selections without and with marks outside. The weights in use are
from the second round of such a fit, on every second picture of ECSSD and all pets.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from clicks import DATASETS, Mask, overlaps, pictures
from numpy.typing import NDArray
from scipy.optimize import minimize

import pixtree
from pixtree.tasks.scene import Weights, features, scene_of

PENALTY = 1e-4
Rows = list[tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]]


def collected(image: NDArray[np.uint8], wanted: Mask, seen: dict[bool, Rows]) -> None:
    """Add evidence, truth and share of the picture of every region without a mark, after each click."""
    tree = pixtree.hierarchy(image)
    scene = scene_of(tree)
    truth = 2 * scene.graph.counts(wanted) > scene.graph.size

    def method(inside: Mask, outside: Mask) -> Mask:
        counts = [scene.graph.counts(mask) for mask in (inside, outside)]
        marked = [counts[0] > 0, (counts[1] > 0) & (counts[0] == 0)]
        free = ~(marked[0] | marked[1])
        found = features(scene, *(np.flatnonzero(one) for one in marked))
        seen[bool(marked[1].any())].append((found[free], truth[free], scene.graph.size[free] / scene.graph.size.sum()))
        return pixtree.select(tree, inside, outside)

    overlaps(method, wanted)


def fitted(rows: Rows) -> Weights:
    """Weights of least mean logistic loss, each region by its size."""
    found, truth, share = (np.concatenate(column) for column in zip(*rows, strict=True))
    sign, share = np.where(truth, 1.0, -1.0), share / share.sum()

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margin = sign * (found @ weights)
        slope = -share * sign / (1 + np.exp(np.minimum(margin, 500)))
        value = float(share @ np.logaddexp(0, -margin)) + PENALTY * float(weights @ weights)
        return value, found.T @ slope + 2 * PENALTY * weights

    solved = minimize(loss, np.zeros(found.shape[1]), jac=True, method="L-BFGS-B")
    return Weights(*(round(float(weight), 2) for weight in solved.x))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--every", type=int, default=1, help="take every so manieth picture only")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    seen: dict[bool, Rows] = {False: [], True: []}
    for dataset in DATASETS:
        for _, image, wanted in list(pictures(asked.data, dataset, odd=True))[:: asked.every]:
            collected(image, wanted, seen)
    for outside, rows in seen.items():
        print("with" if outside else "without", "marks outside:", fitted(rows))


if __name__ == "__main__":
    main()
