"""A picture is cut alike on every path: bytes, floats, normalised floats, autocast, gradients, both backends."""

import numpy as np
import pytest
import torch
from skimage import data

import pixtree
from pixtree.models import PixtreeViT
from pixtree.models.timm_import import timm
from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.trees.cuts import Exactly

SIDE, TOKENS = 48, 25
NAMES = ("astronaut", "coffee", "chelsea", "rocket", "retina")
MEAN, STD = (torch.tensor(values)[:, None, None] for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


def crops(count: int) -> torch.Tensor:
    """Crops (count, 3, SIDE, SIDE) uint8 of scikit-image's photos, at seeded places."""
    random = np.random.default_rng(0)
    photos = [getattr(data, name)() for name in NAMES]
    found = []
    for number in range(count):
        photo = photos[number % len(photos)]
        top, left = (int(random.integers(0, size - SIDE)) for size in photo.shape[:2])
        found.append(torch.from_numpy(photo[top : top + SIDE, left : left + SIDE].copy()).permute(2, 0, 1))
    return torch.stack(found).contiguous()


def scrambled(tokenizer: Tokenizer) -> Tokenizer:
    """The encoder away from its start, where only colours matter."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in tokenizer.regions.encoder.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
    return tokenizer


def tokenizers(backend: str) -> dict[str, Tokenizer]:
    torch.manual_seed(0)
    return {
        "default": Tokenizer(Exactly(TOKENS), width=8, positions=0, backend=backend),
        "moved": scrambled(Tokenizer(Exactly(TOKENS), width=8, positions=0, backend=backend)),
        "shipped": Tokenizer.pretrained(Exactly(TOKENS), width=8, positions=0, backend=backend),
        "paper": Tokenizer.paper(width=8, positions=0, backend=backend),
    }


def model(backend: str) -> PixtreeViT:
    torch.manual_seed(0)
    vit = timm.create_model("vit_tiny_patch16_224", img_size=SIDE, embed_dim=24, depth=1, num_heads=2, num_classes=3)
    return pixtree.retrofit(vit, tokens=TOKENS, backend=backend).eval()


def normalised_and_back(images: torch.Tensor) -> torch.Tensor:
    return torch.addcmul(MEAN, (images / 255.0 - MEAN) / STD, STD)


def differing(count: int, reference_count: int) -> dict[str, int]:
    """Pixels whose label depends on the path, by path; the first `reference_count` pictures go through plain torch too."""
    images, wrong = crops(count), {}
    floats = images / 255.0
    for name, tokenizer in tokenizers("auto").items():
        expected = tokenizer.partition(images).labels
        wrong[f"{name}, floats"] = int((tokenizer.partition(floats).labels != expected).sum())
        wrong[f"{name}, normalised"] = int((tokenizer.partition(normalised_and_back(images)).labels != expected).sum())
        wrong[f"{name}, gradients"] = int((tokenizer.encode(floats.clone().requires_grad_()).partition.labels != expected).sum())
        with torch.autocast("cpu", torch.bfloat16):
            wrong[f"{name}, autocast"] = int((tokenizer.partition(images).labels != expected).sum())
        plain = tokenizers("torch")[name].partition(images[:reference_count]).labels
        wrong[f"{name}, torch"] = int((plain != expected[:reference_count]).sum())
    segmented = pixtree.segment(images, tokens=TOKENS)
    wrong["segment, floats"] = int((pixtree.segment(floats, tokens=TOKENS) != segmented).sum())
    back = normalised_and_back(images).clamp(0.0, 1.0)
    wrong["segment, normalised"] = int((pixtree.segment(back, tokens=TOKENS) != segmented).sum())
    plain = pixtree.segment(images[:reference_count], tokens=TOKENS, backend="torch")
    wrong["segment, torch"] = int((plain != segmented[:reference_count]).sum())
    retrofitted = model("auto")
    expected = retrofitted.partition(images).labels
    mean, std = (
        torch.tensor(one)[:, None, None] for one in (retrofitted.tokenizer.options.mean, retrofitted.tokenizer.options.std)
    )
    wrong["retrofit, normalised"] = int((retrofitted.partition((floats - mean) / std).labels != expected).sum())
    plain = model("torch").partition(images[:reference_count]).labels
    wrong["retrofit, torch"] = int((plain != expected[:reference_count]).sum())
    return wrong


@pytest.mark.bfloat16
def test_six_pictures_are_cut_alike_on_every_path():
    assert {path: pixels for path, pixels in differing(6, 1).items() if pixels} == {}


@pytest.mark.bfloat16
@pytest.mark.slow
def test_fifty_pictures_are_cut_alike_on_every_path():
    assert {path: pixels for path, pixels in differing(50, 50).items() if pixels} == {}
