"""Files come from elsewhere: a damaged tree is refused in one sentence, and never reaches a kernel."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from pictures import noise, photo

import pixtree
from pixtree.images import bounds
from pixtree.trees.build import hierarchy_of_image
from pixtree.trees.storage import DTYPES, LARGEST_VARIANCE_RATIO

SEEDS = 200
SECONDS = 120  # for all of them: a hang is a failure
SCRIPT = Path(__file__).with_name("damage.py")


def test_two_hundred_damaged_trees_are_refused_in_one_sentence_or_are_valid(tmp_path):
    # A child process: a kernel that reads outside of its arrays ends it, and its last line names the seed.
    command = [sys.executable, str(SCRIPT), str(tmp_path), "0", str(SEEDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (lines[-1:], done.stderr[-2000:])
    assert len(lines) == SEEDS
    wrong = [line for line in lines if "): refused: expected " not in line and not line.endswith("): valid")]
    assert wrong == []
    assert sum("): refused: " in line for line in lines) > SEEDS // 2


def changed(path, **changes):
    with np.load(path) as stored:
        arrays = {name: stored[name].copy() for name in stored.files}
    for name, change in changes.items():
        arrays[name] = change(arrays[name])
    np.savez(path, **arrays)
    return path


def with_entry(index, value):
    def change(values):
        values[index] = value
        return values

    return change


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left": with_entry(3, 10**6)}, "expected children that come before their parents, got a left child out of range"),
        ({"right": with_entry(3, -5)}, "expected children that come before their parents, got a right child out of range"),
        ({"left": with_entry(0, 148)}, "expected children that come before their parents"),
        ({"left": with_entry(3, 143)}, "expected children that come before their parents"),  # node 143 itself
        ({"left": lambda a: a[:-1]}, r"expected left \(139,\) for an image with 140 pixels, got int32 \(138,\)"),
        ({"parent": lambda a: a.astype(np.int64)}, "expected parent in int32, got int64"),
        ({"parent": with_entry(-1, 5)}, "expected −1 as the parent of the root, got 5"),
        ({"parent": lambda a: np.roll(a, 1) * 0 - 1}, "expected parents and children that agree"),
        ({"gain": with_entry(7, np.nan)}, "expected gain from 0 up, got NaN or a negative number"),
        ({"gain": with_entry(7, -1)}, "expected gain from 0 up, got NaN or a negative number"),
        ({"altitude": with_entry(200, np.nan)}, "expected altitude from 0 up"),
        ({"altitude": with_entry(-1, np.inf)}, "expected infinite costs and gains at the last nodes only"),
        ({"altitude": with_entry(0, 1)}, "expected altitude 0 for all pixels"),
        ({"level": with_entry(0, 1)}, "expected level 0 for all pixels"),
        ({"level": with_entry(-1, 99)}, "expected levels that rise from 1 in steps of 1"),
        ({"features": with_entry((0, 0), np.inf)}, "expected finite features"),
        ({"features": with_entry((0, 0), 1e7)}, "expected finite features of a size that the floor allows"),
        ({"features": lambda a: a[:, :-1]}, r"expected features \(C, 140\) for an image with 140 pixels"),
        ({"shape": lambda a: a[::-1]}, "expected regions that are connected in the image"),
        ({"shape": lambda a: a * 2}, r"expected features \(C, 560\)"),
        ({"shape": lambda a: a * -1}, r"expected a height and a width from 1 up, got shape \[-10, -14\]"),
        ({"rule": with_entry(0, 9)}, "expected the five or seven numbers of a merge rule, got rule"),
        ({"rule": with_entry(3, 5)}, "expected the five or seven numbers of a merge rule"),
        ({"rule": with_entry(2, -1)}, "expected the five or seven numbers of a merge rule"),
        ({"version": lambda a: np.array([1, 1])}, "expected a tree of format version 1, got int64"),
        ({"level": lambda a: np.minimum(a, 1)}, "expected clusters that absorb members of lower levels"),
        ({"altitude": with_entry(-1, np.inf), "gain": with_entry(-1, np.inf)}, "expected finite costs in a tree without a mask"),
        (
            {"coordinates": lambda a: np.array([1, 4])},
            r"the first and the end of the planes that are coordinates, got \[1, 4\]",
        ),
        ({"coordinates": lambda a: np.array([2, 1])}, "expected the first and the end of the planes"),
        ({"coordinates": lambda a: np.array([-1, 2])}, "expected the first and the end of the planes"),
        ({"coordinates": lambda a: a * 1.0}, "expected the first and the end of the planes"),
        ({"rule": lambda a: a.astype(np.float32)}, "expected the five or seven numbers of a merge rule"),
        ({"rule": lambda a: a[:4]}, "expected the five or seven numbers of a merge rule"),
        ({"rule": with_entry(2, np.nan)}, "expected the five or seven numbers of a merge rule"),
        ({"rule": with_entry(4, 1.5)}, "expected the five or seven numbers of a merge rule"),
    ],
)
def test_damage_is_named_before_any_kernel_runs(tmp_path, monkeypatch, changes, message):
    hierarchy_of_image(photo(height=10, width=14)).save(tmp_path / "tree.npz")
    monkeypatch.setattr("pixtree.trees.structure.kernels_for", lambda *_: pytest.fail("a kernel ran"))
    with pytest.raises(ValueError, match=message):
        pixtree.Hierarchy.load(changed(tmp_path / "tree.npz", **changes))


def test_a_mask_must_have_as_many_pixels_as_the_tree(tmp_path):
    tree = hierarchy_of_image(noise(9, 8), mask=noise(9, 8, 1, seed=2)[0] > 100)
    tree.save(tmp_path / "tree.npz")
    with pytest.raises(ValueError, match=rf"features \(C, {72 - tree.leaves}\) for an image with {72 - tree.leaves} pixels"):
        pixtree.Hierarchy.load(changed(tmp_path / "tree.npz", mask=np.logical_not))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mask": lambda a: a.astype(np.uint8)}, "expected a mask of 9 × 8 bool with a pixel inside, got uint8"),
        ({"mask": lambda a: a & False}, "expected a mask of 9 × 8 bool with a pixel inside, got bool"),
        ({"mask": lambda a: a[:-1]}, r"expected a mask of 9 × 8 bool with a pixel inside, got bool \(8, 8\)"),
        ({"gain": with_entry(-1, 5.0)}, "expected infinite costs and gains at the last nodes only"),
        ({"level": lambda a: np.minimum(a, a.max() - 1)}, "expected the pieces of a mask to be joined after the last round"),
    ],
)
def test_damage_of_masks_and_of_their_pieces_is_named(tmp_path, changes, message):
    mask = np.zeros((9, 8), bool)
    mask[:5], mask[8, 7] = True, True  # an area, and a pixel that does not touch it
    hierarchy_of_image(noise(9, 8), mask=torch.from_numpy(mask)).save(tmp_path / "tree.npz")
    assert pixtree.Hierarchy.load(tmp_path / "tree.npz").pieces == 2
    with pytest.raises(ValueError, match=message):
        pixtree.Hierarchy.load(changed(tmp_path / "tree.npz", **changes))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ((-1, 0), "expected picks inside the clusters that absorb"),
        ((3, 10**6), "expected picks that come before the nodes that they make"),
        ((3, -(10**6)), "expected picks that come before the nodes that they make"),
    ],
)
def test_a_pick_must_be_a_member_of_the_cluster(tmp_path, entry, message):
    hierarchy_of_image(noise(9, 8), picks=True).save(tmp_path / "tree.npz")
    with pytest.raises(ValueError, match=message):
        pixtree.Hierarchy.load(changed(tmp_path / "tree.npz", pick=with_entry(*entry)))


def test_the_tree_of_one_pixel_comes_back(tmp_path):
    tree = hierarchy_of_image(noise(1, 1))
    tree.save(tmp_path / "tree.npz")
    assert pixtree.Hierarchy.load(tmp_path / "tree.npz").leaves == 1


def test_more_pixels_than_nodes_have_numbers_are_refused(tmp_path, monkeypatch):
    hierarchy_of_image(noise(9, 8)).save(tmp_path / "tree.npz")
    monkeypatch.setattr("pixtree.trees.storage.MOST_PIXELS", 50)
    with pytest.raises(ValueError, match="expected at most 50 pixels, got 72"):
        pixtree.Hierarchy.load(tmp_path / "tree.npz")


def test_a_pipe_is_no_tree(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(ValueError, match="which is not a regular file"):
        pixtree.Hierarchy.load(tmp_path / "pipe.npz")


def tree_file(path, side, **arrays):
    """A file that looks like the tree of side² pixels, all zeros but for `arrays`."""
    pixels = side * side
    sizes = {"parent": 2 * pixels - 1, "level": 2 * pixels - 1, "altitude": 2 * pixels - 1, "features": (3, pixels)}
    sizes |= dict.fromkeys(("left", "right", "gain", "pick"), pixels - 1)
    zeros = {name: np.zeros(size, DTYPES[name]) for name, size in sizes.items()}
    rule = np.array([0, 0, 1.0, 0, 1])
    np.savez_compressed(path, version=1, shape=np.array([side, side]), rule=rule, coordinates=np.array([0, 0]), **zeros | arrays)
    return path


@pytest.fixture
def unread(monkeypatch):
    """Arrays of more than a kilobyte must not be read."""
    from pixtree.trees import storage

    whole = storage._whole
    monkeypatch.setattr(storage, "_whole", lambda stored, name: whole(stored, name) if name in storage.SHORT else pytest.fail(name))


def test_a_tree_file_that_unpacks_to_more_than_the_limit_is_refused_before_it_is_read(tmp_path, unread, monkeypatch):
    path = tree_file(tmp_path / "bomb.npz", 200)
    monkeypatch.setattr(bounds, "MAX_BYTES", 1_000_000)
    with pytest.raises(ValueError, match=r"at most 1000000 bytes, got \d+ in .*bomb.npz'; .*--max-bytes on the command line"):
        pixtree.Hierarchy.load(path)


def test_shapes_are_checked_before_arrays_are_read(tmp_path, unread):
    path = tree_file(tmp_path / "bomb.npz", 20, features=np.zeros((3, 10**6), np.float32))
    with pytest.raises(ValueError, match=r"expected features \(C, 400\) for an image with 400 pixels, got float32 \(3, 1000000\)"):
        pixtree.Hierarchy.load(path)


def test_a_header_of_any_length_is_refused(tmp_path, unread):
    import io
    import zipfile

    path = tree_file(tmp_path / "bomb.npz", 20)
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.zeros(399, np.float32), version=(2, 0))
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "new.npz", "w") as new:
        for name in old.namelist():
            new.writestr(name, stream.getvalue() if name == "gain.npy" else old.read(name))
    with pytest.raises(ValueError, match=r"expected a tree saved as .npz, got .*gain has format \(2, 0\)"):
        pixtree.Hierarchy.load(tmp_path / "new.npz")


@pytest.mark.parametrize(("share", "valid"), [(0.99, True), (1.01, False)])
@pytest.mark.parametrize("floor", [0.5, 40.0])
def test_features_may_be_as_large_as_the_floor_of_variances_allows(tmp_path, floor, share, valid):
    tree_rule = {"rule": with_entry(2, floor), "features": with_entry((0, 5), -share * (LARGEST_VARIANCE_RATIO * floor) ** 0.5)}
    hierarchy_of_image(photo(height=10, width=14)).save(tmp_path / "tree.npz")
    path = changed(tmp_path / "tree.npz", **tree_rule)
    if valid:
        assert pixtree.Hierarchy.load(path).leaves == 140
    else:
        with pytest.raises(ValueError, match="of a size that the floor allows"):
            pixtree.Hierarchy.load(path)
