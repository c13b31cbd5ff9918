"""The operators of torch: their names and schemas, which exported models contain, and the functions that compute them."""

import inspect
from importlib import import_module

import pytest
import torch
from fresh_process import found, loaded_after
from pictures import photo
from torch.library import opcheck

from pixtree.kernels import kernels_for, operators

SCHEMAS = """
pixtree::cell_counts(Tensor labels, SymInt count, SymInt rows, SymInt columns) -> Tensor
pixtree::cell_shares(Tensor labels, SymInt count, SymInt bins, str kernel, float bandwidth) -> Tensor
pixtree::cut_exactly(Tensor images, Tensor features, Tensor scale, SymInt count, bool colour, float unit, float[] rule, \
bool levels, str backend) -> (Tensor, Tensor, Tensor)
pixtree::denormalised(Tensor images, Tensor mean, Tensor std) -> Tensor
pixtree::embed_cells(Tensor labels, SymInt count, SymInt rows, SymInt columns, Tensor table) -> (Tensor, Tensor)
pixtree::embed_cells_backward(Tensor gradient, Tensor histogram) -> Tensor
pixtree::encode(Tensor images, Tensor lift, Tensor offset, Tensor first, Tensor bias, Tensor second, Tensor shift) -> Tensor
pixtree::encode_backward(Tensor gradient, Tensor images, Tensor first, Tensor bias, Tensor second) -> \
(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)
pixtree::encode_images_backward(Tensor gradient, Tensor images, Tensor lift, Tensor first, Tensor bias, Tensor second) -> Tensor
pixtree::means_and_sizes(Tensor values, Tensor labels, SymInt count) -> (Tensor, Tensor)
pixtree::paint(Tensor rows, Tensor labels) -> Tensor
pixtree::raw_sums(Tensor features, Tensor fixed, Tensor weight, Tensor precision, Tensor labels, SymInt count, Tensor levels, \
SymInt compared) -> Tensor
pixtree::region_boxes(Tensor labels, SymInt count) -> Tensor
pixtree::region_sizes(Tensor labels, SymInt count) -> Tensor
pixtree::region_sums(Tensor values, Tensor labels, SymInt count) -> Tensor
pixtree::sample_boxes(Tensor pixels, Tensor change, Tensor scale, Tensor shift, Tensor labels, Tensor frame, Tensor mix, \
Tensor background) -> (Tensor, Tensor)
pixtree::sample_boxes_backward(Tensor gradient, Tensor pixels, Tensor change, Tensor scale, Tensor shift, Tensor labels, \
Tensor frame, Tensor mix, Tensor background, Tensor inside) -> (Tensor, Tensor, Tensor)
pixtree::straight_gradients(Tensor gradient, Tensor features, Tensor fixed, Tensor weight, Tensor precision, Tensor labels, \
Tensor levels, SymInt compared) -> (Tensor, Tensor)
pixtree::straight_means(Tensor features, Tensor fixed, Tensor weight, Tensor precision, Tensor labels, SymInt count, \
Tensor levels, SymInt compared) -> Tensor
pixtree::ward_labels(Tensor features, Tensor weights, SymInt count, SymInt rounds) -> Tensor
pixtree::whole_bytes(Tensor images) -> Tensor
"""
IMAGES = torch.stack([photo(height=20, width=22), photo("coffee", 20, 22)])
RULE = (4.0, 1.0, 10.0, 2.0, 1.0)
EVERY_CHECK = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def test_exported_models_find_the_operators_that_they_contain():
    assert sorted(found()["schemas"]) == SCHEMAS.strip().splitlines()


def test_no_operator_loads_numba_before_it_runs():
    assert "numba" not in loaded_after("pixtree.kernels.operators")


def test_every_operator_names_a_function_that_takes_its_arguments():
    defined = [value for value in vars(operators).values() if isinstance(value, torch.library.CustomOpDef)]
    assert len(defined) == len(SCHEMAS.strip().splitlines())
    for one in defined:
        path = inspect.getclosurevars(one._init_fn).nonlocals.get("function")
        module, _, name = (path or "operators._cut").rpartition(".")
        function = getattr(import_module(f"pixtree.kernels.{module}"), name)
        inspect.signature(function).bind(*one._opoverload._schema.arguments)


@pytest.mark.parametrize("levels", [False, True])
@pytest.mark.parametrize("colour", [False, True])
def test_the_cut_passes_opcheck(levels, colour):
    features = torch.rand(2, 4, 440, generator=torch.Generator().manual_seed(0))
    arguments = (IMAGES, features, torch.tensor(10.0), 9, colour, 1.0 if colour else 0.0, RULE, levels, "auto")
    # Levels have entries that no kernel reads or writes, so their values cannot be compared.
    opcheck(operators.cut_exactly, arguments, test_utils=("test_schema", "test_faketensor") if levels else EVERY_CHECK)


@pytest.mark.parametrize("operator", ["whole_bytes", "denormalised"])
def test_operators_of_pixels_pass_opcheck(operator):
    values = (IMAGES / 255.0).requires_grad_()
    opcheck(getattr(operators, operator), (values,) if operator == "whole_bytes" else (values, torch.rand(3), torch.rand(3)))


def test_the_operator_of_token_trees_passes_opcheck():
    random = torch.Generator().manual_seed(0)
    opcheck(operators.ward_labels, (torch.rand(2, 23, 5, generator=random), torch.rand(2, 23, generator=random) + 0.1, 12, 8))


def test_operators_check_what_kernels_trust():
    features = torch.full((2, 1, 440), torch.nan)
    with pytest.raises(ValueError, match="features must be finite"):
        operators.cut_exactly(IMAGES, features, torch.tensor(1.0), 2, False, 0.0, RULE, False, "auto")


def test_a_function_around_them_compiles_as_one_graph():
    def region_means(features):
        labels = torch.ops.pixtree.cut_exactly(IMAGES, features, torch.tensor(1.0), 10, True, 0.0, RULE, False, "auto")[0]
        index = labels.flatten(1).to(torch.int64)
        sums = torch.zeros(2, 10, 3).scatter_add(1, index[..., None].expand(-1, -1, 3), features.mT)
        return sums / torch.nn.functional.one_hot(index, 10).sum(1)[..., None]

    features = torch.stack([kernels_for().lab(one) for one in IMAGES])
    compiled_function = torch.compile(region_means, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled_function(features), region_means(features))
