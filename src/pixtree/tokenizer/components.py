"""The components of the paper's tokenizer, which its ablation leaves out one at a time. [`tab:ablation_rebuttal`]"""

from typing import Any, Literal

from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.trees.cuts import Level

Component = Literal["cnn", "blending", "beta", "kernel", "selection"]
# Without selection the tokens are the regions of one level. In the paper there are many more of them than with selection; this is
# the coarsest level with more at every size from 64 to 224 px, where level 4 has about as many as the criterion chooses, or fewer.
LEVEL = Level(3)
_CHANGES: dict[Component, dict[str, Any]] = {
    "cnn": {"linear": True},
    "blending": {"mix": 0.0},
    "beta": {"background": 0.0},
    "kernel": {"aggregation": "mean"},
    "selection": {},
}


def options_without(component: Component | None) -> dict[str, Any]:
    """Changes to `Options` that leave a component out, for models that are made anew."""
    return {} if component is None else dict(_CHANGES[component])


def fix_without(component: Component | None, tokenizer: Tokenizer) -> None:
    """Keep what has no option from learning: β stays where it starts, at 0."""
    if component == "beta":
        tokenizer.sampler.background.requires_grad_(False)


def lacks(component: Component, tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer was made without a component."""
    if component == "selection":
        return tokenizer.budget == LEVEL
    options = tokenizer.options.flat()
    return all(options[name] == value for name, value in _CHANGES[component].items())
