"""The paper's way to SVG: partitions as layers, one over the other, each region traced by the potrace program. [`tab:imagetrace`]

Potrace is free software under the GPL: it runs as a separate program where it is installed and is not part of pixtree.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.runtime.threads import each
from pixtree.trees.partition import Partition
from pixtree.vector.svg import SvgText, hexadecimal, root_element

MARGIN = 1  # pixels around a region that potrace is given
PROGRAM = "potrace"


class TracedLayers(SvgText):
    """An SVG text of separately traced regions."""


def check_program() -> None:
    """Raise an error unless potrace is installed."""
    if shutil.which(PROGRAM) is None:
        raise ValueError("style='paper' runs the potrace program, which is not on the PATH; install potrace or take style='smooth'")


def traced_layers(planes: Tensor, partitions: Sequence[Partition]) -> TracedLayers:
    """Every region of every partition of an image (3, H, W) float32 in 0…255 as one path; the first partition lies lowest."""
    check_program()
    height, width = int(planes.shape[1]), int(planes.shape[2])
    layers = [_layer(partition, planes) for partition in partitions]
    body = "".join(f"<g>{''.join(layer)}</g>" for layer in layers)
    text = f"{root_element((width, height), 1, body)}{body}</svg>"
    return TracedLayers(text, sum(len(layer) for layer in layers), (width, height))


def _layer(partition: Partition, planes: Tensor) -> list[str]:
    """The path elements of a partition, largest region first, each in its mean colour."""
    labels = partition.labels[0].to(torch.int64)
    areas = partition.areas()
    total = torch.stack([torch.bincount(labels.flatten(), plane.flatten().to(torch.float64)) for plane in planes], dim=1)
    fills = (total / areas[:, None]).round().to(torch.uint8).numpy()
    boxes, array = partition.boxes().tolist(), labels.numpy()
    order = torch.argsort(areas, descending=True, stable=True).tolist()
    return each(lambda region: _path(array, region, boxes[region], fills[region]), order)


def _path(labels: NDArray[np.int64], region: int, box: list[int], fill: NDArray[np.uint8]) -> str:
    """One region as potrace draws it, moved to its place."""
    top, left, bottom, right = box
    inside = np.pad(labels[top:bottom, left:right] == region, MARGIN)
    height, width = inside.shape
    bitmap = b"P4\n%d %d\n" % (width, height) + np.packbits(inside, axis=1).tobytes()
    command = [PROGRAM, "--svg", "--turdsize", "0", "--output", "-", "-"]
    traced = subprocess.run(command, input=bitmap, capture_output=True, check=False)
    if traced.returncode != 0:
        raise OSError(f"potrace must trace every region, but failed ({traced.stderr.decode(errors='replace').strip()}); check it")
    data = " ".join(re.findall(r'\bd="([MmLlHhVvCcSsZz0-9 .,\-+\n]*)"', traced.stdout.decode()))
    place = f"translate({left - MARGIN},{top - MARGIN + height}) scale(.1,-.1)"
    return f'<path fill="{hexadecimal(fill)}" transform="{place}" d="{" ".join(data.split())}"/>'
