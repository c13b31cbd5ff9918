"""Options: everything that a tokenizer is made of, as plain values in groups, each of which can be given by its flat name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from pixtree.trees.options import TreeOptions

BESIDE_COLOURS = 3  # features: with Lab and two coordinates they make eight channels, which the processor takes at once


@dataclass(frozen=True)
class EncoderOptions:
    """The layers of the encoder, see `Encoder`."""

    channels: int = 3
    features: int = 8
    hidden: int = 32
    kernel_size: int = 2
    linear: bool = False
    activation: bool = False
    corners: bool = False


@dataclass(frozen=True)
class SamplingOptions:
    """How regions are sampled, see `Sampler`.

    patch: q, samples per side of a token.
    smallest_box: the shortest side of a sampled box in pixels; None is the patch.
    largest_box: the longest side; 0 is no limit. None is no limit too, except in a retrofit, where it is two patches.
    mix: where λ starts; 0 and 1 stay as they are.
    """

    patch: int = 16
    smallest_box: int | None = None
    largest_box: int | None = None
    mix: float = 0.9

    @property
    def boxes(self) -> tuple[int, int | None]:
        """Shortest and longest side of a box as `Sampler` takes them."""
        return self.patch if self.smallest_box is None else self.smallest_box, self.largest_box or None


@dataclass(frozen=True)
class PositionOptions:
    """positions: bins p per side, 0 for none. position_kernel, bandwidth: how pixels count for bins, see `axis_bins`."""

    positions: int = 16
    position_kernel: str = "hard"
    bandwidth: float = 0.3


@dataclass(frozen=True)
class Options:
    """Everything that a tokenizer is made of.

    width: D, the length of a token; None leaves tokens as their C·q·q samples, without projection and positions.
    decision: the source of the distance between pixels, "lab" (colour, positions and w·f) or "features" (f alone).
    compared: how many of the d features the distance compares, from the first on; None is three beside colours, and all alone.
    aggregation, kernel: how regions weigh their members, see `aggregate`.
    gradients: bins of gradient histograms, 0 for none. prefix: class and register tokens.
    mean, std: normalisation of the samples, per channel.
    """

    encoder: EncoderOptions = EncoderOptions()
    tree: TreeOptions = field(default=TreeOptions(similarity="likelihood", compactness=0.1))
    sampling: SamplingOptions = SamplingOptions()
    placing: PositionOptions = PositionOptions()
    width: int | None = 384
    decision: str = "lab"
    compared: int | None = None
    aggregation: str = "straight"
    kernel: str = "gaussian"
    gradients: int = 0
    prefix: int = 1
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)

    @property
    def compared_features(self) -> int:
        """`compared` as a number."""
        usual = min(BESIDE_COLOURS, self.encoder.features) if self.decision == "lab" else self.encoder.features
        return usual if self.compared is None else self.compared

    def changed(self, **values: Any) -> "Options":
        """The same with other values, by flat names: `options.changed(compactness=0.0, hidden=16)`."""
        unknown = sorted(set(values) - set(self.flat()))
        if unknown:
            known = ", ".join(self.flat())
            raise TypeError(f"a tokenizer has no option {', '.join(unknown)}; it has {known}")
        groups: dict[str, Any] = {}
        for name, group in _groups(self).items():
            own = {key: value for key, value in values.items() if key in _names(group)}
            groups[name] = replace(group, **own) if own else group
        return replace(self, **groups, **{key: value for key, value in values.items() if key in _names(self)})

    def flat(self) -> dict[str, Any]:
        """All values by their flat names, as `config.json` keeps them."""
        found: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            found |= {name: getattr(value, name) for name in _names(value)} if is_dataclass(value) else {one.name: value}
        return found


def options_from(values: Mapping[str, Any]) -> Options:
    """Options from flat values, such as those of a `config.json`; missing ones have their defaults.

    Files of version 0.1 do not say how many features are compared: there it was all of them.
    """
    known = {"compared": values.get("features", Options().encoder.features), **values}
    return Options().changed(**{key: tuple(value) if isinstance(value, list) else value for key, value in known.items()})


def _groups(options: Options) -> dict[str, Any]:
    return {one.name: getattr(options, one.name) for one in fields(options) if is_dataclass(getattr(options, one.name))}


def _names(value: Any) -> list[str]:
    """Names of the plain fields of a dataclass."""
    return [one.name for one in fields(value) if not is_dataclass(getattr(value, one.name))]
