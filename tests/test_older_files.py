"""Files that versions 0.1 and 0.2 wrote still load, to the same results."""

from pathlib import Path

import numpy as np
import pytest
import torch
from pictures import photo

import pixtree
from pixtree.models.checkpoint import config_of, from_pretrained, read_config
from pixtree.partitioners import Grid
from pixtree.tokenizer.tokenizer import Options, region_encoder
from pixtree.tokenizer.weights import load_weights, save_weights

FOLDER = Path(__file__).parent / "golden" / "version_0_1"
PAPER = Path(__file__).parent / "golden" / "version_0_2" / "paper"  # a tiny pixtree_paper_vit_tiny


def test_a_tree_of_version_0_1_loads_and_cuts_as_it_did():
    expected = np.load(FOLDER / "expected.npz")["cut"]
    assert np.array_equal(pixtree.Hierarchy.load(FOLDER / "tree.npz").cut(tokens=15).labels.numpy(), expected)


def test_a_checkpoint_of_version_0_1_loads_and_gives_the_same_logits():
    expected, image = np.load(FOLDER / "expected.npz"), photo(height=32, width=32)[None]
    model = from_pretrained(FOLDER)
    with torch.no_grad():
        assert np.array_equal(model.partition(image).labels.numpy(), expected["labels"])
        assert np.allclose(model(image).numpy(), expected["logits"], atol=1e-5)


def test_a_checkpoint_of_the_papers_system_of_version_0_2_gives_the_same_logits():
    expected, image = np.load(PAPER / "expected.npz"), photo(height=64, width=64)[None]
    model = from_pretrained(PAPER)
    assert (model.tokenizer.sampler.smallest, model.tokenizer.sampler.largest) == (16, 32)  # as it was trained
    with torch.no_grad():
        assert np.array_equal(model.partition(image).labels.numpy(), expected["labels"])
        assert np.allclose(model(image).numpy(), expected["logits"], atol=1e-5)


def test_the_config_has_kept_its_flat_form():
    old = read_config(FOLDER / "config.json")
    new = config_of(from_pretrained(FOLDER))
    # Version 0.1 compared all features, and did not say so; its β started at 0, and its trees compared means.
    expected = {**old["tokenizer"], "compared": old["tokenizer"]["features"], "background": 0.0, "picks": "means"}
    assert {key: list(value) if isinstance(value, tuple) else value for key, value in new["tokenizer"].items()} == expected


def test_weights_of_version_0_1_load_as_a_turn_of_their_features():
    old, image = load_weights(FOLDER / "pretrained.safetensors"), photo(height=48, width=64)[None]
    before, after = region_encoder(Options().changed(compared=8)), region_encoder(Options())
    old.into(before)
    old.into(after)
    partition = Grid(tokens=12)(image)
    with torch.no_grad():
        values = [one(image, pixtree.Exactly(12), partition) for one in (before, after)]
    assert torch.allclose(values[0].colours, values[1].colours, atol=1e-5)
    differences = [(one.features[0, :, 1:] - one.features[0, :, :-1]).square() for one in values]
    assert torch.allclose(differences[0].sum(0), differences[1].sum(0), atol=1e-5)
    assert float(differences[1][3:].sum()) < 1e-3 * float(differences[1].sum())


def test_weights_that_compare_other_features_are_refused(tmp_path):
    save_weights(region_encoder(Options().changed(compared=4)), tmp_path / "four.safetensors")
    with pytest.raises(ValueError, match=r"compare 4 features and the encoder 3; create it with compared=4"):
        load_weights(tmp_path / "four.safetensors").into(region_encoder(Options()))
