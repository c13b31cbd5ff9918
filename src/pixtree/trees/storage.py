"""Trees in files: npz of plain arrays, no pickle.

A stored tree is checked before any kernel touches it: kernels trust their indices and would read outside of the arrays. All checks
are linear in the nodes. That nodes are connected is checked for pairs of pixels only; checking it for every node would take as long
as loading the file. Sizes are checked from the headers of the arrays, before any array is read: a few kilobytes of a zip file may
unpack to gigabytes.
"""

import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.files import replacing
from pixtree.images.bounds import FileFaultError, check_bytes, is_machine_fault
from pixtree.kernels.image.planes import LARGEST_VARIANCE_RATIO
from pixtree.kernels.tree import Cost, Energy, MergeRule
from pixtree.trees.structure import TreeStructure

Array = NDArray[Any]
MOST_PIXELS = 2**30  # a tree has up to 2^31 − 1 nodes, which int32 can number
DTYPES = {
    "features": np.float32,
    "parent": np.int32,
    "left": np.int32,
    "right": np.int32,
    "level": np.int16,
    "altitude": np.float32,
    "gain": np.float32,
    "pick": np.int32,
}
FORMAT_VERSION = 1
LONGEST_REASON = 120  # characters of a reader's complaint, which may quote a whole header
_STORED = tuple(DTYPES)
SHORT = ("version", "shape", "rule", "coordinates")
MOST_SHORT = 64  # numbers in one of these
PLAIN_NUMBERS = 5  # of a rule that compares means
_READ = ("version", "shape", "rule", "mask", "coordinates", *_STORED)


def write_tree(tree: TreeStructure, path: str | os.PathLike[str]) -> None:
    """Write a tree; the file appears whole or not at all."""
    target = Path(path)
    if target.suffix.lower() != ".npz":
        raise ValueError(f"a tree is saved as .npz, got {target.name!r}; name it {target.stem}.npz")
    arrays = {name: getattr(tree, name).cpu().numpy() for name in _STORED}
    if tree.mask is not None:
        arrays["mask"] = tree.mask.cpu().numpy()
    numbers = tree.rule if tree.rule.weighted else tree.rule[:PLAIN_NUMBERS]  # so that version 0.2 reads most trees
    rule, coordinates = np.array(numbers, dtype=np.float64), np.array(tree.coordinates)
    with replacing(target) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, version=FORMAT_VERSION, shape=np.array(tree.shape), rule=rule, coordinates=coordinates, **arrays)


def read_fields(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of a tree that `write_tree` wrote, by name; a damaged tree is refused before any kernel sees it."""
    data = _read_arrays(path)
    fault = fault_of_tree(data)
    if fault is not None:
        raise _damaged(fault, path)
    return {
        "shape": (int(data["shape"][0]), int(data["shape"][1])),
        "mask": torch.from_numpy(data["mask"]) if "mask" in data else None,
        "rule": MergeRule.from_numbers(data["rule"].tolist()),
        "coordinates": tuple(data["coordinates"].tolist()) if "coordinates" in data else (0, 0),  # absent in version 0.1
        **{name: torch.from_numpy(data[name]) for name in _STORED},
    }


def _read_arrays(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """The arrays of an npz, in C order."""
    if not Path(path).exists():
        raise FileNotFoundError(f"expected a tree saved as .npz, found no file {str(path)!r}; check the path")
    if not Path(path).is_file():  # reading a pipe would wait for ever
        raise ValueError(f"expected a tree saved as .npz, got {str(path)!r}, which is not a regular file; give the path of a file")
    try:
        with zipfile.ZipFile(path) as archive:
            forms = {name: _empty_like(archive, name) for name in _READ if f"{name}.npy" in archive.namelist()}
        check_bytes(sum(array.nbytes for array in forms.values()), repr(str(path)))
        with np.load(path, allow_pickle=False) as stored:
            data = forms | {name: _whole(stored, name) for name in SHORT if name in forms and forms[name].size <= MOST_SHORT}
            _check_version(data, path)
            _check_form(data, stored, path)
            return data | {name: _whole(stored, name) for name in _STORED}
    except FileFaultError:
        raise
    except Exception as error:  # the readers of zip files and of array headers raise anything, depending on the damage
        if is_machine_fault(error):
            raise
        reason = " ".join(str(error).split())[:LONGEST_REASON] or type(error).__name__
        raise ValueError(f"expected a tree saved as .npz, got {str(path)!r} ({reason}); save it again with tree.save") from None


def _empty_like(archive: zipfile.ZipFile, name: str) -> Array:
    """Zeros of the type and shape of a stored array, by its header; they take no memory."""
    with archive.open(f"{name}.npy") as file:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):  # what numpy writes for such arrays; headers of later versions may be of any length
            raise ValueError(f"{name} has format {version}")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return np.broadcast_to(np.zeros((), dtype), shape)


def _whole(stored: Any, name: str) -> Array:
    return np.asarray(stored[name], order="C")


def _check_version(data: Mapping[str, Array], path: str | os.PathLike[str]) -> None:
    version = data.get("version", np.array(-1))
    if version.shape != () or version.dtype.kind not in "iu" or int(version) != FORMAT_VERSION:
        got = version.tolist() if version.shape == () and version.dtype.kind in "iuf" else f"{version.dtype} {version.shape}"
        raise FileFaultError(
            f"expected a tree of format version {FORMAT_VERSION}, got {got if 'version' in data else 'none'} in {str(path)!r}; "
            "save it again with this pixtree"
        )


def _check_form(data: dict[str, Array], stored: Any, path: str | os.PathLike[str]) -> None:
    """Check all types and shapes. The mask is read for it, since its pixels decide about the other shapes."""
    missing = [name for name in ("shape", "rule", *_STORED) if name not in data]
    if missing:
        raise _damaged(f"expected a whole tree, got one without {', '.join(missing)}", path)
    if "mask" in data and data["mask"].dtype == np.bool_:
        data["mask"] = _whole(stored, "mask")
    fault = next(_form(data), None)
    if fault is not None:
        raise _damaged(fault, path)


def _damaged(fault: str, path: str | os.PathLike[str]) -> FileFaultError:
    return FileFaultError(f"{fault} in {str(path)!r}; the file is damaged, save the tree again with tree.save")


def fault_of_tree(data: Mapping[str, Array]) -> str | None:
    """The first fault of the arrays of a stored tree, as "expected …, got …"; None for a valid tree."""
    # The later checks index by what the earlier ones have found to be in range, so they must not run after a fault.
    return next((fault for check in (_form, _links, _rounds, _numbers, _picks) for fault in check(data)), None)


def rule_of_numbers(numbers: Array) -> MergeRule | None:
    """The rule that five stored numbers mean, or seven of a weighted one; None if they mean none."""
    sizes = ((PLAIN_NUMBERS,), (len(MergeRule._fields),))
    if numbers.dtype != np.float64 or numbers.shape not in sizes or not np.isfinite(numbers).all():
        return None
    cost, energy, floor, quarters, rounds, *weights = numbers.tolist()
    known = cost in set(Cost) and energy in set(Energy) and quarters in range(5)
    if weights and not (weights[0] in (0, 1) and weights[1] >= 0):
        return None
    if not known or floor <= 0 or rounds < 1 or not rounds.is_integer():
        return None
    return MergeRule.from_numbers(numbers.tolist())


def _form(data: Mapping[str, Array]) -> Iterator[str]:
    """Numbers and sizes of all arrays, from the image's size and its mask."""
    shape, features = data["shape"], data["features"]
    if shape.dtype.kind not in "iu" or shape.shape != (2,) or not (shape.min() >= 1 and shape.max() <= MOST_PIXELS):
        yield f"expected a height and a width from 1 up, got shape {_short(shape)}"
    if rule_of_numbers(data["rule"]) is None:
        yield f"expected the five or seven numbers of a merge rule, got rule {_short(data['rule'])}"
    pixels = int(shape[0]) * int(shape[1])
    if "mask" in data:
        mask = data["mask"]
        if mask.dtype != np.bool_ or mask.shape != (int(shape[0]), int(shape[1])) or not mask.any():
            yield f"expected a mask of {shape[0]} × {shape[1]} bool with a pixel inside, got {_form_of(mask)}"
        pixels = int(np.count_nonzero(mask))
    if pixels > MOST_PIXELS:
        yield f"expected at most {MOST_PIXELS} pixels, got {pixels}"
    for name, dtype in DTYPES.items():
        if data[name].dtype != dtype:
            yield f"expected {name} in {np.dtype(dtype)}, got {data[name].dtype}"
    if features.ndim != 2 or features.shape[0] == 0 or features.shape[1] != pixels:
        yield f"expected features (C, {pixels}) for an image with {pixels} pixels, got {_form_of(features)}"
    if "coordinates" in data and not _is_range(data["coordinates"], features.shape[0]):
        yield f"expected the first and the end of the planes that are coordinates, got {_short(data['coordinates'])}"
    lengths = {"parent": 2 * pixels - 1, "level": 2 * pixels - 1, "altitude": 2 * pixels - 1}
    lengths |= dict.fromkeys(("left", "right", "gain"), pixels - 1)
    lengths["pick"] = pixels - 1 if data["pick"].size else 0
    for name, length in lengths.items():
        if data[name].shape != (length,):
            yield f"expected {name} ({length},) for an image with {pixels} pixels, got {_form_of(data[name])}"


def _links(data: Mapping[str, Array]) -> Iterator[str]:
    """Children come before their parents and know them: with two children each, that makes one tree."""
    parent, left, right = data["parent"], data["left"], data["right"]
    node = np.arange(left.size + 1, parent.size, dtype=np.int32)
    for name, child in (("left", left), ("right", right)):
        if child.size and not (child.min() >= 0 and (child < node).all()):
            yield f"expected children that come before their parents, got a {name} child out of range or above its parent"
    if parent[-1] != -1:
        yield f"expected −1 as the parent of the root, got {parent[-1]}"
    if not ((parent[left] == node).all() and (parent[right] == node).all() and (left != right).all()):
        yield "expected parents and children that agree, got a node whose child has another parent"


def _rounds(data: Mapping[str, Array]) -> Iterator[str]:
    """Levels rise by one from round to round; inside a round, clusters of consecutive nodes absorb members of lower levels."""
    left, right, level = data["left"], data["right"], data["level"]
    leaves = left.size + 1
    inner = level[leaves:]
    if level[:leaves].any():
        yield "expected level 0 for all pixels, got another level"
    if leaves == 1:
        return
    step = np.diff(inner)
    if inner[0] != 1 or (step < 0).any() or (step > 1).any():
        yield "expected levels that rise from 1 in steps of 1, got other levels"
    node = np.arange(leaves, level.size, dtype=np.int32)
    in_zone = _in_zone(data)
    grows = (level[left] < inner) | (left == node - 1) | in_zone[left]
    if not (((level[right] < inner) & grows) | in_zone[leaves:]).all():
        yield "expected clusters that absorb members of lower levels, got a child of its parent's level"
    is_pair = right < leaves
    is_pair &= left < leaves
    if not _touch(left[is_pair], right[is_pair], data).all():
        yield "expected regions that are connected in the image, got two pixels joined that do not touch"


def _in_zone(data: Mapping[str, Array]) -> Array:
    """Nodes (2M−1,) that join parts of a flat zone: any two of the first round, at no cost."""
    leaves = data["left"].size + 1
    found = (data["level"] == 1) & (data["altitude"] == 0)
    found[leaves:] &= data["gain"] == 0
    return found  # type: ignore[no-any-return]


def _touch(first: Array, second: Array, data: Mapping[str, Array]) -> Array:
    """Whether two pixels, given as leaves, are 4-neighbours; those of different pieces of a mask need not be."""
    width = int(data["shape"][1])
    pixel = np.flatnonzero(data["mask"]) if "mask" in data else None
    a, b = (first, second) if pixel is None else (pixel[first], pixel[second])
    low, high = np.minimum(a, b), np.maximum(a, b)
    joined_above = np.isinf(data["altitude"][data["parent"][first]])
    return (high - low == width) | ((high - low == 1) & (high % width != 0)) | joined_above  # type: ignore[no-any-return]


def _numbers(data: Mapping[str, Array]) -> Iterator[str]:
    """Finite features, costs and gains from 0 up; infinite only where the pieces of a mask are joined, after all else."""
    features, altitude, gain, level = data["features"], data["altitude"], data["gain"], data["level"]
    leaves = gain.size + 1
    largest = (LARGEST_VARIANCE_RATIO * float(data["rule"][2])) ** 0.5
    if not (features.min() >= -largest and features.max() <= largest):  # false for NaN
        yield "expected finite features of a size that the floor allows, got NaN, infinite or too large ones"
    if altitude[:leaves].any():
        yield "expected altitude 0 for all pixels, got another altitude"
    cost = altitude[leaves:]
    for name, values in (("altitude", cost), ("gain", gain)):
        if values.size and not values.min() >= 0:
            yield f"expected {name} from 0 up, got NaN or a negative number"
    is_join = np.isinf(cost)
    connected = int(is_join.size - np.count_nonzero(is_join))
    if is_join[:connected].any() or not np.array_equal(is_join, np.isinf(gain)):
        yield "expected infinite costs and gains at the last nodes only, which join the pieces of a mask, got one elsewhere"
    if is_join.any() and "mask" not in data:
        yield "expected finite costs in a tree without a mask, got an infinite one"
    if 0 < connected < is_join.size and level[leaves + connected] == level[leaves + connected - 1]:
        yield "expected the pieces of a mask to be joined after the last round, got a join inside it"


def _picks(data: Mapping[str, Array]) -> Iterator[str]:
    """A pick is the first member of the cluster, or one that the same cluster has absorbed before, or in a zone its first pixel."""
    pick, parent, left, level = data["pick"], data["parent"], data["left"], data["level"]
    if not pick.size:
        return
    leaves = left.size + 1
    node = np.arange(leaves, parent.size, dtype=np.int32)
    connected = left.size - int(np.count_nonzero(np.isinf(data["gain"])))
    picked = np.where(pick < 0, ~pick, pick)
    if not ((picked < np.where(pick < 0, leaves, node)).all() and np.array_equal(pick[connected:], left[connected:])):
        yield "expected picks that come before the nodes that they make, got a pick out of range"
        return
    top = _tops(parent, level)
    above, node, picked, in_zone = parent[picked[:connected]], node[:connected], picked[:connected], pick[:connected] < 0
    is_member = (level[picked] < level[node]) & (top[above] == top[node]) & ((above <= node) | in_zone)
    if not (is_member & (_in_zone(data)[node] | ~in_zone)).all():
        yield "expected picks inside the clusters that absorb, got a pick elsewhere"


def _tops(parent: Array, level: Array) -> Array:
    """The last node (2M−1,) of the cluster that a node belongs to."""
    node = np.arange(parent.size)
    top = np.where((parent >= 0) & (level[parent] == level), parent, node)
    while not np.array_equal(top[top], top):
        top = top[top]
    return top


def _is_range(ends: Array, most: int) -> bool:
    """Whether two whole numbers are 0 ≤ first ≤ end ≤ most."""
    return ends.dtype.kind in "iu" and ends.shape == (2,) and 0 <= int(ends[0]) <= int(ends[1]) <= most


def _form_of(array: Array) -> str:
    return f"{array.dtype} {array.shape}"


def _short(array: Array) -> str:
    return " ".join(str(array.tolist()).split()) if array.size <= 5 and array.dtype.kind in "iufb" else _form_of(array)
