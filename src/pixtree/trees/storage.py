"""Trees in files: npz of plain arrays, no pickle."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.files import replacing
from pixtree.kernels.tree import MergeRule
from pixtree.trees.structure import TreeStructure
from pixtree.trees.validation import DTYPES, fault_of_tree

FORMAT_VERSION = 1
LONGEST_REASON = 120  # characters of a reader's complaint, which may quote a whole header
_STORED = tuple(DTYPES)
_READ = ("version", "shape", "rule", "mask", "coordinates", *_STORED)


def write_tree(tree: TreeStructure, path: str | os.PathLike[str]) -> None:
    """Write a tree; the file appears whole or not at all."""
    target = Path(path)
    if target.suffix.lower() != ".npz":
        raise ValueError(f"a tree is saved as .npz, got {target.name!r}; name it {target.stem}.npz")
    arrays = {name: getattr(tree, name).cpu().numpy() for name in _STORED}
    if tree.mask is not None:
        arrays["mask"] = tree.mask.cpu().numpy()
    rule, coordinates = np.array(tree.rule, dtype=np.float64), np.array(tree.coordinates)
    with replacing(target) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, version=FORMAT_VERSION, shape=np.array(tree.shape), rule=rule, coordinates=coordinates, **arrays)


def read_fields(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of a tree that `write_tree` wrote, by name; a damaged tree is refused before any kernel sees it."""
    data = _read_arrays(path)
    version = data.get("version", np.array(-1))
    if version.shape != () or version.dtype.kind not in "iu" or int(version) != FORMAT_VERSION:
        got = version.tolist() if version.shape == () and version.dtype.kind in "iuf" else f"{version.dtype} {version.shape}"
        raise ValueError(
            f"expected a tree of format version {FORMAT_VERSION}, got {got if 'version' in data else 'none'} in {str(path)!r}; "
            "save it again with this pixtree"
        )
    missing = [name for name in ("shape", "rule", *_STORED) if name not in data]
    fault = f"expected a whole tree, got one without {', '.join(missing)}" if missing else fault_of_tree(data)
    if fault is not None:
        raise ValueError(f"{fault} in {str(path)!r}; the file is damaged, save the tree again with tree.save")
    return {
        "shape": (int(data["shape"][0]), int(data["shape"][1])),
        "mask": torch.from_numpy(data["mask"]) if "mask" in data else None,
        "rule": MergeRule.from_numbers(data["rule"].tolist()),
        "coordinates": tuple(data["coordinates"].tolist()) if "coordinates" in data else (0, 0),  # version 0.1 did not say
        **{name: torch.from_numpy(data[name]) for name in _STORED},
    }


def _read_arrays(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """The arrays of an npz, in C order."""
    if not Path(path).exists():
        raise FileNotFoundError(f"expected a tree saved as .npz, found no file {str(path)!r}; check the path")
    if not Path(path).is_file():  # reading a pipe would wait for ever
        raise ValueError(f"expected a tree saved as .npz, got {str(path)!r}, which is no regular file; give the file's path")
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: np.asarray(stored[name], order="C") for name in _READ if name in stored.files}
    except Exception as error:  # the readers of zip files and of array headers raise whatever the damage leads them to
        reason = " ".join(str(error).split())[:LONGEST_REASON] or type(error).__name__
        raise ValueError(f"expected a tree saved as .npz, got {str(path)!r} ({reason}); save it again with tree.save") from None
