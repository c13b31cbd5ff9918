"""The paper's construction of the tree, one test per statement; each names its label."""

import pytest
import torch
from pictures import photo

import pixtree
from pixtree.kernels.tree import Cost, MergeRule
from pixtree.kernels.tree.build.definition import NONE, cheapest_edges, components_of_picks, merge_cost, picked_ends, pixel_edges
from pixtree.kernels.tree.build.definition import Regions as ReferenceRegions
from pixtree.trees.build import hierarchy_of_image, hierarchy_of_planes
from pixtree.trees.options import TreeOptions, merge_rule


def first_round():
    """Edges, costs and picks of the first round on a small photo."""
    tree = hierarchy_of_image(photo(height=12, width=13), TreeOptions(similarity="gaussian"))
    edges = pixel_edges(tree.inside)
    mean = tree.features.T.contiguous()
    ones = torch.ones(tree.leaves)
    regions = ReferenceRegions(torch.arange(tree.leaves), ones, mean, torch.zeros_like(mean), torch.zeros(tree.leaves), mean[:, :0])
    rule = MergeRule(Cost.GAUSSIAN)
    cost = merge_cost(regions.take(edges.first), regions.take(edges.second), edges.length, rule, first_rounds=True)
    return tree, edges, cost, cheapest_edges(edges, (cost.to(torch.float64) * 1e6).to(torch.int64), tree.leaves)


def test_e_max_pairs_each_vertex_with_its_most_similar_neighbour():
    """The set E_max of Section *Hierarchical Vertex Merging*, with κ = exp(−‖Δf‖²/2)."""
    tree, edges, cost, picked = first_round()
    kernel = torch.exp(-cost.to(torch.float64) / 2)
    for v in range(tree.leaves):
        incident = (edges.first == v) | (edges.second == v)
        assert picked[v] != NONE
        assert kernel[picked[v]] == kernel[incident].max()


@pytest.mark.parametrize("kernel", ["gaussian", "cosine", "tanimoto"])
def test_the_papers_kernels_see_features_alone(kernel):
    """κ(u, v) of Section *Hierarchical Vertex Merging*: how long a boundary is has no part in it."""
    assert merge_rule(kernel, "likelihood", 10.0).length_quarters == 0


def test_alg_merge_one_iteration_takes_the_components_of_e_max():
    """`alg:merge`: S_{t+1} = ConnectedComponents(E_max)."""
    tree, edges, _, picked = first_round()
    component, count = components_of_picks(picked, picked_ends(edges, picked)[1])
    for edge in picked.unique():
        assert component[edges.first[edge]] == component[edges.second[edge]]
    assert int(tree.at_level(1).counts) == count
    assert torch.equal(tree.at_level(1).labels.flatten().to(torch.int64), component)


def test_eq_aggr_features_of_a_level_are_means_over_its_pixels():
    """`eq:aggr`: f̄(v) = 1/|S| Σ f₀(u)."""
    from pixtree.trees.cuts import Level, opened_nodes

    tree = hierarchy_of_image(photo(height=24, width=24), TreeOptions(similarity="gaussian"))
    pixels = tree.features.T
    for level in range(1, tree.levels + 1):
        node = tree.region_nodes(opened_nodes(tree, Level(level)))
        for region in node.unique()[:10]:
            assert torch.allclose(tree.mean[region], pixels[node == region].mean(0), atol=1e-3)


def test_prop_partitioncol_components_form_a_partition():
    """`prop:partitioncol`: nonempty regions that cover the pixels without overlap."""
    tree = hierarchy_of_image(photo(height=24, width=24))
    for level in range(tree.levels + 1):
        partition = tree.at_level(level)
        assert int(partition.areas().sum()) == tree.leaves
        assert bool((partition.areas() > 0).all())


def test_prop_hierarchycol_edges_stay_joined_and_partitions_refine():
    """`prop:hierarchycol`: χ(u, v, t) ≤ χ(u, v, t + 1) for every pixel edge, hence π_t ⊑ π_{t+1}."""
    tree = hierarchy_of_image(photo(height=24, width=24))
    first, second = tree.edges
    joined = torch.zeros(first.numel(), dtype=torch.bool)
    for level in range(tree.levels + 1):
        labels = tree.at_level(level).labels.flatten()
        now = labels[first] == labels[second]
        assert bool((now | ~joined).all())
        joined = now
    assert bool(joined.all())


def test_def_hierarchicalgraph_starts_with_single_pixels():
    """`def:hierarchicalgraph`: χ(u, v, 0) = 0."""
    tree = hierarchy_of_image(photo(height=8, width=9))
    assert int(tree.at_level(0).counts) == 72


def test_alg_merge_picks_on_its_weighted_features_only_with_one_kernel():
    """`alg:merge`: κ of E_max is κ of the weights. Regions that are plain means, or a tree without κ, have none."""
    assert pixtree.Tokenizer.paper().regions.rule.rule.weighted
    for changes in ({"aggregation": "mean"}, {"similarity": "likelihood"}):
        assert not pixtree.Tokenizer.paper(**changes).regions.rule.rule.weighted
    with pytest.raises(ValueError, match="got likelihood; use one κ"):
        pixtree.Tokenizer(picks="weighted")
    with pytest.raises(ValueError, match="picks are on one of means, weighted"):
        pixtree.Tokenizer(picks="median")


def test_a_tree_of_weighted_features_is_kept_in_files_with_its_rule(tmp_path):
    rule = MergeRule(Cost.TANIMOTO, weighted=True, precision=0.25)
    tree = hierarchy_of_planes(photo(height=8, width=9).flatten(1).float(), (8, 9), rule)
    tree.save(tmp_path / "tree.npz")
    assert pixtree.Hierarchy.load(tmp_path / "tree.npz").rule == rule
