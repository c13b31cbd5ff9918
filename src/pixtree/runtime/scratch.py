"""Scratch memory that a thread reuses: fresh pages cost more than most of the arithmetic done in them."""

import threading
from typing import Any

import numpy as np

LARGEST_KEPT = 2**26  # words: 256 MB, about two megapixels

_kept = threading.local()


def scratch(name: str, words: int) -> Any:
    """This thread's uint32 array called `name`, of at least `words`; it still holds the values of the last caller.

    Kernels that never run inside one another share a name, and so the memory.
    """
    if words > LARGEST_KEPT:  # a server must not keep its largest picture's memory for ever
        return np.empty(words, np.uint32)
    slab = getattr(_kept, name, None)
    if slab is None or slab.size < words:
        slab = np.empty(words, np.uint32)
        setattr(_kept, name, slab)
    return slab
