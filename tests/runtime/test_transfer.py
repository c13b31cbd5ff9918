"""Transfers: many tensors of many types travel as one buffer, and arrive as they were."""

import pytest
import torch

from pixtree.runtime import transfer
from pixtree.runtime.backend import trees_on_host

CPU = torch.device("cpu")


def mixed() -> list[torch.Tensor]:
    values = torch.arange(35).view(5, 7)
    return [
        values.to(torch.uint8),
        values.T.to(torch.float32),
        torch.tensor(2.5),
        values > 9,
        values.to(torch.float64)[:, 1:4],
        torch.empty((3, 0, 2), dtype=torch.int32),
        values.to(torch.int32)[1:],
        values.to(torch.int16).flatten()[:3],
        torch.arange(5.0).requires_grad_(),
    ]


@pytest.mark.parametrize("move", [transfer.to_host, lambda tensors: transfer.to_device(tensors, CPU)])
def test_tensors_of_all_types_and_shapes_arrive_as_they_were(move):
    sent = mixed()
    found = move(sent)
    for a, b in zip(sent, found, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert torch.equal(a, b)
        assert not b.requires_grad


def test_what_comes_to_the_host_shares_one_buffer():
    assert len({one.untyped_storage().data_ptr() for one in transfer.to_host(mixed())}) == 1


def test_what_comes_to_a_device_has_memory_of_its_own():
    sent = [one for one in mixed() if one.numel()]
    pointers = {one.untyped_storage().data_ptr() for one in transfer.to_device(sent, CPU)}
    assert len(pointers) == len(sent)
    assert pointers.isdisjoint({one.untyped_storage().data_ptr() for one in sent})


def test_every_part_of_a_buffer_is_aligned_for_its_type():
    for one in transfer.to_host(mixed()):
        assert one.storage_offset() * one.element_size() % 8 == 0


def test_only_the_default_backend_makes_trees_on_the_host():
    cuda = torch.device("cuda")
    assert trees_on_host("auto", cuda)
    assert not trees_on_host("torch", cuda)
    assert not trees_on_host("auto", CPU)
    with pytest.raises(ValueError, match="the numba backend works on CPU tensors"):
        trees_on_host("numba", cuda)


def test_work_on_the_cpu_gets_the_tensors_themselves():
    one = torch.ones(3)
    assert transfer.on_host(lambda given: [given], (one,))[0] is one


def test_numbers_take_the_type_of_their_neighbours():
    like = torch.zeros(2, dtype=torch.float64)
    assert torch.equal(transfer.filled((1.0, 2.5), like), torch.tensor([1.0, 2.5], dtype=torch.float64))
    assert transfer.scalar(0.5, like).dtype == transfer.scalar(torch.tensor(0.5), like).dtype == torch.float64
