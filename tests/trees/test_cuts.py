"""Cuts are exact: equal to brute force, to Higra, and to dynamic programming over counts."""

import higra
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import checkerboard, constant, noise, photo, small_images

from pixtree.kernels import kernels_for
from pixtree.kernels.tree.attributes.definition import parents_of
from pixtree.trees.build import hierarchy_of_image
from pixtree.trees.criteria import Criterion, scores
from pixtree.trees.cuts import AtMost, Exactly, Level, block_counts, budget_of, opened_nodes
from pixtree.trees.hierarchy import Hierarchy
from pixtree.trees.options import TreeOptions
from pixtree.trees.partition import Partition

compiled, reference = kernels_for("numba"), kernels_for("torch")


def random_tree(leaves: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Children of a random binary tree."""
    random = np.random.default_rng(seed)
    roots, left, right = list(range(leaves)), [], []
    for node in range(leaves, 2 * leaves - 1):
        a, b = (roots.pop(random.integers(len(roots))) for _ in range(2))
        left.append(a)
        right.append(b)
        roots.append(node)
    return torch.tensor(left, dtype=torch.int32), torch.tensor(right, dtype=torch.int32)


def all_cuts(node: int, left: torch.Tensor, right: torch.Tensor) -> list[list[int]]:
    """Every cut below a node, as lists of nodes."""
    leaves = left.numel() + 1
    if node < leaves:
        return [[node]]
    below = [
        a + b for a in all_cuts(int(left[node - leaves]), left, right) for b in all_cuts(int(right[node - leaves]), left, right)
    ]
    return [[node], *below]


@pytest.mark.parametrize("kernels", [reference, compiled], ids=["torch", "numba"])
@given(leaves=st.integers(1, 7), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_the_optimal_cut_equals_brute_force_and_higra(kernels, leaves, seed):
    left, right = random_tree(leaves, seed)
    cost = torch.from_numpy(np.random.default_rng(seed).normal(size=2 * leaves - 1))
    opened, total = kernels.cheapest_cut(cost, left, right)
    best = min((float(cost[nodes].sum()) for nodes in all_cuts(2 * leaves - 2, left, right)), default=0.0)
    assert float(total) == pytest.approx(best)
    if leaves > 1:
        parents = parents_of(left, right).numpy().astype(np.int64)
        parents[-1] = 2 * leaves - 2
        theirs = higra.labelisation_optimal_cut_from_energy(higra.Tree(parents), cost.numpy())
        ours = kernels.cut_labels(parents_of(left, right), opened).numpy()
        assert len(set(zip(ours.tolist(), theirs.tolist(), strict=True))) == len(set(theirs.tolist())) == ours.max() + 1


@given(small_images(3), st.sampled_from(["aic", "bic", "cic"]))
@settings(max_examples=30, deadline=None)
def test_on_small_images_the_criterions_cut_equals_brute_force(image, name):
    tree = hierarchy_of_image(image)
    criterion = Criterion(name, penalty=0.02, single_volume=0.5)
    cost = scores(tree, criterion)
    chosen = tree.region_nodes(opened_nodes(tree, criterion)).unique()
    best = min(float(cost[nodes].sum()) for nodes in all_cuts(2 * tree.leaves - 2, tree.left, tree.right))
    assert float(cost[chosen].sum()) == pytest.approx(best)


@pytest.mark.parametrize("name", ["aic", "aicc", "bic", "cic"])
def test_on_images_the_criterions_cut_equals_higras(name):
    tree = hierarchy_of_image(photo(height=40, width=40))
    criterion = Criterion(name, penalty=0.05)
    cost = scores(tree, criterion)
    cut = tree.cut(budget=criterion)
    higra_tree = higra.Tree(tree.to_higra()[0])
    # Higra does not know infinity; any cost above that of the root does.
    finite = torch.where(torch.isinf(cost), 1e12, cost).numpy()
    theirs = higra.labelisation_optimal_cut_from_energy(higra_tree, finite).reshape(40, 40)
    assert Partition.from_labels(theirs) == cut
    assert 1 < int(cut.counts) < 400


def hull_vertices(energy: np.ndarray) -> list[int]:
    """Indices on the lower convex hull of a decreasing sequence."""
    hull: list[int] = []
    for i in range(len(energy)):
        while len(hull) >= 2:
            a, b = hull[-2:]
            if (energy[b] - energy[a]) * (i - a) >= (energy[i] - energy[a]) * (b - a) - 1e-9:
                hull.pop()
            else:
                break
        hull.append(i)
    return hull


def least_energies(tree: Hierarchy) -> np.ndarray:
    """The least energy of a cut with n = 1, 2, ... regions, by dynamic programming over counts: the slow truth."""
    best: list[np.ndarray] = [np.zeros(1) for _ in range(tree.leaves)]
    closed = [0.0] * tree.leaves
    for a, b, gain in zip(tree.left.tolist(), tree.right.tolist(), tree.gain.tolist(), strict=True):
        closed.append(closed[a] + closed[b] + gain)
        sums = np.full(len(best[a]) + len(best[b]), np.inf)
        for i, value in enumerate(best[a]):
            sums[i + 1 : i + 1 + len(best[b])] = np.minimum(sums[i + 1 : i + 1 + len(best[b])], value + best[b])
        sums[0] = closed[-1]
        best.append(sums)
    return best[-1]


def energy_of(tree: Hierarchy, opened: torch.Tensor) -> float:
    return float(tree.gain[~opened].to(torch.float64).sum())


@pytest.mark.parametrize("energy", ["likelihood", "squared_error"])
@pytest.mark.parametrize("image", [photo(height=14, width=15), noise(13, 14), photo("coffee", 12, 18)])
def test_the_cut_with_n_regions_is_optimal_at_every_hull_point(image, energy):
    tree = hierarchy_of_image(image, TreeOptions(energy=energy))
    least = least_energies(tree)
    ours = np.array([energy_of(tree, opened_nodes(tree, Exactly(n))) for n in range(1, tree.leaves + 1)])
    assert (ours >= least - 1e-6 * least[0]).all()
    vertices = hull_vertices(least)
    assert len(vertices) > 20
    assert np.allclose(ours[vertices], least[vertices], rtol=1e-6, atol=1e-6 * least[0])


@given(small_images(6))
@settings(max_examples=25, deadline=None)
def test_n_tokens_are_exactly_n_connected_regions_and_refine_fewer(image):
    tree = hierarchy_of_image(image)
    coarser = tree.cut(tokens=1)
    for n in range(1, tree.leaves + 1):
        finer = tree.cut(tokens=n)
        assert int(finer.counts) == n
        assert Partition.from_labels(finer.labels) == finer
        pairs = torch.unique(torch.stack((finer.labels.flatten(), coarser.labels.flatten())), dim=1)
        assert pairs.shape[1] == n
        coarser = finer
    with pytest.raises(ValueError, match="ask for fewer"):
        tree.cut(tokens=tree.leaves + 1)


@pytest.mark.parametrize("image", [constant(20, 21), checkerboard(20, 21), noise(20, 21), photo(height=20, width=21)])
def test_every_count_is_reached_on_hard_images(image):
    tree = hierarchy_of_image(image)
    for n in (1, 2, 3, 50, 199, 200, 419, 420):
        partition = tree.cut(tokens=n)
        assert int(partition.counts) == n
        assert Partition.from_labels(partition.labels) == partition


@given(small_images(9), st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_relaxation_keeps_count_and_connectivity(image, tokens):
    tree = hierarchy_of_image(image)
    tokens = min(tokens, tree.leaves)
    plain = tree.cut(tokens=tokens)
    for relax in (True, "detail"):
        relaxed = tree.cut(tokens=tokens, relax=relax)
        assert torch.equal(relaxed.counts, plain.counts)
        assert Partition.from_labels(relaxed.labels) == relaxed


@pytest.mark.parametrize(
    "budget", [Exactly(30), AtMost(20), Criterion("bic"), Criterion(rule="pixel", nodes="levels"), Level(4), Level(0)], ids=str
)
def test_detail_keeps_the_regions_of_every_budget_connected_and_inside_the_mask(budget):
    mask = torch.ones(48, 56, dtype=torch.bool)
    mask[10:14, 3:40] = False
    mask[:, 50] = False
    for inside in (None, mask):
        tree = hierarchy_of_image(photo(height=48, width=56), mask=inside)
        plain, relaxed = tree.cut(budget=budget), tree.cut(budget=budget, relax="detail")
        assert torch.equal(relaxed.counts, plain.counts)
        assert Partition.from_labels(relaxed.labels) == relaxed
        assert torch.equal(relaxed.labels >= 0, plain.labels >= 0)


def test_blocks_are_ten_and_forty_times_the_regions_but_no_smaller_than_sixteen_pixels():
    assert block_counts(200, 512 * 512) == [2000, 8000]
    assert block_counts(400, 481 * 321) == [2412, 9650]
    assert block_counts(100, 64 * 64) == [256]
    assert block_counts(256, 64 * 64) == []


@pytest.mark.parametrize("relax", ["fine", "", None, 2])
def test_unknown_relaxations_list_the_known_ones(relax):
    tree = hierarchy_of_image(constant(4, 4))
    with pytest.raises(ValueError, match=r'relax is False, True or "detail", got'):
        tree.cut(tokens=2, relax=relax)


def test_relaxation_improves_the_fit_of_a_photo_and_detail_improves_it_further():
    tree = hierarchy_of_image(photo())
    pixels = tree.features.T.to(torch.float64)

    def error(partition: Partition) -> float:
        labels = partition.labels.flatten().to(torch.int64)
        sums = torch.zeros(int(partition.counts), 3, dtype=torch.float64).index_add_(0, labels, pixels)
        return float((pixels - (sums / partition.areas()[:, None])[labels]).square().sum())

    plain, polished, detailed = (error(tree.cut(tokens=60, relax=relax)) for relax in (False, True, "detail"))
    assert polished < 0.95 * plain
    assert detailed < 0.97 * polished


def test_at_most_keeps_the_criterions_cut_or_coarsens_it_to_the_limit():
    tree = hierarchy_of_image(photo())
    free = tree.cut(budget=Criterion(penalty=0.1))
    count = int(free.counts)
    assert count > 20
    assert tree.cut(budget=AtMost(count, Criterion(penalty=0.1))) == free
    limited = tree.cut(budget=AtMost(20, Criterion(penalty=0.1)))
    assert int(limited.counts) == 20
    pairs = torch.unique(torch.stack((free.labels.flatten(), limited.labels.flatten())), dim=1)
    assert pairs.shape[1] == count
    assert int(tree.cut(at_most=1).counts) == 1


def test_at_most_reaches_sizes_that_do_not_depend_on_the_image_size():
    for side in (48, 96):
        tree = hierarchy_of_image(photo(height=side, width=side))
        assert int(tree.cut(budget=AtMost(25, Criterion(penalty=0.01))).counts) == 25


@pytest.mark.parametrize("count", [1, 5, 40])
def test_at_most_merges_torn_regions_across_their_weakest_boundaries(count):
    """The paper's extra step of merging after the selection."""
    tree = hierarchy_of_image(photo(height=40, width=40), TreeOptions("gaussian"))
    torn = Criterion(rule="pixel", nodes="levels", penalty=0.05)
    fine, coarse = tree.cut(budget=torn), tree.cut(budget=AtMost(count, torn))
    assert int(fine.counts) > 40
    assert int(coarse.counts) == count
    assert coarse == Partition.from_labels(coarse.labels)  # every region is connected, in canonical order
    pairs = torch.stack((fine.labels.flatten(), coarse.labels.flatten())).unique(dim=1)
    assert pairs.shape[1] == int(fine.counts)  # each fine region lies in one coarse region
    assert tree.cut(budget=AtMost(10**6, torn)) == fine


def test_torn_regions_in_pieces_of_a_mask_cannot_be_merged_into_fewer_than_the_pieces():
    mask = torch.ones(8, 9, dtype=torch.bool)
    mask[:, 4] = False
    tree = hierarchy_of_image(noise(8, 9), mask=mask)
    torn = Criterion(rule="pixel", penalty=0.01)
    assert int(tree.cut(budget=AtMost(2, torn)).counts) == 2
    with pytest.raises(ValueError, match="the mask has 2 pieces"):
        tree.cut(budget=AtMost(1, torn))


def test_the_pixel_rule_tears_nodes_apart_and_costs_more_than_the_optimum():
    tree = hierarchy_of_image(photo(), TreeOptions(similarity="gaussian"))
    paper, ours = (Criterion(rule=rule, nodes="levels", penalty=0.05) for rule in ("pixel", "optimal"))
    partition = tree.cut(budget=paper)
    assert Partition.from_labels(partition.labels) == partition
    chosen = tree.region_nodes(opened_nodes(tree, ours)).unique()
    best = float(scores(tree, ours)[chosen].sum())
    taken = tree.kernels.best_ancestors(scores(tree, paper).nan_to_num(nan=torch.inf, posinf=torch.inf), tree.parent).unique()
    assert best < float(scores(tree, paper)[taken].sum())
    assert int(partition.counts) > taken.numel()  # some chosen nodes are in pieces


def test_level_cuts_clamp_at_the_top_and_refuse_what_is_below():
    tree = hierarchy_of_image(noise(9, 9))
    assert int(tree.cut(budget=Level(99)).counts) == 1
    with pytest.raises(ValueError, match="from 0 up, got -1"):
        Level(-1)


@pytest.mark.parametrize("count", [0, -3, 2.5, True])
def test_a_cut_needs_a_whole_number_of_regions(count):
    with pytest.raises(ValueError, match="at least 1 region"):
        Exactly(count)
    with pytest.raises(ValueError, match="at least 1 region"):
        AtMost(count)


def test_exactly_one_budget_is_asked_for():
    with pytest.raises(ValueError, match="got 0 of them"):
        budget_of()
    with pytest.raises(ValueError, match="got 2 of them"):
        budget_of(tokens=3, level=1)
    assert budget_of(at_most=9, criterion="bic") == AtMost(9, Criterion("bic"))


def test_region_nodes_are_the_nodes_of_the_cut():
    tree = hierarchy_of_image(photo(height=20, width=20))
    node = tree.region_nodes(opened_nodes(tree, Exactly(13)))
    labels = tree.cut(tokens=13).labels.flatten().to(torch.int64)
    assert torch.equal(tree.size[node].to(torch.int64), tree.cut(tokens=13).areas()[labels])


def test_a_mask_with_pieces_sets_the_fewest_regions():
    mask = torch.ones(12, 12, dtype=torch.bool)
    mask[:, 5] = False
    mask[6, :] = False
    tree = hierarchy_of_image(noise(12, 12), mask=mask)
    assert tree.pieces == 4
    assert int(tree.cut(tokens=4).counts) == 4
    assert int(tree.cut(tokens=9).counts) == 9
    assert int(tree.at_level(99).counts) == 4
    assert int(tree.cut(criterion="bic").counts) >= 4
    relaxed = tree.cut(tokens=9, relax=True).labels[0]
    assert torch.equal(relaxed >= 0, mask)
    with pytest.raises(ValueError, match="4 pieces that do not touch, got 3 regions"):
        tree.cut(tokens=3)


def test_a_mask_of_scattered_pixels_is_its_own_partition():
    mask = checkerboard(5, 5)[0] > 0
    tree = hierarchy_of_image(noise(5, 5), mask=mask)
    assert tree.pieces == int(mask.sum())
    for partition in (tree.cut(criterion="aicc"), tree.cut(tokens=tree.pieces), tree.at_level(3)):
        assert int(partition.counts) == tree.pieces
