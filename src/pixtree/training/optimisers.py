"""Optimisers over groups of parameters that have a learning rate of their own."""

from importlib import import_module
from typing import Any

from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from pixtree.training.plan import Plan

SCALE = "lr_scale"  # timm's name for the factor of a group's rate


def optimiser_of(learner: nn.Module, plan: Plan) -> Optimizer:
    """The optimiser of a plan over what is trained; factors of single rates are kept in its groups."""
    groups = parameter_groups(learner, plan)
    betas = (plan.momentum, 0.999)
    if plan.optimiser == "adamw":
        return AdamW(groups, plan.rate, betas, plan.epsilon, plan.decay)
    if plan.optimiser == "sgd":
        return SGD(groups, plan.rate, plan.momentum, weight_decay=plan.decay)
    from pixtree.models.timm_import import timm

    lamb: type[Optimizer] = import_module(f"{timm.__name__}.optim.lamb").Lamb
    return lamb(groups, lr=plan.rate, betas=betas, eps=plan.epsilon, weight_decay=plan.decay)  # type: ignore[call-arg]


def parameter_groups(learner: Any, plan: Plan) -> list[dict[str, Any]]:
    """Groups of equal decay and rate: no decay for vectors, rates that fall towards the first block, and the plan's `scales`."""
    spared = set(learner.no_weight_decay()) if hasattr(learner, "no_weight_decay") else set()
    depth = layer_of(learner) if plan.layer_decay < 1 else {}
    deepest = max(depth.values(), default=0)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in learner.named_parameters():
        if not parameter.requires_grad:
            continue
        decay = 0.0 if name in spared or (parameter.ndim <= 1 and hasattr(learner, "no_weight_decay")) else plan.decay
        scale = next((factor for start, factor in plan.scales if name.startswith(start)), None)
        if scale is None:
            scale = plan.layer_decay ** (deepest - depth[name]) if depth else 1.0
        groups.setdefault((decay, scale), []).append(parameter)
    return [{"params": members, "weight_decay": decay, SCALE: scale} for (decay, scale), members in groups.items()]


def layer_of(learner: Any) -> dict[str, int]:
    """The number of the layer that each parameter of a timm model is in, from the stem to the head."""
    if not hasattr(learner, "group_matcher"):
        raise ValueError(f"layer decay needs a model that knows its layers, got {type(learner).__name__}; set layer_decay to 1")
    from pixtree.models.timm_import import timm

    found = timm.models.group_parameters(learner, learner.group_matcher(coarse=False), reverse=True)
    return {name: int(layer) for name, layer in found.items()}
