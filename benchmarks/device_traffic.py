"""Count what the Triton kernels of a cut load, store and update atomically: `python benchmarks/device_traffic.py`.

In Triton's interpreter, per pixel of a photo: bytes of 32-byte sectors that each launch touches, once ("perfect cache") and per
access of a warp ("no cache"), atomic updates, and the bytes that operators of torch between the kernels read and write. Prints one
line of JSON.
"""

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
import triton
import triton.language as tl
from skimage import data
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves
from triton.runtime import interpreter

from pixtree.kernels import Kernels, kernels_for
from pixtree.kernels.image.colour.definition import light_table_on
from pixtree.kernels.tree import MergeRule
from pixtree.kernels.tree.build.triton import picking

SECTOR, WARP = 32, 32
COUNTED = ("launches", "once", "always", "atomics")
VIEWS = {
    "view",
    "_unsafe_view",
    "slice",
    "select",
    "expand",
    "unsqueeze",
    "squeeze",
    "detach",
    "alias",
    "t",
    "transpose",
    "permute",
}
VIEWS |= {"empty", "empty_like", "new_empty", "as_strided", "unbind", "split", "_assert_async"}


class Counts:
    """What has been touched, by kernel."""

    def __init__(self) -> None:
        self.kernels: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(COUNTED, 0.0))
        self.torch_bytes = 0
        self.now, self.touched = "", set[int]()

    def note(self, pointers: Any, mask: Any, atomic: bool) -> None:
        """Count one access of all lanes of a program."""
        at = np.asarray(pointers.data).ravel()
        shape = pointers.data.shape
        on = np.ones(at.size, bool) if mask is None else np.broadcast_to(np.asarray(mask.data).astype(bool), shape).ravel()
        row = self.kernels[self.now]
        sectors = at // SECTOR
        self.touched.update(np.unique(sectors[on]).tolist())
        for start in range(0, at.size, WARP):
            part = sectors[start : start + WARP][on[start : start + WARP]]
            row["always"] += SECTOR * len(np.unique(part))
        if atomic:
            row["atomics"] += int(on.sum())

    def launched(self, name: str, run: Callable[[], Any]) -> None:
        """Run one launch, and count what it touches once."""
        self.now, self.touched = name, set()
        run()
        self.kernels[name]["once"] += SECTOR * len(self.touched)
        self.kernels[name]["launches"] += 1


class TorchTraffic(TorchDispatchMode):
    """Bytes that operators of torch read and write."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func._schema.name.partition("::")[2] not in VIEWS:
            tensors = [one for one in tree_leaves((args, kwargs, result)) if isinstance(one, torch.Tensor)]
            self.counts.torch_bytes += sum(one.numel() * one.element_size() for one in tensors)
        return result


def watch(counts: Counts) -> None:
    """Let the interpreter count."""
    builder, run = interpreter.InterpreterBuilder, interpreter.GridExecutor.__call__
    load, store, update = builder.create_masked_load, builder.create_masked_store, builder.create_atomic_rmw

    def counted_load(self, ptrs, mask, *rest):
        counts.note(ptrs, mask, False)
        return load(self, ptrs, mask, *rest)

    def counted_store(self, ptrs, value, mask, *rest):
        counts.note(ptrs, mask, False)
        return store(self, ptrs, value, mask, *rest)

    def counted_update(self, operation, ptrs, value, mask, *rest):
        counts.note(ptrs, mask, True)
        return update(self, operation, ptrs, value, mask, *rest)

    def launched(self, *arguments, **named):
        with _disable_current_modes():
            counts.launched(self.fn.__name__, lambda: run(self, *arguments, **named))

    builder.create_masked_load, builder.create_masked_store, builder.create_atomic_rmw = counted_load, counted_store, counted_update
    interpreter.GridExecutor.__call__ = launched


def traffic(side: int, tokens: int, levels: bool) -> dict[str, Any]:
    """Counts per pixel of the cut of a photo."""
    counts = Counts()
    light_table_on(torch.device("cpu"))  # which is made once per process
    watch(counts)
    photo = torch.from_numpy(data.astronaut()[100 : 100 + side, 180 : 180 + side].copy()).permute(2, 0, 1)[None]
    nothing = torch.empty((1, 0, side * side))
    with TorchTraffic(counts):
        kernels_for("triton").cut_batch(photo, nothing, 1.0, tokens, True, 1.0, MergeRule(), levels)
    pixels, rows = side * side, {}
    for name, one in counts.kernels.items():
        rows[name] = {key: value / (1 if key == "launches" else pixels) for key, value in one.items()}
    total = {key: sum(one[key] for one in rows.values()) for key in COUNTED}
    return {"side": side, **total, "torch": counts.torch_bytes / pixels, "kernels": rows}


@triton.jit
def key_without_ties(cost, first, second):
    """A mutant of `order_key`, without the hash that settles ties."""
    return (cost + 0.0).to(tl.int32, bitcast=True).to(tl.int64) << 32


def equal_ties(dropped: bool) -> bool:
    """Whether a picture with many ties is cut as defined; with the mutant it must not be."""
    if dropped:
        picking.order_key = key_without_ties
    picture = torch.randint(0, 2, (1, 3, 9, 9), generator=torch.Generator().manual_seed(0), dtype=torch.uint8) * 90
    arguments = (picture, torch.empty((1, 0, 81)), 1.0, 9, True, 0.0, MergeRule(), False)
    found, expected = kernels_for("triton").cut_batch(*arguments), Kernels.cut_batch(kernels_for("torch"), *arguments)
    return torch.equal(found.labels, expected.labels)


def main() -> int:
    """Print the counts, or whether ties are settled as defined."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--levels", action="store_true", help="Keep what gradients need.")
    parser.add_argument("--ties", choices=("kept", "dropped"), help="Compare a picture with ties instead, by a mutant if dropped.")
    given = parser.parse_args()
    if given.ties:
        print(json.dumps({"equal": equal_ties(given.ties == "dropped")}))
        return 0
    print(json.dumps(traffic(given.side, given.side**2 // 256, given.levels)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
