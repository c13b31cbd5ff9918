"""The code blocks of Markdown pages, and the small world in which they run."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import torch
import typer
from PIL import Image
from skimage import data

from pixtree.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a test machine does not have: a GPU, many cores.
HERE = {'"cuda"': '"cpu"', "num_workers=16": "num_workers=0", "pin_memory=True": "pin_memory=False"}
PARSED_ONLY = ("train", "runs", "evaluate", "demo")  # these need data, or never end


class Block(NamedTuple):
    language: str
    line: int
    text: str


def blocks(path: Path) -> list[Block]:
    """All fenced blocks of a page, with the line of their first line of code."""
    text = path.read_text(encoding="utf-8")
    return [Block(found[1], text.count("\n", 0, found.start(2)) + 1, found[2]) for found in FENCE.finditer(text)]


def make_world(folder: Path) -> None:
    """The files that the pages speak of."""
    coffee = Image.fromarray(data.coffee())
    coffee.save(folder / "photo.jpg", quality=90)
    coffee.save(folder / "scene.tif")
    Image.fromarray(data.chelsea()).save(folder / "cat.jpg")
    mask = np.zeros((400, 600), np.uint8)
    mask[100:300, 200:400] = 255
    Image.fromarray(mask).save(folder / "mask.png")
    Image.fromarray(data.page()).save(folder / "scan.jpg")
    for place in ("photos", "classes/cup", "classes/cat"):
        (folder / place).mkdir(parents=True)
    coffee.resize((120, 80)).save(folder / "photos" / "coffee.jpg")
    Image.fromarray(data.chelsea()).resize((120, 80)).save(folder / "photos" / "cat.jpg")
    coffee.save(folder / "classes" / "cup" / "coffee.jpg")
    Image.fromarray(data.chelsea()).save(folder / "classes" / "cat" / "chelsea.jpg")


def given() -> dict[str, object]:
    """The names that the pages take for granted."""
    import pixtree
    from pixtree.models.timm_import import timm

    generator = torch.Generator().manual_seed(0)
    images = torch.randn(2, 3, 224, 224, generator=generator)
    model = timm.create_model("vit_tiny_patch16_224", embed_dim=96, num_heads=3).eval()
    return {
        "images": images,
        "my_timm_module": model,
        "pil_image": Image.fromarray(data.chelsea()),
        "array": data.chelsea(),
        "hounsfield": data.coffee()[..., 0].astype(float) - 160,
        "batches": [images],
        "batches_on_the_device": [(images, torch.tensor([0, 1]))],
        "criterion": torch.nn.CrossEntropyLoss(),
        "pixtree": pixtree,
        "torch": torch,
    }


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that a line names, and what is left of the line."""
    command: click.Command = typer.main.get_command(app)
    while isinstance(command, click.Group) or hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]  # type: ignore[attr-defined]
    return command, words


def lines_of(text: str) -> list[list[str]]:
    """The command lines of a block, in words, without comments; a backslash continues a line."""
    whole = text.replace("\\\n", " ")
    return [words for line in whole.splitlines() if (words := shlex.split(line, comments=True))]
