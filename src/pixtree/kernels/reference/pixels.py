"""Pixels: what images of other forms mean as values from 0 to 1, with the same bits in every backend."""

import torch
from torch import Tensor

from pixtree.kernels.reference.colour import BYTE_TOLERANCE


def in_bytes(image: Tensor) -> Tensor:
    """Values of an image, uint8 or float 0..1, in bytes; floats within `BYTE_TOLERANCE` of a whole byte are that byte.

    So a picture, its floats, and what normalisation and back leaves of them are decided alike.
    """
    if image.dtype == torch.uint8:
        return image
    scaled = image * 255.0
    nearest = scaled.round()
    return torch.where((scaled - nearest).abs() < BYTE_TOLERANCE, nearest, scaled)


def whole_bytes(images: Tensor) -> Tensor:
    """Floats 0..1 in which those that mean a byte are that byte over 255, to the last bit; the gradient is that of the images."""
    values = images.detach()
    found = in_bytes(values) / 255.0
    return images + (found - values) if images.requires_grad else found


def denormalised(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """std · x + mean of images (B, C, H, W), with mean and std (C,) without gradients."""
    scale, shift = (one.to(images.dtype)[:, None, None] for one in (std, mean))
    return images * scale + shift
