"""Recipes: all settings of a training in one YAML file, checked before any work. Those of the paper are shipped."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

GIVEN = "given"  # the start of a recipe that --start must name
SIZES = ("tiny", "small", "base", "large")


class Part(BaseModel):
    """A part of a recipe: values that do not change, and no keys that nobody reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Rate(Part):
    """The learning rate: it rises from `start` to `base`, and falls along a cosine to `stop`."""

    start: float = Field(default=0.0, ge=0)
    base: float = Field(gt=0)
    stop: float = Field(default=0.0, ge=0)


class Schedule(Part):
    """Length, batches and optimiser.

    warmup: epochs. part: pictures at a time, if a batch does not fit the memory; padded_tokens: instead, the most tokens at a
    time, padding included, where pictures differ in their counts. own_rate: factor of the rate of λ, β, κ and the encoder; by
    default they are the first layer. average: decay of the moving average of the weights. checkpointing: recompute blocks in the
    backward pass.
    """

    batch: int = Field(gt=0)
    epochs: float = Field(gt=0)
    warmup: float = Field(default=0.0, ge=0)
    rate: Rate
    falling: bool = True
    optimiser: Literal["adamw", "lamb", "sgd"]
    momentum: float = Field(default=0.9, ge=0, lt=1)
    epsilon: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    own_rate: float | None = Field(default=None, gt=0)
    clip: float | None = Field(default=None, gt=0)
    average: float = Field(default=0.0, ge=0, lt=1)
    precision: Literal["float32", "bfloat16"] = "float32"
    checkpointing: bool = False
    part: int | None = Field(default=None, gt=0)
    padded_tokens: int | None = Field(default=None, gt=0)
    seed: int = 0


class Model(Part):
    """The model, and where its weights come from.

    name: a model of timm, or a pixtree_… one to train from scratch. tokenizer: regions in place of the patches of a timm model,
    by the paper's tokenizer or ours; none leaves the patches. tokens: regions, by default the tokenizer's own count. start:
    fresh; timm, whose weights are downloaded; given by --start; or a path: a folder that a run wrote, or a timm model's
    .safetensors. encoder: fresh, shipped, or a .safetensors file of `pixtree train tokenizer`. frozen: the encoder does not
    learn, and the processes that read pictures cut them. drop_path: one rate, or one per size of the model.
    """

    name: str
    start: str = "fresh"
    classes: int | Literal["data"] = "data"
    image_size: int = Field(ge=8)
    tokenizer: Literal["paper", "pixtree"] | None = None
    tokens: int | None = Field(default=None, gt=0)
    position_resolution: int | None = Field(default=None, gt=0)
    drop_path: float | dict[Literal["tiny", "small", "base", "large"], float] = 0.0
    encoder: str = "fresh"
    frozen: bool = False
    arguments: dict[str, Any] = {}

    def dropped(self) -> float:
        """The drop path rate of this size."""
        if not isinstance(self.drop_path, dict):
            return self.drop_path
        size = next((size for size in SIZES if f"_{size}" in self.name), "another")
        if size not in self.drop_path:
            raise ValueError(
                f"expected a model of a size that model.drop_path names ({', '.join(self.drop_path)}), got {self.name}; "
                "give --set model.drop_path=0.1"
            )
        return self.drop_path[size]


class Augment(Part):
    """Random changes of pictures: timm's policies, of which each picture draws one, crops, and mixtures of two pictures."""

    policies: tuple[str, ...] = ()
    color_jitter: float = Field(default=0.0, ge=0)
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (0.75, 1.3333)
    mixup: float = Field(default=0.0, ge=0)
    cutmix: float = Field(default=0.0, ge=0)


class Recipe(Part):
    """What all recipes have: what they are for, the paper's table that they follow, and where they had to depart from it."""

    about: str
    table: str | None = None
    notes: tuple[str, ...] = ()
    schedule: Schedule


class Reconstruction(Part):
    """Weights of the losses of tokenizer pretraining."""

    reconstruction: float = Field(default=1.0, ge=0)
    association: float = Field(default=0.0, ge=0)


class Encoder(Part):
    """The tokenizer's encoder: a preset of `pixtree train tokenizer`, its features, the crops, and the regions of each."""

    preset: Literal["default", "paper"]
    features: int = Field(default=8, gt=0)
    crop: int = Field(default=160, ge=8)
    tokens: int | None = Field(default=None, gt=0)


class TokenizerRecipe(Recipe):
    """Pretraining of the tokenizer by reconstruction; epochs count crops per picture."""

    task: Literal["tokenizer"]
    encoder: Encoder
    loss: Reconstruction = Reconstruction()


class CrossEntropy(Part):
    """Cross entropy with smoothed labels."""

    smoothing: float = Field(default=0.0, ge=0, lt=1)


class ClassificationRecipe(Recipe):
    """Training with labels, from scratch or from any start."""

    task: Literal["classification"]
    model: Model
    loss: CrossEntropy = CrossEntropy()
    augment: Augment = Augment()


class MaskLosses(Part):
    """Weights of binary cross entropy and of the focal loss, with the focal loss's exponent."""

    bce: float = Field(default=1.0, ge=0)
    focal: float = Field(default=1.0, ge=0)
    gamma: float = Field(default=2.0, ge=0)


class SegmentationRecipe(Recipe):
    """Fine-tuning for semantic segmentation: a head with one hidden layer, `hidden_ratio` times as wide as a token.

    layout: in which way the data set lies on the disk, by the names of `pixtree evaluate`. Of `augment`, the crops are used.
    """

    task: Literal["segmentation"]
    layout: Literal["ade20k", "coco-stuff-164k", "coco-stuff-10k", "camvid", "voc"]
    model: Model
    hidden_ratio: int = Field(default=4, gt=0)
    loss: MaskLosses = MaskLosses()
    augment: Augment = Augment()


AnyRecipe = TokenizerRecipe | ClassificationRecipe | SegmentationRecipe
_SCHEMA: TypeAdapter[AnyRecipe] = TypeAdapter(Annotated[AnyRecipe, Field(discriminator="task")])


def shipped_recipes() -> dict[str, Path]:
    """The recipes inside the package, by name."""
    folder = Path(str(files("pixtree.training") / "recipes"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def read_recipe(name: str, changes: Sequence[str] = ()) -> AnyRecipe:
    """A shipped recipe by name, or one of your own by its file; changes are "key=value" with dots between keys."""
    import yaml

    shipped = shipped_recipes()
    path = shipped.get(name, Path(name))
    if not path.is_file():
        near = get_close_matches(name, shipped, 1)
        hint = f"did you mean {near[0]}?" if near else f"shipped are {', '.join(shipped)}"
        raise FileNotFoundError(f"expected the name of a recipe or a YAML file, found no {name!r}; {hint}")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"expected a recipe in YAML, {name!r} is none ({' '.join(str(error).split())}); correct it") from None
    for change in changes:
        _change(values, change)
    return checked_recipe(values, name)


def checked_recipe(values: Any, name: str = "the recipe") -> AnyRecipe:
    """A recipe of plain values; the first mistake is an error of one sentence."""
    try:
        return _SCHEMA.validate_python(values)
    except ValidationError as error:
        raise ValueError(_sentence(error.errors()[0], name)) from None


def _change(values: Any, change: str) -> None:
    """Put one "key=value" into nested values."""
    import yaml

    key, found, text = change.partition("=")
    if not found or not key:
        raise ValueError(f"expected a change as key=value, got {change!r}; write for example schedule.epochs=2")
    *path, last = key.split(".")
    for word in path:
        if not isinstance(values, dict) or not isinstance(values.setdefault(word, {}), dict):
            raise ValueError(f"expected a key with dots between its parts, got {key!r}; {word!r} has no parts")
        values = values[word]
    values[last] = yaml.safe_load(text)


def _sentence(error: Mapping[str, Any], name: str) -> str:
    """One mistake in a recipe, with the keys that would be right."""
    where = [
        str(word) for word in error["loc"] if word not in ("tokenizer", "classification", "segmentation") or len(error["loc"]) == 1
    ]
    key = ".".join(where) or "task"
    if error["type"] == "extra_forbidden":
        near = get_close_matches(where[-1], _keys(), 1)
        hint = f"did you mean {near[0]!r}?" if near else "remove it"
        return f"expected keys of a recipe, got {key!r} in {name}; {hint}"
    if error["type"] == "missing":
        return f"expected a value for {key!r}, got none in {name}; add it"
    given = error.get("input")
    shown = "" if isinstance(given, dict) else f", got {given!r}"
    return f"expected another value for {key!r} in {name}{shown}: {error['msg'].lower()}; correct it"


def _keys() -> set[str]:
    """All keys that recipes may have."""
    parts = (Rate, Schedule, Model, Augment, Reconstruction, Encoder, CrossEntropy, MaskLosses)
    whole = (TokenizerRecipe, ClassificationRecipe, SegmentationRecipe)
    return {key for part in (*parts, *whole) for key in part.model_fields}
