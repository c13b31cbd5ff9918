"""Checkpoints from strangers: every damaged config is refused in one sentence, and none takes more memory than its weights."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import FAMILIES, SMALL

import pixtree
from pixtree.models import PixtreeViT
from pixtree.models.checkpoint import config_of, model_of

GONE = object()


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intact")
    pixtree.retrofit("vit_tiny_patch16_224", tokens=9, img_size=64, **SMALL).save_pretrained(folder)
    return folder


def changed(config, path, value):
    """The config with another value at a path such as "budget.count", or without it."""
    copy = json.loads(json.dumps(config))
    *outer, last = path.split(".")
    place = copy
    for key in outer:
        place = place[key]
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    return copy


DAMAGE = [
    *(
        (key, GONE)
        for key in ("architecture", "model_args", "num_classes", "global_pool", "pretrained_cfg", "budget", "partitioner")
    ),
    *((key, GONE) for key in ("tokenizer", "position_resolution", "budget.kind", "budget.count", "tokenizer.largest_box")),
    *((key, "x") for key in ("model_args", "num_classes", "pretrained_cfg", "budget", "partitioner", "tokenizer", "image_size")),
    *((key, None) for key in ("model_args", "num_classes", "global_pool", "pretrained_cfg", "budget", "tokenizer")),
    *((key, [1, 2]) for key in ("architecture", "model_args", "budget", "tokenizer", "position_resolution", "global_pool")),
    ("num_classes", -1),
    ("num_classes", 2.5),
    ("num_classes", True),
    ("num_classes", 3_000_000),
    ("num_classes", 10**400),
    ("global_pool", "nonsense"),
    ("budget.kind", "Everything"),
    ("budget.kind", ["Exactly"]),
    ("budget.count", "9"),
    ("budget.count", 0),
    ("budget.more", 1),
    ("budget", {"kind": "Criterion", "name": "aic", "penalty": "x"}),
    ("budget", {"kind": "AtMost", "count": 5, "criterion": {"name": "nonsense"}}),
    ("budget", {"kind": "AtMost", "count": 5, "criterion": 7}),
    ("partitioner", {}),
    ("partitioner", {"name": "slic"}),
    ("partitioner", {"name": ["slic"], "tokens": 9}),
    ("partitioner", {"name": "nonsense", "tokens": 9}),
    ("partitioner", {"name": "slic", "tokens": "many"}),
    ("partitioner", {"name": "slic", "tokens": 9, "sigma": "x"}),
    ("tokenizer.width", "x"),
    ("tokenizer.features", None),
    ("tokenizer.features", -4),
    ("tokenizer.features", 10**12),
    ("tokenizer.patch", 0),
    ("tokenizer.mean", [0.5]),
    ("tokenizer.std", "white"),
    ("tokenizer.unknown", 1),
    ("tokenizer.similarity", "nonsense"),
    ("model_args.depth", 10**9),
    ("model_args.depth", "two"),
    ("model_args.embed_dim", 0),
    ("model_args.embed_dim", 1 << 20),
    ("model_args.num_heads", 0),
    ("model_args.num_heads", 5),
    ("model_args.img_size", 1 << 20),
    ("model_args.img_size", "large"),
    ("model_args.norm_layer", "nonsense"),
    ("model_args.unknown", 1),
    ("model_args.features_only", True),
    ("pretrained_cfg.mean", []),
    ("pretrained_cfg.std", ["x", "y", "z"]),
    ("pretrained_cfg.input_size", [3]),
    ("pretrained_cfg.url", "https://example.org/weights"),
    ("position_resolution", 0),
    ("position_resolution", 4000),
    ("image_size", [64]),
    ("image_size", [0, 64]),
    ("image_size", [1 << 20, 1 << 20]),
    ("architecture", "resnet18"),
    ("unknown", 1),
]


@pytest.mark.parametrize(("path", "value"), DAMAGE, ids=lambda part: "gone" if part is GONE else str(part)[:30])
def test_a_damaged_config_is_refused_in_one_sentence(tmp_path, intact, path, value):
    config = json.loads((intact / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(changed(config, path, value)))
    (tmp_path / "model.safetensors").symlink_to(intact / "model.safetensors")
    with pytest.raises(ValueError) as fault:
        PixtreeViT.from_pretrained(tmp_path)
    words = str(fault.value)
    assert "; save " in words
    assert "\n" not in words
    assert len(words) < 500


def test_a_model_that_could_not_be_loaded_is_not_saved(tmp_path):
    model = pixtree.retrofit("vit_tiny_patch16_224", tokens=9, img_size=64, **SMALL)
    model.model_args["drop_rate"] = float("nan")
    with pytest.raises(ValueError, match="expected a config in JSON"):
        model.save_pretrained(tmp_path)
    assert list(tmp_path.iterdir()) == []


TEXTS = [b"", b"[]", b"null", b"\xff\xfe", b'{"library": "pixtree"', b'{"library": NaN}', b"[" * 100_000, b" " * (2 << 20), b"3"]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:20]))
def test_a_config_that_is_no_object_in_json_is_refused_in_one_sentence(tmp_path, intact, text):
    (tmp_path / "config.json").write_bytes(text)
    (tmp_path / "model.safetensors").symlink_to(intact / "model.safetensors")
    with pytest.raises(ValueError, match="; save the model") as fault:
        PixtreeViT.from_pretrained(tmp_path)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("change", ["integers", "scalar", "without the prefix", "truncated"])
def test_damaged_weights_are_refused_in_one_sentence(tmp_path, intact, change):
    tensors = load_file(intact / "model.safetensors")
    (tmp_path / "config.json").symlink_to(intact / "config.json")
    if change == "without the prefix":
        del tensors["tokenizer.prefix"]
    else:
        kind = torch.int64 if change == "integers" else torch.float32
        tensors["tokenizer.prefix"] = torch.tensor(1.0) if change == "scalar" else tensors["tokenizer.prefix"].to(kind)
    save_file(tensors, tmp_path / "model.safetensors")
    if change == "truncated":
        content = (tmp_path / "model.safetensors").read_bytes()
        (tmp_path / "model.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="; save ") as fault:
        PixtreeViT.from_pretrained(tmp_path)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_without_memory_has_the_shapes_of_the_real_one(name):
    config = config_of(pixtree.retrofit(name, tokens=9, img_size=FAMILIES[name], **SMALL))
    with torch.device("meta"):
        shapes = {key: tensor.shape for key, tensor in model_of(config).state_dict().items()}
    assert shapes == {key: tensor.shape for key, tensor in model_of(config).state_dict().items()}


HUGE = [
    ("num_classes", 1_000_000),
    ("model_args.img_size", 16_384),
    ("position_resolution", 4096),
    ("model_args.embed_dim", 16_383),
]
MEASURED = """
import resource, sys
from pixtree.models import PixtreeViT
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
PixtreeViT.from_pretrained(sys.argv[1])
before = peak()
for folder in sys.argv[2:]:
    try:
        PixtreeViT.from_pretrained(folder)
    except ValueError:
        continue
    raise AssertionError(folder)
print((peak() - before) // 1024)
"""


def test_a_config_takes_no_more_memory_than_its_weights(tmp_path, intact):
    config = json.loads((intact / "config.json").read_text())
    for path, value in HUGE:
        folder = tmp_path / path
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(changed(config, path, value)))
        (folder / "model.safetensors").symlink_to(intact / "model.safetensors")
    command = [sys.executable, "-c", MEASURED, intact, *sorted(tmp_path.iterdir())]
    assert int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) < 64  # megabytes
