"""The Drawing room: the photo as SVG within a budget of paths, points or bytes."""

from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, model_validator

from pixtree.app.limits import Form
from pixtree.app.sessions import Session, Shared
from pixtree.tasks.vectorize import psnr_of, vectorize

router = APIRouter()
# The choices of the page, as options of `vectorize`.
LOOKS: dict[str, dict[str, Any]] = {
    "detailed": {},
    "smooth": {"style": "smooth"},
    "poster": {"preset": "poster"},
    "icon": {"preset": "icon"},
    "sketch": {"preset": "sketch"},
}


class Wanted(Form):
    """One drawing: exactly one of three budgets."""

    paths: int | None = Field(None, ge=1, le=5000)
    points: int | None = Field(None, ge=50, le=100_000)
    bytes: int | None = Field(None, ge=1000, le=1_000_000)
    look: Literal["detailed", "smooth", "poster", "icon", "sketch"] = "detailed"
    fast: bool = False

    @model_validator(mode="after")
    def _one_budget(self) -> "Wanted":
        if sum(value is not None for value in (self.paths, self.points, self.bytes)) != 1:
            raise ValueError("a drawing needs exactly one of paths, points and bytes; give one of them")
        return self


@router.get("/api/trees/{name}/drawing")
async def drawing(name: str, request: Request, wanted: Annotated[Wanted, Query()], service: Shared) -> Response:
    """The drawing as SVG, with its figures in headers x-pixtree-paths, -points, -bytes and -psnr."""
    session = service.sessions.get(name)
    text, numbers = await service.workers.run(request, _drawn, session, wanted, seconds=service.limits.drawing_seconds)
    return Response(text, media_type="image/svg+xml", headers={f"x-pixtree-{key}": value for key, value in numbers.items()})


def _drawn(session: Session, wanted: Wanted) -> tuple[str, dict[str, str]]:
    options: dict[str, Any] = {"paths": wanted.paths, "points": wanted.points, "bytes": wanted.bytes, "fast": wanted.fast}
    found = vectorize(session.pixels, **options, **LOOKS[wanted.look])
    fidelity = psnr_of(found, session.pixels.astype(np.float32))
    numbers = {"paths": str(found.paths), "points": str(found.points), "bytes": str(found.bytes), "psnr": f"{fidelity:.2f}"}
    return found.text, numbers
