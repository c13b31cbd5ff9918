"""Trees in files: npz of plain arrays, no pickle."""

import os
import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch

from pixtree.files import replacing
from pixtree.kernels.types import MergeRule
from pixtree.trees.structure import TreeStructure

FORMAT_VERSION = 1
_STORED = ("features", "parent", "left", "right", "level", "altitude", "gain", "pick")


def write_tree(tree: TreeStructure, path: str | os.PathLike[str]) -> None:
    """Write a tree; the file appears whole or not at all."""
    target = Path(path)
    if target.suffix.lower() != ".npz":
        raise ValueError(f"a tree is saved as .npz, got {target.name!r}; name it {target.stem}.npz")
    arrays = {name: getattr(tree, name).cpu().numpy() for name in _STORED}
    if tree.mask is not None:
        arrays["mask"] = tree.mask.cpu().numpy()
    rule = np.array(tree.rule, dtype=np.float64)
    with replacing(target) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, version=FORMAT_VERSION, shape=np.array(tree.shape), rule=rule, **arrays)


def read_fields(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of a tree that `write_tree` wrote, by name."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            data = {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        raise FileNotFoundError(f"expected a tree saved as .npz, found no file {str(path)!r}; check the path") from None
    except (ValueError, TypeError, AttributeError, EOFError, OSError, BadZipFile, zlib.error) as error:
        raise ValueError(f"expected a tree saved as .npz, got {str(path)!r} ({error}); save it again with tree.save") from None
    if int(data.get("version", -1)) != FORMAT_VERSION:
        raise ValueError(
            f"expected a tree of format version {FORMAT_VERSION}, got {data.get('version', 'none')} in {str(path)!r}; "
            "save it again with this pixtree"
        )
    missing = [name for name in ("shape", "rule", *_STORED) if name not in data]
    if missing:
        raise ValueError(f"expected a whole tree, got {str(path)!r} without {', '.join(missing)}; save it again with tree.save")
    return {
        "shape": (int(data["shape"][0]), int(data["shape"][1])),
        "mask": torch.from_numpy(data["mask"]) if "mask" in data else None,
        "rule": MergeRule.from_numbers(data["rule"].tolist()),
        **{name: torch.from_numpy(data[name]) for name in _STORED},
    }
