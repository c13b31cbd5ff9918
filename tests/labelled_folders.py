"""Small folders of labelled pictures in the layouts of public data sets, and weights of timm's smallest model for them."""

import torch
from PIL import Image
from safetensors.torch import save_file

from pixtree.models.timm_import import timm

NAME = "test_vit"  # timm's own for tests: 160 px, 100 patches


def picture(path, seed=0):
    """Noise with a colour of its own."""
    generator = torch.Generator().manual_seed(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = torch.randint(0, 80, (40, 48, 3), generator=generator) + torch.randint(0, 170, (3,), generator=generator)
    Image.fromarray(pixels.to(torch.uint8).numpy()).save(path)
    return path


def class_folders(root, names, count=3):
    for number, name in enumerate(names):
        for index in range(count):
            picture(root / name / f"{index}.png", 100 * number + index)
    return root


def table(root, classes):
    """labels.csv with pictures named as ImageNet's are."""
    lines = ["filename,class"]
    for number, one in enumerate(classes):
        name = f"ILSVRC2012_val_{number + 1:08d}.png"
        picture(root / "images" / name, number)
        lines.append(f"{name},{one}")
    (root / "labels.csv").write_text("\n".join(lines) + "\n")
    return root


def small_weights(path):
    torch.manual_seed(0)
    save_file(timm.create_model(NAME).half().state_dict(), path)
    return path
