"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

ImageFile = Annotated[Path, typer.Argument(help="The image: PNG, JPEG, WebP or TIFF.", show_default=False)]
MaskFile = Annotated[Path | None, typer.Option("--mask", help="Image that is black where pixels belong to no region.")]
SimilarityName = Annotated[str, typer.Option("--similarity", help="likelihood, ward, gaussian, cosine or tanimoto.")]
Compactness = Annotated[float, typer.Option("--compactness", help="Weight of pixel coordinates; 0.1 is one Lab unit per pixel.")]
BackendName = Annotated[str, typer.Option("--backend", help="auto, torch or numba.")]
