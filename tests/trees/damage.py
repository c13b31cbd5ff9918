"""Stored trees, damaged: `python damage.py FOLDER FIRST LAST` damages one tree per seed and says what loading it comes to.

One line per seed: "refused: …" with the error's sentence, "valid" for a tree that is one after all, or what is wrong.
"""

import io
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from pictures import noise, photo

import pixtree
from pixtree.trees.build import hierarchy_of_image
from pixtree.trees.options import TreeOptions
from pixtree.trees.partition import Partition

Arrays = dict[str, np.ndarray]
ODD_NUMBERS = (-1, -7, 0, 1, 2, 97, 2**15 - 1, 2**31 - 1, -(2**31), 0.5, np.nan, np.inf, -np.inf, 1e30, -1e-3)


def whole_trees() -> list[pixtree.Hierarchy]:
    """A plain tree, one with picks, one of a mask of several pieces, and one pixel."""
    mask = noise(11, 13, 1, seed=5)[0] > 90
    return [
        hierarchy_of_image(photo(height=10, width=14)),
        hierarchy_of_image(photo(height=9, width=12), TreeOptions(similarity="gaussian"), picks=True),
        hierarchy_of_image(noise(11, 13), mask=mask, picks=True),
        hierarchy_of_image(noise(1, 1)),
    ]


def flip_bytes(arrays: Arrays, rng: np.random.Generator) -> None:
    """Flip bits of one array; the zip file around it is valid again."""
    name = rng.choice([name for name, values in arrays.items() if values.nbytes])
    raw = bytearray(arrays[name].tobytes())
    for _ in range(rng.integers(1, 4)):
        raw[rng.integers(len(raw))] ^= 1 << int(rng.integers(8))
    if arrays[name].dtype == np.bool_:
        raw = bytearray(byte & 1 for byte in raw)
    arrays[name] = np.frombuffer(bytes(raw), arrays[name].dtype).reshape(arrays[name].shape)


def set_odd_numbers(arrays: Arrays, rng: np.random.Generator) -> None:
    """Set a few entries of one array to numbers that do not belong there, as far as its type can hold them."""
    name = rng.choice([name for name, values in arrays.items() if values.size])
    values = arrays[name].copy()
    for _ in range(rng.integers(1, 4)):
        with np.errstate(all="ignore"):
            values.reshape(-1)[rng.integers(values.size)] = np.array(rng.choice(ODD_NUMBERS)).astype(values.dtype)
    arrays[name] = values


def set_random_numbers(arrays: Arrays, rng: np.random.Generator) -> None:
    """Fill one array with random numbers of its own range."""
    name = rng.choice([name for name, values in arrays.items() if values.size])
    values = arrays[name]
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    arrays[name] = rng.uniform(low, high + 1, values.shape).astype(values.dtype)


def swap_arrays(arrays: Arrays, rng: np.random.Generator) -> None:
    """Exchange two arrays."""
    first, second = rng.choice(list(arrays), 2, replace=False)
    arrays[first], arrays[second] = arrays[second], arrays[first]


def swap_entries(arrays: Arrays, rng: np.random.Generator) -> None:
    """Exchange two entries of one array."""
    name = rng.choice([name for name, values in arrays.items() if values.size > 1])
    values = arrays[name].copy().reshape(-1)
    i, j = rng.choice(values.size, 2, replace=False)
    values[[i, j]] = values[[j, i]]
    arrays[name] = values.reshape(arrays[name].shape)


def reform(arrays: Arrays, rng: np.random.Generator) -> None:
    """Another length, number of axes, order, byte order or type."""
    name = rng.choice(list(arrays))
    values = arrays[name]
    changes: list[Callable[[np.ndarray], np.ndarray]] = [
        lambda a: a.reshape(-1)[:-1],
        lambda a: np.concatenate((a.reshape(-1), a.reshape(-1)[:1])),
        lambda a: a[None],
        lambda a: a.T.copy(order="F"),
        lambda a: a.astype(a.dtype.newbyteorder(">")),
        lambda a: a.astype(np.float64 if a.dtype.kind != "f" else np.int64),
        lambda a: a.astype("U8"),
        lambda a: np.zeros(0, a.dtype),
    ]
    with np.errstate(all="ignore"):
        arrays[name] = changes[rng.integers(len(changes))](values)


def drop(arrays: Arrays, rng: np.random.Generator) -> None:
    """Leave one array out."""
    del arrays[rng.choice(list(arrays))]


def tie_a_knot(arrays: Arrays, rng: np.random.Generator) -> None:
    """A node that is its own ancestor, with parents that agree."""
    left, parent = arrays["left"].copy(), arrays["parent"].copy()
    if left.size:
        k = int(rng.integers(left.size))
        left[k] = min(left.size + 1 + k + int(rng.integers(3)), parent.size - 1)
        parent[left[k]] = left.size + 1 + k
    arrays["left"], arrays["parent"] = left, parent


def turn(arrays: Arrays, rng: np.random.Generator) -> None:
    """Exchange height and width, or move the mask by a pixel."""
    if "mask" in arrays and rng.random() < 0.5:
        arrays["mask"] = np.roll(arrays["mask"], 1, axis=int(rng.integers(2)))
    else:
        arrays["shape"] = arrays["shape"][::-1].copy()


IN_ARRAYS = (flip_bytes, set_odd_numbers, set_random_numbers, swap_arrays, swap_entries, reform, drop, tie_a_knot, turn)


def damage(seed: int, path: Path, trees: list[pixtree.Hierarchy]) -> str:
    """Write a tree to `path` that the seed damages; returns how."""
    rng = np.random.default_rng([21, seed])
    trees[seed % len(trees)].save(path)
    kind = int(rng.integers(len(IN_ARRAYS) + 3))
    if kind < len(IN_ARRAYS):
        with np.load(path) as stored:
            arrays = {name: stored[name] for name in stored.files}
        IN_ARRAYS[kind](arrays, rng)
        np.savez(path, **arrays)
        return IN_ARRAYS[kind].__name__
    whole = bytearray(path.read_bytes())
    if kind == len(IN_ARRAYS):
        path.write_bytes(whole[: rng.integers(len(whole))])
        return "cut the file"
    if kind == len(IN_ARRAYS) + 1:
        for _ in range(rng.integers(1, 9)):
            whole[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path.write_bytes(whole)
        return "flip bits of the file"
    damage_header(path, rng)
    return "flip bits of a header"


def damage_header(path: Path, rng: np.random.Generator) -> None:
    """Flip bits in the header of one array, inside a valid zip file."""
    with zipfile.ZipFile(path) as stored:
        files = {name: bytearray(stored.read(name)) for name in stored.namelist()}
    name = rng.choice(list(files))
    for _ in range(rng.integers(1, 4)):
        files[name][rng.integers(80)] ^= 1 << int(rng.integers(8))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as stored:
        for each, content in files.items():
            stored.writestr(each, bytes(content))
    path.write_bytes(packed.getvalue())


def verdict(path: Path) -> str:
    """What loading comes to; a tree that loads is checked and used in every way."""
    try:
        tree = pixtree.Hierarchy.load(path)
    except ValueError as error:
        message = str(error)
        is_sentence = "\n" not in message and message.startswith("expected ") and "; " in message
        return f"refused: {message}" if is_sentence else f"wrong: no sentence, {message!r}"
    return fault_of(tree, path) or "valid"


def fault_of(tree: pixtree.Hierarchy, path: Path) -> str | None:
    """Spell the tree out, node after node, and use it."""
    leaves, sets = tree.leaves, [{leaf} for leaf in range(tree.leaves)]
    for k, (a, b) in enumerate(zip(tree.left.tolist(), tree.right.tolist(), strict=True)):
        if sets[a] & sets[b] or int(tree.parent[a]) != leaves + k or int(tree.parent[b]) != leaves + k:
            return f"wrong: node {leaves + k} is no union of two others"
        sets.append(sets[a] | sets[b])
        if int(tree.level[leaves + k]) < max(int(tree.level[a]), int(tree.level[b])):
            return f"wrong: node {leaves + k} has a lower level than its children"
        if tree.pick.numel() and not sets[int(tree.pick[k])] <= sets[a]:
            return f"wrong: the pick of node {leaves + k}"
    pixel = torch.nonzero(tree.inside.flatten()).flatten()
    for node in range(2 * leaves - tree.pieces):
        alone = torch.full(tree.shape, -1)
        alone.view(-1)[pixel[sorted(sets[node])]] = 0
        if Partition.from_labels(alone).counts.tolist() != [1]:
            return f"wrong: node {node} is not connected"
    for count in {tree.pieces, (tree.pieces + leaves) // 2, leaves}:
        partition = tree.cut(tokens=count)
        if partition.counts.tolist() != [count] or Partition.from_labels(partition.labels) != partition:
            return f"wrong: {partition.counts.tolist()} regions for {count}"
    for level in range(tree.levels + 1):
        tree.at_level(level)
    tree.cut(criterion="aicc")
    used = (tree.contours(), tree.to_higra(), tree.to_linkage(), tree.mean, tree.variance, tree.box, tree.volume, tree.scale)
    tree.save(path)
    return None if used and pixtree.Hierarchy.load(path).cut(tokens=leaves) == tree.cut(tokens=leaves) else "wrong: not saved"


if __name__ == "__main__":
    target, whole = Path(sys.argv[1]) / "tree.npz", whole_trees()
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        how = damage(number, target, whole)
        print(f"{number} ({how}): ", end="", flush=True)
        print(verdict(target), flush=True)
