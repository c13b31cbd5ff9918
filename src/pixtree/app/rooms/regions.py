"""Regions: cuts that the page cannot draw by itself, and files of any cut."""

import tempfile
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pixtree.app.fine_tree import partition_values
from pixtree.app.refusals import RefusedError
from pixtree.app.service import Service, service_of
from pixtree.app.sessions import Session
from pixtree.app.wire import packed
from pixtree.exports import write
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import Budget, budget_of
from pixtree.trees.partition import Partition

router = APIRouter()
MOST_LABELS = 65_536  # of an answer, and of a label map as PNG
FILES = {"png": ("labels.png", "image/png"), "geojson": ("regions.geojson", "application/geo+json")}
FILES["coco"] = ("regions.coco.json", "application/json")


class Cut(BaseModel):
    """One cut: exactly one of a count, a level and a criterion."""

    model_config = ConfigDict(extra="forbid")

    tokens: int | None = Field(None, ge=1, le=MOST_LABELS)
    level: int | None = Field(None, ge=0, le=100)
    criterion: Literal["aic", "aicc", "bic", "cic"] | None = None
    penalty: float = Field(1.0, ge=0.01, le=100.0)

    @model_validator(mode="after")
    def _one_of_them(self) -> "Cut":
        self.budget()
        return self

    def budget(self) -> Budget:
        """The same as the library has it."""
        criterion = None if self.criterion is None else Criterion(self.criterion, penalty=self.penalty)
        return budget_of(tokens=self.tokens, level=self.level, criterion=criterion)


class Export(Cut):
    """A cut as a file."""

    format: Literal["png", "geojson", "coco"]


@router.get("/api/trees/{name}/cut")
async def cut(name: str, wanted: Annotated[Cut, Query()], service: Service = Depends(service_of)) -> Response:
    """The labels of a cut and the numbers of its regions."""
    session = service.sessions.get(name)
    return Response(await service.workers.run(_packed_cut, session, wanted), media_type="application/octet-stream")


@router.get("/api/trees/{name}/regions")
async def download(name: str, wanted: Annotated[Export, Query()], service: Service = Depends(service_of)) -> Response:
    """A cut as a file to keep: a label map, polygons or annotations."""
    session = service.sessions.get(name)
    content = await service.workers.run(_exported, session, wanted)
    file, kind = FILES[wanted.format]
    return Response(content, media_type=kind, headers={"content-disposition": f'attachment; filename="{file}"'})


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
    return packed(header, partition_values(partition, session.picture))


def _exported(session: Session, wanted: Export) -> bytes:
    file, _ = FILES[wanted.format]
    with tempfile.TemporaryDirectory() as folder:  # the library writes files, whole or not at all
        path = Path(folder) / file
        write(path, checked_cut(session, wanted), image=session.picture)
        return path.read_bytes()
