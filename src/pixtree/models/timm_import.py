"""The one import of timm: late, and also on machines whose torchvision lacks its compiled operators."""

from importlib import import_module
from typing import Any

import torch

_KEPT: list[Any] = []  # definitions of operators live as long as their library object


def import_timm() -> Any:
    """The module timm, or an error that names the package to install."""
    try:
        _import_torchvision()
        return import_module("timm")
    except ImportError as error:
        raise ImportError(f"models need timm and torchvision ({error}); run pip install 'pixtree[models]'") from None


def _import_torchvision() -> None:
    try:
        import_module("torchvision")
    except RuntimeError:
        # Its Python part registers fakes for compiled operators that this build lacks; for that, schemas suffice.
        library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)
        import_module("torchvision")


timm: Any = import_timm()
