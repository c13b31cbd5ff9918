"""Words of scikit-image: each unknown option is answered by the one of ours that does its work."""

from collections.abc import Iterable
from typing import NoReturn

CONNECTED = "leave it out: every region is connected, and there are exactly as many as you ask for"
ANSWERS = {
    "n_segments": "scikit-image's n_segments is tokens= here",
    "num_segments": "the number of regions is tokens= here",
    "scale": "the number of regions is tokens=, or chosen by criterion=",
    "markers": "the number of regions is tokens= here, and no seeds are needed",
    "sigma": "nothing is blurred before; floor= is the variance that counts as flat, or blur the image first",
    "ratio": "compactness= is the weight of pixel coordinates, about 0.1",
    "kernel_size": "the number of regions is tokens=, or chosen by criterion=",
    "max_dist": "the number of regions is tokens=, or chosen by criterion=",
    "spacing": "leave it out: pixels are square",
    "convert2lab": "leave it out: colours are always compared in Lab",
    "enforce_connectivity": CONNECTED,
    "min_size_factor": CONNECTED,
    "max_size_factor": CONNECTED,
    "min_size": CONNECTED,
    "slic_zero": "compactness= is the weight of pixel coordinates, about 0.1",
    "max_num_iter": "leave it out: nothing is iterated",
    "max_iter": "leave it out: nothing is iterated",
    "connectivity": "leave it out: regions are 4-connected",
    "multichannel": "scikit-image's multichannel is channel_axis= here, and the last axis need not be named",
    "rng": "leave it out: nothing is random",
}


def refuse(function: str, words: Iterable[str]) -> NoReturn:
    """Raise the TypeError that Python raises for an unknown option, with the answer where there is one."""
    name = next(iter(words))
    answer = ANSWERS.get(name, f"help(pixtree.{function}) lists its options")
    raise TypeError(f"{function} has no option {name}=; {answer}")
