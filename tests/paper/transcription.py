"""The method in numpy, transcribed from the paper alone: `alg:merge`, the criterion, and `alg:features`. In float64, and slow.

It shares no code with pixtree. Where the paper leaves a choice open, docs/paper.md has ours, and it is taken here: a floor under
variances, AICC with the pixels of the image, the per-pixel rule of the authors' release, sampling at the centres of cells.
"""

from typing import NamedTuple

import numpy as np


class Level(NamedTuple):
    """The regions of one level: `region` (P,) of every pixel, and their features, means and sizes."""

    region: np.ndarray
    features: np.ndarray
    means: np.ndarray
    sizes: np.ndarray


def grid_edges(height, width):
    """E: horizontally and vertically adjacent pixels, (E, 2)."""
    number = np.arange(height * width).reshape(height, width)
    pairs = (number[:, :-1], number[:, 1:]), (number[:-1], number[1:])
    return np.concatenate([np.stack((a.ravel(), b.ravel()), axis=1) for a, b in pairs])


def gaussian(a, b, sigma=1.0):
    """κ of rows."""
    return np.exp(-((a - b) ** 2).sum(-1) / (2 * sigma**2))


def components(count, pairs):
    """ConnectedComponents: numbers (count,) by first member."""
    root = list(range(count))

    def find(i):
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    for a, b in pairs:
        first, second = find(a), find(b)
        root[max(first, second)] = min(first, second)
    _, numbers = np.unique([find(i) for i in range(count)], return_inverse=True)
    return numbers


def merge(level, edges, kernel, picks="weighted"):
    """One iteration of `alg:merge`: E_max, its components, and the weighted features of the next level.

    picks: whether κ sees the weighted features when it picks, as the algorithm says, or plain means [`eq:aggr`].
    """
    count = len(level.sizes)
    pairs = np.unique(np.sort(level.region[edges], axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    seen = level.means if picks == "means" else level.features
    near = ((seen[pairs[:, 0]] - seen[pairs[:, 1]]) ** 2).sum(1)  # the order of κ, without underflow
    best, most = np.full(count, -1), np.full(count, np.inf)
    for (a, b), distance in zip(pairs, near, strict=True):
        for one, other in ((a, b), (b, a)):
            if distance < most[one]:
                best[one], most[one] = other, distance
    group = components(count, enumerate(best))
    sizes = np.bincount(group, level.sizes)
    weight = level.sizes / sizes[group] * kernel(level.features, level.features[best])
    features, means = np.zeros((len(sizes), level.features.shape[1])), np.zeros((len(sizes), level.features.shape[1]))
    np.add.at(features, group, weight[:, None] * level.features)
    np.add.at(means, group, (level.sizes / sizes[group])[:, None] * level.means)
    return Level(group[level.region], features, means, sizes)


def hierarchy(pixels, height, width, kernel=gaussian, picks="weighted"):
    """All levels, from single pixels (P, d) to one region."""
    count = height * width
    levels, edges = [Level(np.arange(count), pixels, pixels, np.ones(count))], grid_edges(height, width)
    while len(levels[-1].sizes) > 1:
        levels.append(merge(levels[-1], edges, kernel, picks))
    return levels


def criterion(level, pixels, edges, penalty, floor):
    """IC(S) = −2 log L(S) + γ g(df_S), AICC, with df_S = |E| / Vol(S), per region of a level."""
    count, total = len(level.sizes), len(pixels)
    variance = np.zeros((count, pixels.shape[1]))
    np.add.at(variance, level.region, (pixels - level.means[level.region]) ** 2)
    fit = level.sizes * np.log1p(variance / level.sizes[:, None] / floor).sum(1)
    inner = level.region[edges[:, 0]][level.region[edges[:, 0]] == level.region[edges[:, 1]]]
    volume = np.bincount(inner, minlength=count)
    k = np.where(volume > 0, len(edges) / np.maximum(volume, 1), np.inf)
    room = total - k - 1
    penalised = np.full(count, np.inf)
    usable = room > 0
    penalised[usable] = 2 * k[usable] + 2 * k[usable] * (k[usable] + 1) / room[usable]
    return fit + penalty * penalised


def chosen_regions(levels, pixels, height, width, penalty, floor):
    """Every pixel takes its ancestor of least IC, the larger of equals; then regions are split into connected pieces, (P,)."""
    edges = grid_edges(height, width)
    best, region = np.full(len(pixels), np.inf), np.zeros((len(pixels), 2), np.int64)
    for number, level in enumerate(levels):
        score = criterion(level, pixels, edges, penalty, floor)[level.region]
        better = score <= best
        best = np.where(better, score, best)
        region = np.where(better[:, None], np.stack((np.full(len(pixels), number), level.region), axis=1), region)
    same = (region[edges[:, 0]] == region[edges[:, 1]]).all(1)
    return components(len(pixels), edges[same])


def box_samples(labels, q):
    """Per region the taps of its box: rows and columns of two neighbours per sample with their weights, [(y, wy, x, wx)]."""
    height, width = labels.shape
    for region in range(labels.max() + 1):
        inside = np.argwhere(labels == region)
        taps = []
        for low, high, size in zip(inside.min(0), inside.max(0) + 1, (height, width), strict=True):
            place = np.clip(low + (np.arange(q) + 0.5) * (high - low) / q - 0.5, 0, size - 1)
            below = np.minimum(np.floor(place).astype(int), max(size - 2, 0))
            above = np.minimum(below + 1, size - 1)
            share = place - below
            taps.append((np.stack((below, above)), np.stack((1 - share, share))))
        yield taps


def extract(image, features, labels, projection, bias, q, background, mix):
    """F of `alg:features`, (N, C, q, q): means injected, boxes sampled bilinearly, the background mixed with β."""
    channels, flat = len(image), labels.ravel()
    sizes = np.bincount(flat)
    means = np.stack([np.bincount(flat, plane.ravel()) / sizes for plane in image], axis=1)
    injected = image + (features @ projection.T + bias - means)[labels].transpose(2, 0, 1)
    found = np.zeros((len(sizes), channels, q, q))
    for region, ((rows, down), (columns, across)) in enumerate(box_samples(labels, q)):
        sample, mask = np.zeros((channels, q, q)), np.zeros((q, q))
        for i in range(2):
            for j in range(2):
                weight = down[i][:, None] * across[j]
                taps = np.ix_(rows[i], columns[j])
                sample += weight * injected[:, taps[0], taps[1]]
                mask += weight * (labels[taps] == region)
        mixed = mix * sample + (1 - mix) * background
        found[region] = mask * sample + (1 - mask) * mixed
    return found


def positions(labels, p, bandwidth):
    """P of `alg:features`, (N, p·p): a joint histogram with a Gaussian of `bandwidth` bins, cut at 3σ, that sums to 1."""
    axes = []
    for size in labels.shape:
        centre = (np.arange(size) + 0.5) * p / size
        distance = centre[:, None] - (np.arange(p) + 0.5)
        near = np.abs(np.arange(size)[:, None] * p // size - np.arange(p)) <= max(1, np.ceil(3 * bandwidth))
        weight = np.where(near, np.exp(-((distance / bandwidth) ** 2) / 2), 0)
        axes.append(weight / weight.sum(1, keepdims=True))
    joint = axes[0][:, None, :, None] * axes[1][None, :, None, :]
    count = labels.max() + 1
    found = np.zeros((count, p, p))
    np.add.at(found, labels.ravel(), joint.reshape(-1, p, p))
    return found.reshape(count, -1) / np.bincount(labels.ravel())[:, None]
