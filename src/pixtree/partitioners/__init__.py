"""Ways to a Partition, by name: the tree itself, square patches, quadtrees, known superpixel methods.

`partitioner("slic", tokens=200)` maps images (B, C, H, W) to a Partition; its `raw_labels(image)` returns the
method's own segments of one image (C, H, W), connected or not.
"""

from dataclasses import fields
from typing import Any

from pixtree.partitioners.baseline import Baseline
from pixtree.partitioners.classical import Felzenszwalb, Lsc, Seeds, Slic, Watershed
from pixtree.partitioners.grid import Grid
from pixtree.partitioners.hierarchical import Quadtree, Spit, Tree

_METHODS: dict[str, type[Baseline]] = {
    "pixtree": Tree,
    "grid": Grid,
    "quadtree": Quadtree,
    "slic": Slic,
    "felzenszwalb": Felzenszwalb,
    "seeds": Seeds,
    "lsc": Lsc,
    "watershed": Watershed,
    "spit": Spit,
}
NAMES = tuple(_METHODS)


def partitioner(name: str, tokens: int | None = None, **options: Any) -> Baseline:
    """The partitioner `name` for about `tokens` regions per image; `options` are the fields of its class.

    `pixtree` and `quadtree` give exactly `tokens`; the others come as near as they can. Only grid does without a count:
    partitioner("grid", patch=16).
    """
    if name not in _METHODS:
        raise ValueError(f"unknown partitioner {name!r}; choose one of {', '.join(NAMES)}")
    method = _METHODS[name]
    known = [field.name for field in fields(method) if field.name != "tokens"]
    for option in options:
        if option not in known:
            raise ValueError(f"{name} has no option {option!r}; it has {', '.join(known) or 'none'}")
    if tokens is None and "patch" not in options:
        raise ValueError(f"{name} needs a count of regions, got none; pass tokens=200")
    return method(tokens, **options)  # type: ignore[arg-type]


def name_of(engine: Baseline) -> str:
    """The name under which `partitioner` makes an engine of this kind."""
    return next(name for name, method in _METHODS.items() if method is type(engine))


__all__ = ["NAMES", "Baseline", "name_of", "partitioner"]
