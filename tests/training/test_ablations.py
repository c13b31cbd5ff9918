"""Ablations of the paper's tokenizer as recipes that are trained: what each leaves out, and mistakes in one sentence."""

from typing import get_args

import pytest

from pixtree.evaluation.ablations import BASES, ablated, ablations
from pixtree.models.timm_import import timm
from pixtree.tokenizer.components import LEVEL, Component, lacks, options_without
from pixtree.tokenizer.tokenizer import PAPER, PAPER_BUDGET, paper_changes
from pixtree.training.learners import learner_of
from pixtree.training.recipe import Encoder, Model, checked_recipe, read_recipe, read_values
from pixtree.training.reconstruction import preset_of
from pixtree.training.short_forms import upgraded

COMPONENTS = get_args(Component)
NARROW = {"depth": 1, "embed_dim": 48, "num_heads": 3}
RETROFIT = {"name": "vit_tiny_patch16_224", "tokenizer": "paper"}
SCRATCH = {"name": "pixtree_paper_vit_tiny"}


def made(model, **changes):
    return learner_of(Model(image_size=48, arguments=NARROW, **model, **changes), 2)


@pytest.mark.parametrize("model", [RETROFIT, SCRATCH], ids=["retrofit", "scratch"])
@pytest.mark.parametrize("component", COMPONENTS)
def test_a_recipe_leaves_out_one_component_and_nothing_else(model, component):
    tokenizer, whole = made(model, without=component).tokenizer, made(model).tokenizer
    assert [one for one in COMPONENTS if lacks(one, tokenizer)] == [component]
    assert not any(lacks(one, whole) for one in COMPONENTS)
    options, usual = paper_changes(**options_without(component)), paper_changes()
    changed = {name for name, value in tokenizer.options.flat().items() if value != whole.options.flat()[name]}
    assert changed == {name for name, value in options.items() if value != usual.get(name)}
    assert tokenizer.budget == (LEVEL if component == "selection" else PAPER_BUDGET)


def test_without_beta_the_background_is_black_and_stays_so():
    background = made(RETROFIT, without="beta").tokenizer.sampler.background
    assert not background.requires_grad
    assert not background.any()
    row = next(one for one in ablations(BASES["paper"]) if one.without == "beta")
    background = ablated(timm.create_model("test_vit"), BASES["paper"], row).tokenizer.sampler.background
    assert not background.requires_grad
    assert not background.any()


@pytest.mark.parametrize("side", [64, 128, 224])
def test_without_selection_there_are_more_tokens_as_in_the_paper(side):
    from pictures import photo

    model = made(RETROFIT, without="selection")
    images = photo("astronaut", side, side)[None].float() / 255
    assert model.partition(images).counts[0] > made(RETROFIT).partition(images).counts[0]


def test_a_start_with_the_component_is_refused(tmp_path):
    made(RETROFIT).save_pretrained(tmp_path / "whole")
    made(RETROFIT, without="cnn").save_pretrained(tmp_path / "part")
    start = {"start": str(tmp_path / "part")}
    assert lacks("cnn", made(RETROFIT | start, without="cnn").tokenizer)
    with pytest.raises(ValueError, match="expected a start that was trained without cnn"):
        made(RETROFIT | {"start": str(tmp_path / "whole")}, without="cnn")


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        (RETROFIT, {"without": "selection", "tokens": 9}, "a model without selection has the regions of a level"),
        ({"name": "vit_tiny_patch16_224"}, {"without": "cnn"}, "a model of patches has no without"),
    ],
)
def test_what_cannot_be_left_out_is_said(model, changes, words):
    with pytest.raises(ValueError, match=words):
        made(model, **changes)


def test_a_component_that_is_not_one_is_said():
    with pytest.raises(ValueError, match=r"expected another value for 'model.without' in retrofit, got 'colour'"):
        read_recipe("retrofit", ["model.without=colour"])


def test_checkpoints_of_recipes_without_newer_keys_resume():
    recipe = read_recipe("pretrain_laptop").model_dump(mode="json")
    stored = {**recipe, "model": {key: value for key, value in recipe["model"].items() if key != "without"}}
    current = {"recipe": recipe, "pictures": 6, "plan": checked_recipe(recipe).plan(6).record()}
    assert upgraded({**current, "recipe": stored}, current) == current


def test_hyper_parameters_of_the_papers_tokenizer_are_keys_of_its_recipe():
    assert preset_of(read_recipe("tokenizer").encoder) == (PAPER, PAPER_BUDGET)
    changed = preset_of(Encoder(preset="paper", features=24, kernel="cosine", criterion="bic", shape=1.0))
    options = changed.options.flat()
    assert (options["features"], options["kernel"], options["similarity"]) == (24, "cosine", "cosine")
    assert (changed.budget.name, changed.budget.shape, changed.budget.penalty) == ("bic", 1.0, PAPER_BUDGET.penalty)
    assert preset_of(Encoder(preset="paper", linear=True)).options == PAPER.changed(**options_without("cnn"))
    values = read_values("tokenizer")
    assert (values["schedule"]["rate"]["base"], values["schedule"]["weight_decay"]) == (1e-4, 1e-2)
    with pytest.raises(ValueError, match="expected kernel with the preset paper, got it with default"):
        read_recipe("tokenizer_laptop", ["encoder.kernel=cosine"])
    with pytest.raises(ValueError, match="expected a criterion or a number of tokens, got shape and 9"):
        read_recipe("tokenizer", ["encoder.shape=1.0", "encoder.tokens=9"])


def test_the_ablations_without_training_have_the_papers_values():
    rows = ablations(BASES["paper"])
    values = {table: [row.name for row in rows if row.table == table] for table in dict.fromkeys(row.table for row in rows)}
    assert values["dimension d"] == ["3", "6", "8", "16", "24", "32"]
    assert [row.without for row in rows if row.table == "components"] == [None, *COMPONENTS]
