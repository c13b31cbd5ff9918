"""Files that version 0.1 wrote still load, to the same results."""

from pathlib import Path

import numpy as np
import torch
from pictures import photo

import pixtree
from pixtree.models.checkpoint import config_of, from_pretrained, read_config

FOLDER = Path(__file__).parent / "golden" / "version_0_1"


def test_a_tree_of_version_0_1_loads_and_cuts_as_it_did():
    expected = np.load(FOLDER / "expected.npz")["cut"]
    assert np.array_equal(pixtree.Hierarchy.load(FOLDER / "tree.npz").cut(tokens=15).labels.numpy(), expected)


def test_a_checkpoint_of_version_0_1_loads_and_gives_the_same_logits():
    expected, image = np.load(FOLDER / "expected.npz"), photo(height=32, width=32)[None]
    model = from_pretrained(FOLDER)
    with torch.no_grad():
        assert np.array_equal(model.partition(image).labels.numpy(), expected["labels"])
        assert np.allclose(model(image).numpy(), expected["logits"], atol=1e-5)


def test_the_config_has_kept_its_flat_form():
    old = read_config(FOLDER / "config.json")
    new = config_of(from_pretrained(FOLDER))
    assert new["tokenizer"].keys() == old["tokenizer"].keys()
    assert {key: list(value) if isinstance(value, tuple) else value for key, value in new["tokenizer"].items()} == old["tokenizer"]
