"""Sides: which of the two sides of a cut is the object.

Border and centre are priors about photographs, not evidence of the model: objects are rarely at the border. The other three ask the
model's cut, its class token, or its answer.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pixtree.tasks.token_graph import TokenGraph

Values = NDArray[np.float64]
Certainty = Callable[[NDArray[np.bool_]], float]  # of the model, if it sees the pixels (H, W) of a mask only

RULES = ("border", "centre", "largest", "attention", "occlusion")
CENTRE_WIDTH = 0.25  # standard deviation of the centre prior, in heights and widths


def checked_rule(rule: str) -> str:
    """A rule by its name."""
    if rule not in RULES:
        raise ValueError(f"a rule for the object's side is one of {', '.join(RULES)}, got {rule!r}; choose one of these")
    return rule


def object_side(graph: TokenGraph, vector: Values, rule: str, certainty: Certainty) -> NDArray[np.bool_]:
    """The tokens (N,) of the object; `vector` (N,) is positive on one side of a cut, as `cut_vector` gives it.

    border: the side that holds less of the picture's border. centre: the one that is nearer to its centre on average. largest:
    that of the largest entry of the vector, TokenCut's own rule. attention: the one that the class token looks at more, per pixel.
    occlusion: the one that the model needs more, the paper's rule; `certainty` says how sure the model is of its answer if
    it sees that part of the picture only.
    """
    first = vector > 0
    if not first.any() or first.all():
        return np.zeros_like(first)
    if rule == "largest":  # the vector's largest entry is positive
        return first
    if rule == "occlusion":
        return first if certainty(first[graph.labels]) >= certainty(~first[graph.labels]) else ~first
    if rule == "border":
        held = _at_border(graph)
        return first if held[first].sum() <= held[~first].sum() else ~first
    value = graph.attention if rule == "attention" else _centrality(graph)
    ours, theirs = (np.average(value[side], weights=graph.size[side]) for side in (first, ~first))
    return first if ours >= theirs else ~first


def _at_border(graph: TokenGraph) -> Values:
    """The pixels of each token at the picture's border, (N,)."""
    labels = graph.labels
    ring = np.concatenate((labels[0], labels[-1], labels[1:-1, 0], labels[1:-1, -1]))
    return np.bincount(ring[ring >= 0], minlength=len(graph.size)).astype(np.float64)


def _centrality(graph: TokenGraph) -> Values:
    """The mean of a Gaussian around the picture's centre over the pixels of each token, (N,)."""
    rows, columns = (((np.arange(side) + 0.5) / side - 0.5) / CENTRE_WIDTH for side in graph.labels.shape)
    prior = np.exp(-(rows[:, None] ** 2 + columns**2) / 2)
    inside = graph.labels >= 0
    labels = graph.labels[inside]
    pixels = np.maximum(np.bincount(labels, minlength=len(graph.size)), 1)
    means: Values = np.bincount(labels, prior[inside], len(graph.size)) / pixels
    return means
