"""What always holds for a tree."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from pictures import checkerboard, constant, noise, photo, small_images

import pixtree
from pixtree.kernels.tree.attributes.definition import depths
from pixtree.trees.build import hierarchy_of_image, hierarchy_of_planes
from pixtree.trees.hierarchy import Hierarchy
from pixtree.trees.options import SIMILARITIES, TreeOptions
from pixtree.trees.partition import Partition

SHAPES = [(1, 1), (1, 40), (40, 1), (7, 13), (2, 2)]


def members(tree: Hierarchy) -> list[set[int]]:
    """The leaves under every node, spelled out."""
    sets: list[set[int]] = [{leaf} for leaf in range(tree.leaves)]
    for a, b in zip(tree.left.tolist(), tree.right.tolist(), strict=True):
        sets.append(sets[a] | sets[b])
    return sets


def as_mask(tree: Hierarchy, leaves: set[int]) -> torch.Tensor:
    mask = torch.zeros(tree.shape, dtype=torch.int64) - 1
    mask.view(-1)[torch.tensor(sorted(leaves))] = 0
    return mask


@given(small_images(7))
@settings(max_examples=30, deadline=None)
def test_every_node_is_binary_connected_and_knows_its_pixels(image):
    tree = hierarchy_of_image(image)
    height, width = tree.shape
    pixels = tree.features.T
    first, second = (ends.tolist() for ends in tree.edges)
    for node, leaves in enumerate(members(tree)):
        index = torch.tensor(sorted(leaves))
        assert int(tree.size[node]) == len(leaves)
        assert Partition.from_labels(as_mask(tree, leaves)).counts.tolist() == [1]
        assert tree.volume[node] == sum(a in leaves and b in leaves for a, b in zip(first, second, strict=True))
        assert torch.allclose(tree.mean[node], pixels[index].mean(0), atol=1e-3)
        assert torch.allclose(tree.variance[node], pixels[index].var(0, correction=0), atol=2e-2, rtol=1e-4)
        rows, columns = index // width, index % width
        assert tree.box[node].tolist() == [rows.min(), columns.min(), rows.max() + 1, columns.max() + 1]
        above = int(tree.parent[node])
        assert above > node or (above == -1 and node == 2 * height * width - 2)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_nodes_inside_a_mask_are_connected_and_count_their_edges(similarity):
    image = photo(height=12, width=13)
    mask = noise(12, 13, 1, seed=3)[0] > 60
    tree = hierarchy_of_image(image, TreeOptions(similarity=similarity), mask=mask)
    pixel = torch.nonzero(mask.flatten()).flatten()
    first, second = (ends.tolist() for ends in tree.edges)
    for node, leaves in enumerate(members(tree)[: 2 * tree.leaves - tree.pieces]):
        assert Partition.from_labels(as_mask(tree, set(pixel[sorted(leaves)].tolist()))).counts.tolist() == [1]
        assert tree.volume[node] == sum(a in leaves and b in leaves for a, b in zip(first, second, strict=True))
    assert tree.pieces == int(Partition.from_labels(mask.to(torch.int64) - 1).counts)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("image", [photo(), noise(40, 40), constant(30, 30), checkerboard(17, 18)])
def test_levels_are_monotone_refinements_from_pixels_to_one_region(image, similarity):
    tree = hierarchy_of_image(image, TreeOptions(similarity=similarity))
    finer = tree.at_level(0)
    assert int(finer.counts) == tree.leaves
    for level in range(1, tree.levels + 1):
        coarser = tree.at_level(level)
        pairs = torch.unique(torch.stack((finer.labels.flatten(), coarser.labels.flatten())), dim=1)
        assert pairs.shape[1] == int(finer.counts)  # each finer region lies in one coarser region
        assert int(coarser.counts) <= int(finer.counts) // 2  # everybody merges with somebody
        assert Partition.from_labels(coarser.labels) == coarser
        finer = coarser
    assert int(finer.counts) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_any_size_gives_a_tree(shape):
    tree = hierarchy_of_image(noise(*shape))
    assert tree.parent.numel() == 2 * shape[0] * shape[1] - 1
    assert int(tree.size[-1]) == shape[0] * shape[1]
    assert int(tree.at_level(tree.levels).counts) == 1


@pytest.mark.parametrize("shape", [(225, 226), (4096, 31), (31, 4096)])
def test_large_and_long_images_give_a_tree(shape):
    for image in (noise(*shape), constant(*shape), checkerboard(*shape)):
        tree = hierarchy_of_image(image)
        assert int(tree.size[-1]) == shape[0] * shape[1]
        assert int(tree.cut(tokens=77).counts) == 77


def test_flat_areas_do_not_grow_chains():
    assert int(depths(hierarchy_of_image(constant(256, 256)).parent).max()) <= 200


def test_equal_inputs_give_equal_trees():
    a, b = (hierarchy_of_image(noise(30, 30)) for _ in range(2))
    assert torch.equal(a.parent, b.parent)
    assert torch.equal(a.altitude, b.altitude)


def test_every_region_picks_its_most_similar_neighbour_in_the_first_round():
    tree = hierarchy_of_image(photo(height=20, width=20), TreeOptions(similarity="gaussian"))
    labels = tree.at_level(1).labels[0].flatten()
    first, second = tree.edges
    distance = (tree.features[:, first] - tree.features[:, second]).square().sum(0)
    for pixel in range(tree.leaves):
        touching = (first == pixel) | (second == pixel)
        cheapest = touching & (distance <= distance[touching].min())
        others = (first + second - pixel)[cheapest]
        assert (labels[others] == labels[pixel]).any()


def test_an_absorbed_region_had_picked_one_that_was_already_in_the_cluster():
    tree = hierarchy_of_image(photo(height=16, width=17), picks=True)
    sets = members(tree)
    for k, (cluster, pick) in enumerate(zip(tree.left.tolist(), tree.pick.tolist(), strict=True)):
        assert sets[pick] <= sets[cluster]
        assert int(tree.level[pick]) < int(tree.level[tree.leaves + k])
    assert hierarchy_of_image(noise(4, 4)).pick.numel() == 0


def test_a_tree_reads_back_as_it_was_saved(tmp_path):
    mask = torch.ones(20, 30, dtype=torch.bool)
    mask[5:9, 3:] = False
    for inside in (None, mask):
        tree = hierarchy_of_image(noise(20, 30), TreeOptions(similarity="ward", energy="squared_error", floor=3.0), mask=inside)
        tree.save(tmp_path / "tree.npz")
        again = Hierarchy.load(tmp_path / "tree.npz")
        assert again.rule == tree.rule
        assert again.shape == tree.shape
        assert torch.equal(again.rank, tree.rank)
        assert again.cut(tokens=9) == tree.cut(tokens=9)
    assert [file.name for file in tmp_path.iterdir()] == ["tree.npz"]


def test_loading_something_else_says_what_was_expected(tmp_path):
    (tmp_path / "text.npz").write_text("not a tree")
    np.savez(tmp_path / "old.npz", version=99)
    with pytest.raises(ValueError, match="expected a tree saved as"):
        Hierarchy.load(tmp_path / "text.npz")
    with pytest.raises(ValueError, match="format version 1, got 99"):
        Hierarchy.load(tmp_path / "old.npz")
    hierarchy_of_image(noise(9, 9)).save(tmp_path / "tree.npz")
    whole = (tmp_path / "tree.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    np.save(tmp_path / "array.npy", np.zeros(3))
    np.savez(tmp_path / "part.npz", version=1, shape=[1, 1])
    for name in ("cut.npz", "array.npy", "part.npz"):
        with pytest.raises(ValueError, match="expected a"):
            Hierarchy.load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="found no file"):
        Hierarchy.load(tmp_path / "missing.npz")
    with pytest.raises(ValueError, match=r"saved as \.npz, got 'tree.txt'"):
        hierarchy_of_image(noise(3, 3)).save(tmp_path / "tree.txt")


def test_contours_draw_every_cut():
    tree = hierarchy_of_image(photo(height=30, width=35))
    contours = tree.contours()
    for count in (2, 3, 17, 200, 30 * 35):
        labels = tree.cut(tokens=count).labels[0]
        assert torch.equal(contours.right <= count, labels[:, 1:] != labels[:, :-1])
        assert torch.equal(contours.down <= count, labels[1:] != labels[:-1])


def test_contours_stop_at_the_mask():
    mask = torch.ones(8, 9, dtype=torch.bool)
    mask[:, 4] = False
    contours = hierarchy_of_image(noise(8, 9), mask=mask).contours()
    assert (contours.right[:, 3:5] == 0).all()
    assert (contours.down[:, 4] > 72).all()


def test_higra_takes_the_tree_and_its_horizontal_cuts_are_ours():
    import higra

    tree = hierarchy_of_image(photo(height=24, width=24))
    parents, altitudes = tree.to_higra()
    higra_tree = higra.Tree(parents)
    higra.CptHierarchy.link(higra_tree, higra.get_4_adjacency_graph((24, 24)))
    explorer = higra.HorizontalCutExplorer(higra_tree, altitudes)
    for count in (2, 10, 100):
        labels = explorer.horizontal_cut_from_num_regions(count).labelisation_leaves(higra_tree)
        assert Partition.from_labels(labels.reshape(24, 24)) == tree.cut(tokens=count)


def test_scipy_takes_the_linkage_matrix():
    from scipy.cluster.hierarchy import fcluster, is_valid_linkage

    tree = hierarchy_of_image(photo(height=16, width=16))
    linkage = tree.to_linkage()
    assert is_valid_linkage(linkage)
    labels = fcluster(linkage, 12, criterion="maxclust").reshape(16, 16)
    assert Partition.from_labels(labels) == tree.cut(tokens=12)


def test_scikit_image_takes_the_labels():
    from skimage.measure import regionprops

    partition = hierarchy_of_image(photo(height=24, width=24)).cut(tokens=15)
    areas = [region.area for region in regionprops(partition.to_skimage())]
    assert areas == partition.areas().tolist()


def test_features_that_overflow_or_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="finite"):
        hierarchy_of_planes(torch.tensor([[1.0, torch.nan]]), (1, 2))
    with pytest.raises(ValueError, match="scale the features down"):
        hierarchy_of_planes(torch.tensor([[1.0, 1e9]]), (1, 2))
    for mask in (torch.zeros(1, 2, dtype=torch.bool), torch.ones(2, 1, dtype=torch.bool), torch.ones(1, 2, dtype=torch.uint8)):
        with pytest.raises(ValueError, match="a mask must be bool"):
            hierarchy_of_planes(torch.zeros(3, 2), (1, 2), mask=mask)
    with pytest.raises(ValueError, match=r"planes \(C, H·W\)"):
        hierarchy_of_planes(torch.zeros(3, 5), (2, 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"similarity": "nearest"}, "likelihood, ward, gaussian, cosine, tanimoto, got 'nearest'"),
        ({"energy": "heat"}, "likelihood, squared_error, got 'heat'"),
        ({"floor": 0.0}, "positive number, got 0.0"),
        ({"compactness": -1.0}, "from 0 up, got -1.0"),
    ],
)
def test_unknown_names_list_the_choices(options, message):
    with pytest.raises(ValueError, match=message):
        TreeOptions(**options)


def test_unknown_backends_list_the_choices():
    with pytest.raises(ValueError, match="auto, torch, numba, triton, got 'cuda'"):
        hierarchy_of_image(noise(4, 4), backend="cuda")


@pytest.mark.parametrize(
    ("similarity", "words"),
    [
        (pixtree.Likelihood(length_exponent=0.3), "length_exponent must be 0, 0.25, 0.5, 0.75 or 1, got 0.3"),
        (pixtree.Likelihood(ward_rounds=0), "ward_rounds must be at least 1, got 0"),
    ],
)
def test_similarities_with_impossible_numbers_are_refused(similarity, words):
    with pytest.raises(ValueError, match=words):
        pixtree.hierarchy(photo(height=6, width=6), similarity=similarity)


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_a_tree_does_not_depend_on_torchs_default_type(backend):
    image = photo(height=12, width=15)
    usual = pixtree.hierarchy(image, backend=backend)
    torch.set_default_dtype(torch.float64)
    try:
        found = pixtree.hierarchy(image, backend=backend)
    finally:
        torch.set_default_dtype(torch.float32)
    for name in ("parent", "level", "altitude", "gain", "features"):
        one, other = getattr(usual, name), getattr(found, name)
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize(("coordinates", "content"), [((0, 0), [0, 1, 2, 3]), ((0, 2), [2, 3]), ((1, 3), [0, 3]), ((2, 4), [0, 1])])
def test_content_is_all_planes_but_the_coordinates_wherever_they_stand(coordinates, content):
    features = torch.rand((4, 30), generator=torch.Generator().manual_seed(0))
    assert hierarchy_of_planes(features, (5, 6), coordinates=coordinates).content == content
