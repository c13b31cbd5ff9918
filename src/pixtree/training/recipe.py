"""Recipes: all settings of a training run in one YAML file, checked before any work. Those of the paper are shipped."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from pixtree.tokenizer.components import Component
from pixtree.training.schedule import RENAMED, Plan, Rate, Schedule, Section, sentence_of, with_new_names

GIVEN = "given"  # the start of a recipe that --start must name
SIZES = ("tiny", "small", "base", "large")


class Model(Section):
    """The model, and where its weights come from.

    name: a timm model, or a pixtree_… one to train from scratch. tokenizer: regions in place of the patches of a timm model,
    by the paper's tokenizer or ours; none keeps the patches. tokens: regions, by default the tokenizer's own count. start:
    fresh; timm, whose weights are downloaded; given by --start; or a path: a folder that a run wrote, or a timm model's
    .safetensors. encoder: fresh, shipped, or a .safetensors file of `pixtree train tokenizer`. frozen: the encoder does not
    learn, and the data loader's workers cut the images. without: a component of the tokenizer to leave out
    [`tab:ablation_rebuttal`]. drop_path: one rate, or one per size of the model.
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
    without: Component | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)

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


class Student(Section):
    """A timm model that is distilled into its version with `tokens` regions, or with token trees at a share of its `compute`.

    With several counts of tokens, every batch draws one. start: timm, whose weights are downloaded, or a .safetensors file.
    """

    name: str
    start: str = "timm"
    tokens: tuple[Annotated[int, Field(gt=0)], ...] = ()
    compute: float | None = None

    @model_validator(mode="after")
    def _of_one_kind(self) -> "Student":
        if bool(self.tokens) == (self.compute is not None):
            raise ValueError(f"expected model.tokens or model.compute, got {list(self.tokens)} and {self.compute}; give one")
        return self


class Augment(Section):
    """Random changes of images: timm's policies, of which each image draws one, crops, and mixtures of two images."""

    policies: tuple[str, ...] = ()
    color_jitter: float = Field(default=0.0, ge=0)
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (0.75, 1.3333)
    mixup: float = Field(default=0.0, ge=0)
    cutmix: float = Field(default=0.0, ge=0)


class Encoder(Section):
    """The tokenizer's encoder: a preset of `pixtree train tokenizer` with changes, the size of crops, and the regions of each.

    linear: no convolutions, for models without "cnn". kernel, criterion, shape: κ of the paper's preset, its criterion, and the
    exponent b of the residuals' distribution [`tab:hyperparam_ablations`, `tab:sensitivity_gaussian`].
    """

    preset: Literal["default", "paper"]
    features: int = Field(default=8, gt=0)
    linear: bool = False
    kernel: Literal["gaussian", "cosine", "tanimoto"] | None = None
    criterion: Literal["aic", "aicc", "bic", "cic"] | None = None
    shape: float | None = Field(default=None, gt=0)
    crop: int = Field(default=160, ge=8)
    tokens: int | None = Field(default=None, gt=0)
    compactness: float | None = None

    @model_validator(mode="after")
    def _of_the_preset(self) -> "Encoder":
        given = [key for key in ("kernel", "criterion", "shape") if getattr(self, key) is not None]
        if given and self.preset != "paper":
            raise ValueError(f"expected {given[0]} with the preset paper, got it with {self.preset}; set encoder.preset=paper")
        if self.tokens is not None and given not in ([], ["kernel"]):
            raise ValueError(f"expected a criterion or a number of tokens, got {given[-1]} and {self.tokens}; give one")
        return self


class Reconstruction(Section):
    """Weights of the losses of tokenizer pretraining."""

    reconstruction: float = Field(default=1.0, ge=0)
    association: float = Field(default=0.0, ge=0)


class CrossEntropy(Section):
    """Cross entropy with smoothed labels."""

    smoothing: float = Field(default=0.0, ge=0, lt=1)


class MaskLosses(Section):
    """Weights of the tokens' cross entropy and focal loss, γ of the latter, and the weight of the class token's cross entropy."""

    bce: float = Field(default=1.0, ge=0)
    focal: float = Field(default=1.0, ge=0)
    gamma: float = Field(default=2.0, ge=0)
    image: float = Field(default=0.0, ge=0)


class Matching(Section):
    """Weights of the losses of distillation: KL of the logits, error of the pooled features, and of each region's features."""

    answer: float = Field(default=1.0, ge=0)
    pooled: float = Field(default=1.0, ge=0)
    regions: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _of_something(self) -> "Matching":
        if self.answer + self.pooled + self.regions == 0:
            raise ValueError("expected weights of which one is above 0, got 0, 0 and 0; try 1, 1 and 0")
        return self


class Recipe(Section):
    """What all recipes have: what they are for, the paper's table that they follow, and where they had to depart from it."""

    about: str
    table: str | None = None
    notes: tuple[str, ...] = ()
    schedule: Schedule
    checkpoints: ClassVar[int] = 100  # most steps between two of them

    def plan(self, images: int) -> Plan:
        """The schedule for this many images."""
        return self.schedule.counted(images, self.checkpoints)


class TokenizerRecipe(Recipe):
    """Pretraining of the tokenizer by reconstruction; epochs count crops per image.

    images: of a folder with `train` and `val`, those of `train`, or all. order: every image once an epoch, or drawn with
    replacement, as in version 0.2, whose runs go on like that.
    """

    task: Literal["tokenizer"]
    encoder: Encoder
    loss: Reconstruction = Reconstruction()
    images: Literal["train", "all"] = "train"
    order: Literal["epochs", "replacement"] = "epochs"


class ClassificationRecipe(Recipe):
    """Training with labels, from scratch or from any start."""

    task: Literal["classification"]
    model: Model
    loss: CrossEntropy = CrossEntropy()
    augment: Augment = Augment()


class SegmentationRecipe(Recipe):
    """Fine-tuning for semantic segmentation: a head with one hidden layer, `hidden_ratio` times as wide as a token.

    layout: how the data set lies on the disk, by the names of `pixtree evaluate`. `augment` has the crops, and changes that
    keep images and label maps together.
    """

    task: Literal["segmentation"]
    layout: Literal["ade20k", "coco-stuff-164k", "coco-stuff-10k", "camvid", "voc"]
    model: Model
    hidden_ratio: int = Field(default=4, gt=0)
    loss: MaskLosses = MaskLosses()
    augment: Augment = Augment()


class DistillationRecipe(Recipe):
    """Distillation without labels; the images are all those of the folder, at the size that the model takes."""

    task: Literal["distillation"]
    model: Student
    loss: Matching = Matching()
    augment: Augment = Augment(scale=(0.7, 1.0))
    checkpoints: ClassVar[int] = 50


AnyRecipe = TokenizerRecipe | ClassificationRecipe | SegmentationRecipe | DistillationRecipe
MOST_BYTES = 1 << 16  # of a recipe, which is a page of text
TASKS = {"tokenizer", "classification", "segmentation", "distillation"}
_SCHEMA: TypeAdapter[AnyRecipe] = TypeAdapter(Annotated[AnyRecipe, Field(discriminator="task")])


def shipped_recipes() -> dict[str, Path]:
    """The recipes inside the package, by name."""
    folder = Path(str(files("pixtree.training") / "recipes"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def read_recipe(name: str, changes: Sequence[str] = ()) -> AnyRecipe:
    """A shipped recipe by name, or one of your own by its file; changes are "key=value" with dots between keys."""
    values = read_values(name)
    for change in changes:
        _change(values, change)
    return checked_recipe(values, name)


def read_values(name: str) -> Any:
    """The values of a recipe before they are checked."""
    import yaml

    shipped = shipped_recipes()
    path = shipped.get(name, Path(name))
    if not path.is_file():
        near = get_close_matches(name, shipped, 1)
        hint = f"did you mean {near[0]}?" if near else f"shipped are {', '.join(shipped)}"
        raise FileNotFoundError(f"expected the name of a recipe or a YAML file, found no {name!r}; {hint}")
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    try:
        if len(content) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES} bytes")
        return yaml.safe_load(content.decode("utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"expected a recipe in YAML, {name!r} is none ({' '.join(str(error).split())}); correct it") from None


def checked_recipe(values: Any, name: str = "the recipe") -> AnyRecipe:
    """A recipe from plain values; the first mistake is an error of one sentence."""
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
    new = with_new_names({last: yaml.safe_load(text)}, warn=True) if path == ["schedule"] else {last: yaml.safe_load(text)}
    for old, name in RENAMED.items():  # which the change replaces as well
        if name in new:
            values.pop(old, None)
    values |= new


def _sentence(error: Mapping[str, Any], name: str) -> str:
    """One mistake in a recipe."""
    place = error["loc"][1:] if len(error["loc"]) > 1 and error["loc"][0] in TASKS else error["loc"]
    return sentence_of(error, place, name, _keys())


def _keys() -> set[str]:
    """All keys that recipes may have."""
    sections = (Rate, Schedule, Model, Student, Augment, Reconstruction, Encoder, CrossEntropy, MaskLosses, Matching)
    recipes = (TokenizerRecipe, ClassificationRecipe, SegmentationRecipe, DistillationRecipe)
    return {key for section in (*sections, *recipes) for key in section.model_fields}
