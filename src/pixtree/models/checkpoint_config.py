"""The config of a checkpoint: its form, and bounds of its numbers, checked before anything is built from it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from pixtree.partitioners import partitioner
from pixtree.tokenizer.cutting import PerPatch
from pixtree.tokenizer.tokenizer import Options, options_from
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import AtMost, Exactly, Level

BUDGETS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Exactly, AtMost, Level, Criterion, PerPatch)}
MOST_BYTES = 1 << 20  # of the file
LARGEST = 1 << 20  # number that sizes a part of a model; how much all parts take together is checked against the weights
DEEPEST = 256  # blocks: their number costs time and memory even where no weights are allocated
LONGEST = 1024  # text or list


def parsed_config(content: bytes, name: str) -> dict[str, Any]:
    """The config in a file, with all values of the right form; refused with the reason. `name` is that of the file."""
    if len(content) > MOST_BYTES:
        raise ValueError(f"a config has at most {MOST_BYTES} bytes, {name} has {len(content)}; save the model again")
    try:
        config = from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise ValueError(f"expected a config in JSON, got {name} ({error}); save the model again") from None
    if not isinstance(config, dict) or config.get("library") != "pixtree":
        raise ValueError(f'expected a config with "library": "pixtree", got another in {name}; save the model with pixtree')
    try:
        Config.model_validate(config)
    except ValidationError as error:
        raise ValueError(
            f"expected a config that pixtree has written, got {first_fault(error)} in {name}; save the model again"
        ) from None
    return config


def budget_from(config: Mapping[str, Any]) -> Any:
    """The budget of a config: the kind, by name, and its values."""
    if str(config.get("kind")) not in BUDGETS:
        raise ValueError(f"kind is one of {', '.join(BUDGETS)}")
    return _typed(BUDGETS[config["kind"]], {key: value for key, value in config.items() if key != "kind"})


def partitioner_from(config: Mapping[str, Any] | None) -> Any:
    """The partitioner of a config, by name with its options, or None."""
    if config is None:
        return None
    options = {key: value for key, value in config.items() if key not in ("name", "tokens") and value is not None}
    engine = _plainly(lambda: partitioner(config["name"], config["tokens"], **options))
    _typed(type(engine), {key: value for key, value in {**options, "tokens": config["tokens"]}.items() if value is not None})
    return engine


def tokenizer_from(config: Mapping[str, Any]) -> Options:
    """The options of the tokenizer of a config. Files of version 0.1 have null for boxes without a limit."""
    found: Options = _plainly(lambda: options_from({**config, "largest_box": config["largest_box"] or 0}))
    _typed(Options, asdict(found))
    return found


def _plainly(build: Callable[[], Any]) -> Any:
    """What `build` returns; errors of values that it did not expect become those of a wrong config."""
    try:
        return build()
    except (TypeError, KeyError, AttributeError) as error:
        missing = isinstance(error, KeyError)
        raise ValueError(f"{error} is missing" if missing else str(error)) from None


def _typed(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """A dataclass from plain values of exactly its types."""
    unknown = [name for name in values if name not in {one.name for one in fields(kind)}]
    if unknown:
        raise ValueError(f"{kind.__name__} has no {', '.join(unknown)}")
    try:
        return TypeAdapter(kind).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise ValueError(first_fault(error)) from None


def first_fault(error: ValidationError) -> str:
    """The first fault as words on one line."""
    fault = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in fault["loc"])
    words = " ".join(str(fault["msg"]).removeprefix("Value error, ").split())
    return f"{place}: {words}" if place else words


def _bounded(value: Any) -> Any:
    """A plain value without anything that is huge."""
    match value:
        case bool() | None | float():
            pass
        case int() if abs(value) <= LARGEST:
            pass
        case str() | list() if len(value) <= LONGEST:
            for one in value if isinstance(value, list) else ():
                _bounded(one)
        case dict() if len(value) <= LONGEST:
            for key, one in value.items():
                if key == "depth" and isinstance(one, int) and one > DEEPEST:
                    raise ValueError(f"depth is at most {DEEPEST}, not {one}")
                _bounded(one)
        case _:
            raise ValueError(f"{str(value)[:40]} is too large or not a plain value")
    return value


def _is_valid(build: Callable[[Any], Any]) -> AfterValidator:
    def check(values: Any) -> Any:
        build(values)
        return values

    return AfterValidator(check)


Plain = Annotated[dict[str, Any], AfterValidator(_bounded)]
Channels = Annotated[list[float], Field(min_length=1, max_length=64)]
Size = Annotated[int, Field(ge=1, le=LARGEST)]


class PretrainedValues(BaseModel):
    """What a model keeps of timm's `pretrained_cfg`."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    mean: Channels | None = None
    std: Channels | None = None
    input_size: Annotated[list[Size], Field(min_length=3, max_length=3)] | None = None


class Config(BaseModel):
    """Everything that rebuilds a model except its weights. Files of version 0.1 lack the image size."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())
    library: Literal["pixtree"]
    architecture: Any  # compared with timm's own names
    model_args: Plain
    num_classes: Annotated[int, Field(ge=0, le=LARGEST)]
    global_pool: Annotated[str, Field(max_length=50)]
    pretrained_cfg: PretrainedValues
    budget: Annotated[dict[str, Any], _is_valid(budget_from)]
    partitioner: Annotated[dict[str, Any] | None, _is_valid(partitioner_from)]
    tokenizer: Annotated[Plain, _is_valid(tokenizer_from)]
    position_resolution: Annotated[int, Field(ge=1, le=4096)] | None
    image_size: Annotated[list[Size], Field(min_length=2, max_length=2)] | None = None
