"""Compile the kernels that most tests call, in two processes of about equal length, so that no two workers compile the same ones.

`python tests/warm_up.py trees` or `drawings`; the machine code lands in NUMBA_CACHE_DIR.
"""

import sys

import numpy as np
import torch

import pixtree

PHOTO = np.random.default_rng(0).integers(0, 256, (48, 56, 3), dtype=np.uint8)


def trees() -> None:
    """Trees, cuts and tokens, forward and backward."""
    for similarity in (pixtree.Gaussian(), pixtree.Cosine(), pixtree.Tanimoto(), pixtree.Likelihood(), pixtree.Ward()):
        pixtree.hierarchy(PHOTO, similarity=similarity).cut(20)
    tree = pixtree.hierarchy(PHOTO)
    for cut in (
        {"tokens": 20, "relax": True},
        {"tokens": 9, "relax": "detail"},
        {"criterion": "bic"},
        {"criterion": "bic", "at_most": 9},
    ):
        tree.cut(**cut)
    tree.table(9)
    pixtree.segment(PHOTO, 20, relax=True)
    pixtree.select(tree, inside=[(20, 20)], outside=[(2, 2)])
    images = torch.rand(2, 3, 48, 48, requires_grad=True)
    for tokenizer in (pixtree.Tokenizer.paper(pixtree.Exactly(9)), pixtree.Tokenizer.pretrained(pixtree.Exactly(9))):
        tokenizer(images).features.sum().backward()


def drawings() -> None:
    """Cuts of unusual images, then drawings of every style; by then the other process has compiled the trees that they need."""
    for channels in (13, 1):
        pixtree.segment(np.random.default_rng(0).integers(0, 256, (24, 28, channels), dtype=np.uint8), 20, channel_axis=-1)
    for words in ({"artwork": True}, {"preset": "icon"}, {"style": "smooth"}, {"fast": True}, {}):
        pixtree.vectorize(PHOTO, paths=12, **words)


if __name__ == "__main__":
    {"trees": trees, "drawings": drawings}[sys.argv[1]]()
