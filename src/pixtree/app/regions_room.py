"""The Regions room: cuts that the page cannot draw by itself, and files of any cut."""

import tempfile
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, model_validator

from pixtree.app.limits import Form, RefusedError
from pixtree.app.sessions import Session, Shared, attachment, binary
from pixtree.app.wire import packed, partition_values
from pixtree.exports import write
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import Budget, budget_of
from pixtree.trees.partition import Partition

router = APIRouter()
MOST_LABELS = 65_536  # of an answer, and of a label map as PNG
FILES = {
    "png": ("labels.png", "image/png"),
    "geojson": ("regions.geojson", "application/geo+json"),
    "coco": ("regions.coco.json", "application/json"),
}


class Cut(Form):
    """One cut: exactly one of a count, a level and a criterion."""

    tokens: int | None = Field(None, ge=1, le=MOST_LABELS)
    level: int | None = Field(None, ge=0, le=100)
    criterion: Literal["aic", "aicc", "bic", "cic"] | None = None
    penalty: float = Field(1.0, ge=0.01, le=100.0)

    @model_validator(mode="after")
    def _one_of_them(self) -> "Cut":
        self.budget()
        return self

    def budget(self) -> Budget:
        """The cut as a budget of the library."""
        criterion = None if self.criterion is None else Criterion(self.criterion, penalty=self.penalty)
        return budget_of(tokens=self.tokens, level=self.level, criterion=criterion)


class Export(Cut):
    """A cut as a file."""

    format: Literal["png", "geojson", "coco"]


@router.get("/api/trees/{name}/cut")
async def cut(name: str, request: Request, wanted: Annotated[Cut, Query()], service: Shared) -> Response:
    """The labels of a cut and the values of its regions."""
    return binary(await service.workers.run(request, _packed_cut, service.sessions.get(name), wanted))


@router.get("/api/trees/{name}/regions")
async def download(name: str, request: Request, wanted: Annotated[Export, Query()], service: Shared) -> Response:
    """A cut as a file: a label map, polygons or annotations."""
    content = await service.workers.run(request, _exported, service.sessions.get(name), wanted)
    return attachment(content, *FILES[wanted.format])


def checked_cut(session: Session, wanted: Cut) -> Partition:
    """The partition that is asked for; refused if it has more regions than 16 bits can number."""
    partition = session.borrowed().cut(budget=wanted.budget())
    count = int(partition.counts[0])
    if count > MOST_LABELS:
        raise RefusedError(422, f"a cut may have at most {MOST_LABELS} regions here, this one has {count}; ask for a coarser one")
    return partition


def _packed_cut(session: Session, wanted: Cut) -> bytes:
    partition = checked_cut(session, wanted)
    height, width = session.tree.shape
    header = {"height": height, "width": width, "regions": int(partition.counts[0])}
    return packed(header, partition_values(partition, session.pixels))


def _exported(session: Session, wanted: Export) -> bytes:
    file, _ = FILES[wanted.format]
    with tempfile.TemporaryDirectory() as folder:  # the library writes files, whole or not at all
        path = Path(folder) / file
        write(path, checked_cut(session, wanted), image=session.pixels)
        return path.read_bytes()
