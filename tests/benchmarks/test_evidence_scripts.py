"""The arithmetic of scripts whose figures stand in the documentation."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import gennorm

import pixtree

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return lambda name: runpy.run_path(str(BENCHMARKS / f"{name}.py"))


@pytest.mark.parametrize(("shape", "scale"), [(0.551, 0.031), (1.0, 0.1), (2.0, 0.05)])
def test_the_fit_finds_the_distribution_that_residuals_were_drawn_from(script, shape, scale):
    drawn = gennorm.rvs(shape, scale=scale, size=40_000, random_state=np.random.default_rng(3))
    found = script("residuals")["fitted"](drawn)
    assert found == pytest.approx((shape, scale), rel=0.06)


def test_residuals_are_those_to_the_mean_of_a_region_of_several_pixels(script):
    image = torch.tensor([[0, 10, 200], [20, 30, 255]], dtype=torch.uint8).expand(3, 2, 3)
    labels = torch.tensor([[0, 0, 1], [0, 0, 2]])
    found = script("residuals")["residuals_of"](image, labels, np.random.default_rng(0))
    assert sorted(found * 255) == pytest.approx(sorted([-15.0, -5.0, 5.0, 15.0] * 3))


def test_tokenizers_that_differ_by_less_than_two_standard_errors_tie(script):
    module = script("tokenizers")
    rng = np.random.default_rng(0)
    ours = (rng.random(400) < 0.7).astype(float)
    near, far = ours.copy(), ours.copy()
    near[:2] = 1 - near[:2]
    far[np.flatnonzero(ours)[:60]] = 0
    values = {name: {"right": list(one), "tokens": [9.0] * 400} for name, one in (("a", near), ("b", far), (module["OURS"], ours))}
    first, second, own = module["rows_of"](values)
    assert (first["verdict"], second["verdict"], own.get("verdict")) == ("a tie", "ahead", None)
    assert second["behind"] == pytest.approx(60 / 400)


def test_pooled_features_of_a_flat_picture_are_the_projection_of_a_flat_patch(script):
    model = pixtree.retrofit("vit_tiny_patch16_224", tokens=4, depth=1, num_classes=10).eval()
    images = torch.full((1, 3, 32, 32), 128, dtype=torch.uint8)
    quarters = torch.arange(4).view(2, 2).repeat_interleave(16, 0).repeat_interleave(16, 1)[None]
    partition = pixtree.Partition.from_labels(quarters)
    expected = model.tokens(images, partition).features
    model.tokenizer = script("tokenizers")["Pooled"].taking_over(model.tokenizer)
    assert torch.allclose(model.tokens(images, partition).features, expected, atol=1e-4)


def test_the_standard_error_of_several_seeds_counts_photos_and_seeds(script):
    error = script("with_labels")["standard_error"]
    one = torch.tensor([[1.0, 0.0, 1.0, 0.0]]).double()
    assert error(one) == pytest.approx((one.var().item() / 4) ** 0.5)
    seeds = torch.tensor([[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]).double()
    assert error(seeds) == pytest.approx(0.5)  # photos agree, and only the seeds differ


def test_kinds_of_tokens_are_compared_by_the_seeds_that_both_have(script):
    module = script("with_labels")
    runs = {"tokens": 4.0, "last_loss": 1.0, "minutes": 2.0}
    found = {
        "patches": {**runs, "right": torch.tensor([[1.0, 0.0], [1.0, 1.0]]).double()},
        "regions": {**runs, "right": torch.tensor([[0.0, 0.0]]).double()},
    }
    row = module["row_of"]("regions", module["Kind"]((), "patches"), found)
    assert (row["lead"], row["runs"], row["each"]) == (-0.5, 1, "0.000")
    assert "lead" not in module["row_of"]("patches", module["Kind"](), found)


def test_all_kinds_of_an_experiment_share_the_schedule_and_the_augmentation(script):
    from pixtree.training.recipe import read_recipe

    for experiment in script("with_labels")["EXPERIMENTS"].values():
        made = [read_recipe(experiment.recipe, [*experiment.shared, *kind.changes]) for kind in experiment.kinds.values()]
        assert len({(str(one.schedule), str(one.augment), str(one.loss)) for one in made}) == 1
        assert all(kind.beside is None or kind.beside in experiment.kinds for kind in experiment.kinds.values())


def test_features_are_compared_photo_by_photo(script):
    module = script("features")
    right = [1, 1, 0, 1] * 50
    less = [0, 1, 0, 1] * 50
    made = [module["PATCHES"], "196 regions"]
    found = {
        name: {"knn": {"10": each, "20": each}, "probe": right, "decay": 0.1, "tokens": 196, "gflops": 1.0, "minutes": 1.0}
        for name, each in zip(made, (right, less), strict=True)
    }
    patches, regions = module["rows_of"](found)
    assert (patches["knn"], patches["k"], regions["knn_lead"]) == (0.75, 10, -0.25)
    assert (regions["knn_verdict"], regions["probe_verdict"]) == ("behind", "tie")
    assert "beside" not in patches
