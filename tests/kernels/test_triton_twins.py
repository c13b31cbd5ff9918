"""Every function that Triton has gives, to the bit, what its definition gives for the cases of all backends."""

import inspect

import pytest
import torch
from interpreted import TRITON
from test_every_twin import CASES, DEFINED, UNTWINNED, tensors

from pixtree.kernels import NAMES

pytestmark = pytest.mark.usefixtures("interpreting")

TWINS = sorted(set(vars(type(TRITON))) & set(NAMES))
EVERY = {**CASES, **UNTWINNED}
EVERY_NTH = {"build": 6, "pixelwise_cut": 17, "scores": 3}  # the interpreter takes its time; all run in `make test-all`


def check(name: str, step: int) -> None:
    definition, twin = getattr(DEFINED, name), getattr(TRITON, name)
    for arguments in EVERY[name]()[::step]:
        expected, found = definition(*arguments), twin(*arguments)
        for a, b in zip(tensors(expected), tensors(found), strict=True):
            assert a.dtype == b.dtype
            assert torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_in_triton_gives_what_its_definition_gives(name):
    check(name, EVERY_NTH.get(name, 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EVERY_NTH))
def test_a_twin_in_triton_gives_what_its_definition_gives_in_all_cases(name):
    check(name, 1)


def test_a_twin_in_triton_has_the_arguments_of_its_definition():
    for name in TWINS:
        definition, twin = getattr(DEFINED, name), getattr(TRITON, name)
        assert list(inspect.signature(definition).parameters) == list(inspect.signature(twin).parameters), name
        assert ".triton" in twin.__module__


def test_cuts_run_in_triton_from_images_to_labels():
    assert {
        "build",
        "blends",
        "cheapest_cut",
        "choose_batch",
        "cut_batch",
        "flat_zones",
        "misfits",
        "pixelwise_cut",
        "scores",
    } <= set(TWINS)
