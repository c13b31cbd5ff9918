"""Random crops of a folder of images; the batch of a step depends on seed and step alone, so that runs can be resumed."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from pixtree.files import IMAGE_SUFFIXES
from pixtree.images import checked
from pixtree.training.order import Share

KEPT = 256  # decoded images kept in memory
VALIDATION = "ilsvrc2012_val_"  # how the photos of ImageNet's validation split are named


def image_files(folder: str | Path) -> tuple[Path, ...]:
    """The images of a folder and the folders inside it, sorted by path."""
    root = Path(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"expected a folder of images, found none at {str(root)!r}; check the path")
    files = tuple(sorted(path for path in root.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES))
    if not files:
        raise FileNotFoundError(f"expected images ({', '.join(IMAGE_SUFFIXES)}) in {str(root)!r}, found none; check the folder")
    refuse_validation_photos(path.name for path in files)
    return files


def refuse_validation_photos(names: Iterable[str]) -> None:
    """No photo of ImageNet's validation split is ever trained on, since it is the test set of most models."""
    for name in names:
        if name.lower().startswith(VALIDATION):
            raise ValueError(f"photos of ImageNet's validation split are never trained on, got {name}; give other pictures")


@lru_cache(KEPT)
def colour_image(path: Path) -> Tensor:
    """One image (3, H, W) uint8; grey ones get three equal channels."""
    image = checked(path)
    image = image if image.dtype == torch.uint8 else (image * 255.0).round().to(torch.uint8)
    return image.expand(3, -1, -1) if image.shape[0] == 1 else image[:3]


class RandomCrops:
    """Batches (B, 3, size, size) uint8 of crops, zoomed out by up to 2 and flipped; images smaller than a crop are enlarged."""

    def __init__(self, files: tuple[Path, ...], batch: int, size: int, seed: int = 0) -> None:
        if batch < 1 or size < 8:
            raise ValueError(
                f"expected a batch of at least 1 and crops of at least 8 pixels, got {batch} and {size}; try 4 and 160"
            )
        self.files, self.batch, self.size, self.seed = files, batch, size, seed

    def __getitem__(self, step: int) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        chosen = torch.randint(len(self.files), (self.batch,), generator=generator).tolist()
        return torch.stack([self.crop(colour_image(self.files[number]), generator) for number in chosen])

    def starting(self, step: int, share: Share) -> Iterator[list[Tensor]]:
        """The batches of one process from a step on; processes take equal parts of each."""
        own = share.of(self.batch)
        while True:
            yield [self[step][share.rank * own :][:own]]
            step += 1

    def crop(self, image: Tensor, generator: torch.Generator) -> Tensor:
        """One crop (3, size, size) uint8."""
        zoom, across, down, flip = torch.rand(4, generator=generator).tolist()
        height, width = image.shape[1:]
        side = min(round(self.size * (1.0 + zoom)), height, width)
        top, left = round(down * (height - side)), round(across * (width - side))
        piece = image[None, :, top : top + side, left : left + side].to(torch.float32)
        if side != self.size:
            piece = torch.nn.functional.interpolate(piece, (self.size, self.size), mode="bilinear", antialias=side > self.size)
        piece = piece[0].round().clamp(0, 255).to(torch.uint8)
        return piece.flip(2) if flip < 0.5 else piece
