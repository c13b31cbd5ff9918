"""The rule of flat zones that users rely on, checked on labels."""

import numpy as np
import torch

from pixtree.kernels import kernels_for


def planes_of(image):
    """The planes of a tree, (C, H·W), and the mask of the whole image."""
    tensor = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)
    return kernels_for().lab(tensor), torch.ones(image.shape[:2], dtype=torch.bool)


def solid_zones(image):
    """The first pixel of the solid zone that a pixel is in, −1 where in none, (H, W); fails where the image has no zones."""
    zones = kernels_for().flat_zones(*planes_of(image))
    assert zones is not None, "large zones cover too little of the image"
    return torch.where(zones.solid, zones.root, -1).view(image.shape[:2]).numpy()


def cuts_a_zone(labels, zone):
    """Whether a boundary runs inside a solid zone."""
    right = (zone[:, 1:] == zone[:, :-1]) & (zone[:, 1:] >= 0) & (labels[:, 1:] != labels[:, :-1])
    down = (zone[1:] == zone[:-1]) & (zone[1:] >= 0) & (labels[1:] != labels[:-1])
    return bool(right.any() or down.any())


def joins_zones(labels, zone):
    """Whether a region has pixels of two solid zones, so that a boundary between them is unused."""
    pairs = np.unique(np.stack((labels[zone >= 0], zone[zone >= 0])), axis=1)
    return np.unique(pairs[0]).size < pairs.shape[1]


def keeps_the_rule(labels, zone):
    """No boundary inside a solid zone while one between two solid zones is unused."""
    return not (cuts_a_zone(labels, zone) and joins_zones(labels, zone))
