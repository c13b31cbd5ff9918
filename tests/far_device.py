"""A stand-in for a GPU on a machine that has none: tensors that say they are elsewhere, and a device that refuses to be read.

`Far` tensors report the device xla:0, hold their values in CPU memory, and run every operator of torch there. While `FarDevice` is
active, it refuses whatever would make a real device wait or fail: reading values (`item`, `numpy`, `tolist`, `bool`, `cpu`),
operators whose result's size depends on values (`nonzero`, boolean masks, `unique`), `bincount`, copies between the host and the
device, tensors of both in one operator, and operators of this library that have code for the CPU only. Transfers that pass
`pixtree.runtime.transfer` are counted. What it cannot show is speed, and the order of work on a real device.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map

from pixtree.kernels import operators
from pixtree.runtime import transfer

ELSEWHERE = torch.device("xla", 0)  # of a kind that torch knows without its driver
READING = {
    *("_local_scalar_dense", "nonzero", "nonzero_numpy", "argwhere", "masked_select", "bincount", "equal", "is_nonzero", "item"),
    *("unique_dim", "unique_consecutive", "_unique2", "_unique", "_linalg_check_errors", "allclose"),
}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}


class HostReadError(RuntimeError):
    """The host asked the device for a value, or copied behind the back of `pixtree.runtime.transfer`."""


class Far(Tensor):
    """A tensor of the other device."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "Far":
        made = Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype, device=held.device
        )
        made.held = held.detach()
        return made

    device = property(lambda self: ELSEWHERE)  # type: ignore[assignment]

    def __repr__(self, **_: Any) -> str:
        return f"Far({tuple(self.shape)}, {self.dtype})"

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise HostReadError("the host read a tensor of the device")

    item = tolist = numpy = cpu = __bool__ = __int__ = __float__ = __index__ = __array__ = _refuse

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """As usual, but for the host: to torch itself this tensor is there already."""
        if any(one == "cpu" or one == torch.device("cpu") for one in (*args, *kwargs.values()) if not isinstance(one, Tensor)):
            self._refuse()
        return super().to(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise HostReadError(f"{func} ran while the device was not there; use `with FarDevice():`")

    __torch_function__ = torch._C._disabled_torch_function_impl


class FarDevice(TorchDispatchMode):
    """The device: what runs on it, and how many transfers there were, `out` and `back`."""

    def __init__(self, monkeypatch: Any) -> None:
        super().__init__()
        self.out, self.back, self.bytes = 0, 0, 0
        monkeypatch.setattr(transfer, "to_host", self.to_host)
        monkeypatch.setattr(transfer, "to_device", self.to_device)

    def to_host(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        assert all(isinstance(one, Far) for one in tensors), "a transfer of tensors that are on the host already"
        self.out += 1
        self.bytes += sum(one.numel() * one.element_size() for one in tensors)
        return [one.held.clone() for one in tensors]

    def to_device(self, tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
        assert device == ELSEWHERE
        assert not any(isinstance(one, Far) for one in tensors), "a transfer of tensors that are on the device already"
        self.back += 1
        self.bytes += sum(one.numel() * one.element_size() for one in tensors)
        return [Far(one.clone()) for one in tensors]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        given = tree_flatten((args, kwargs))[0]
        far = [one for one in given if isinstance(one, Far)]
        wanted = kwargs.get("device")
        if not far and wanted != ELSEWHERE:
            return func(*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        if func.namespace == "pixtree":
            with self:
                return own(name)(*args, **kwargs)
        _refuse_reads(func, name, args, kwargs, given, far, wanted)
        if wanted is not None:
            kwargs["device"] = torch.device("cpu")
        result = func(*tree_map(_held, args), **tree_map(_held, kwargs))
        wrapped = tree_map(lambda one: Far(one) if isinstance(one, Tensor) else one, result)
        return return_and_correct_aliasing(func, args, kwargs, wrapped) if far else wrapped


def _held(value: Any) -> Any:
    return value.held if isinstance(value, Far) else value


def own(name: str) -> Any:
    """The code of one of our operators, if it has any for devices other than the CPU."""
    definition = getattr(operators, name, None)
    found = getattr(definition, "_backend_fns", {}).get(None)
    if found is None:
        raise HostReadError(f"pixtree::{name} has code for the CPU only, got tensors of the device")
    return found


def _refuse_reads(func: Any, name: str, args: Any, kwargs: Any, given: list[Any], far: list[Far], wanted: Any) -> None:
    if name in READING or (name == "repeat_interleave" and kwargs.get("output_size") is None and len(args) < 3):
        raise HostReadError(f"{func} makes the host wait for the device")
    if name in INDEXING and any(one is not None and one.dtype in (torch.bool, torch.uint8) for one in args[1]):
        raise HostReadError(f"{func} with a mask makes the host wait for the device")
    near = [one for one in given if isinstance(one, Tensor) and not isinstance(one, Far)]
    if wanted == ELSEWHERE and near:
        raise HostReadError(f"{func} copies between the host and the device")
    # As with CUDA, a scalar of the host may take part in arithmetic; it is passed as a number.
    if far and any(one.ndim > 0 for one in near):
        raise HostReadError(f"{func} got tensors of the host and of the device")
    if near and name in ("copy_", "_to_copy"):
        raise HostReadError(f"{func} copies between the host and the device")


def far_copy(module: nn.Module) -> nn.Module:
    """A copy of a module whose weights and buffers are on the device; gradients are then Far as well."""
    moved = deepcopy(module)
    for part in moved.modules():
        for name, weight in part._parameters.items():
            if weight is not None:
                part._parameters[name] = Far(weight.detach().clone()).requires_grad_(weight.requires_grad)  # type: ignore[assignment]
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = Far(buffer.detach().clone())
    return moved


def near(value: Tensor) -> Tensor:
    """The values of a tensor of the device, for comparisons in tests."""
    assert isinstance(value, Far)
    return value.held
