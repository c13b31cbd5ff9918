"""The Select room: marks of a user in, masks of objects out."""

import io
import json
import zipfile
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from pixtree.app.limits import Form, invalid
from pixtree.app.sessions import Service, Session, Shared, attachment, binary
from pixtree.app.wire import packed
from pixtree.exports.regions import coco
from pixtree.files import png
from pixtree.tasks.scene import scene_of
from pixtree.tasks.select import select
from pixtree.trees.hierarchy import Hierarchy

router = APIRouter()
FILES = {"masks": ("masks.zip", "application/zip"), "coco": ("objects.coco.json", "application/json")}
MOST_OBJECTS, MOST_MARKS, MOST_POINTS = 50, 300, 2000
Parsed = TypeVar("Parsed", bound=Form)
Mask = NDArray[np.bool_]  # (H, W)
Coordinate = Annotated[float, Field(ge=-1e5, le=1e5, allow_inf_nan=False)]


class Mark(Form):
    """A click (one point, radius 0) or a stroke of a brush: points (row, column), counted from 0 at pixel centres."""

    inside: bool
    radius: float = Field(0.0, ge=0.0, le=200.0, allow_inf_nan=False)
    points: list[tuple[Coordinate, Coordinate]] = Field(min_length=1, max_length=MOST_POINTS)


class Object(Form):
    """One object by its marks."""

    name: str = Field("object", max_length=100)
    marks: list[Mark] = Field(max_length=MOST_MARKS)


class Objects(Form):
    """Objects as a file."""

    objects: list[Object] = Field(min_length=1, max_length=MOST_OBJECTS)
    format: Literal["masks", "coco"]


@router.post("/api/trees/{name}/select")
async def selection(name: str, request: Request, service: Shared) -> Response:
    """The mask of one object; without marks it is empty, and the tree is ready for the first one."""
    session = service.sessions.get(name)
    wanted = await _parsed(Object, request, service)
    answer = await service.workers.run(request, _packed_mask, session, wanted)
    service.sessions.weigh(name)
    return binary(answer)


@router.post("/api/trees/{name}/objects")
async def objects_file(name: str, request: Request, service: Shared) -> Response:
    """All objects as a file: masks as PNG in a zip, or COCO annotations."""
    session = service.sessions.get(name)
    wanted = await _parsed(Objects, request, service)
    content = await service.workers.run(request, _exported, session, wanted)
    return attachment(content, *FILES[wanted.format])


async def _parsed(form: type[Parsed], request: Request, service: Service) -> Parsed:
    """The checked body of a request; FastAPI itself would read it at any length."""
    async with service.intake.body(request, service.limits.json_bytes) as content:
        try:
            return form.model_validate_json(content)
        except ValidationError as fault:
            first = fault.errors()[0]
            raise invalid(first["loc"], first["msg"]) from None


def selected(tree: Hierarchy, marks: list[Mark]) -> Mask:
    """The object that the marks point at; empty while none of them is inside. Where marks overlap, the last one counts."""
    inside, outside = np.zeros(tree.shape, bool), np.zeros(tree.shape, bool)
    for mark in marks:
        touched = _touched(mark, tree.shape)
        inside[touched], outside[touched] = mark.inside, not mark.inside
    return np.asarray(select(tree, inside=inside, outside=outside), bool) if inside.any() else inside


def _touched(mark: Mark, shape: tuple[int, int]) -> Mask:
    """The pixels (H, W) under a mark."""
    from PIL import Image, ImageDraw

    canvas = Image.new("1", (shape[1], shape[0]))
    pen = ImageDraw.Draw(canvas)
    line = [(column, row) for row, column in mark.points]
    if mark.radius < 1:
        pen.line(line, 1) if len(line) > 1 else pen.point(line, 1)
    else:
        pen.line(line, 1, width=round(2 * mark.radius) + 1, joint="curve")
        for column, row in (line[0], line[-1]):
            pen.ellipse((column - mark.radius, row - mark.radius, column + mark.radius, row + mark.radius), 1)
    return np.array(canvas)


def _packed_mask(session: Session, wanted: Object) -> bytes:
    scene_of(session.tree)
    mask = selected(session.tree, wanted.marks)
    return packed({"area": int(mask.sum())}, {"mask": mask.astype(np.uint8)})


def _exported(session: Session, wanted: Objects) -> bytes:
    masks = [selected(session.tree, one.marks) for one in wanted.objects]
    names = [one.name.strip() or "object" for one in wanted.objects]
    return _zipped(masks, names) if wanted.format == "masks" else json.dumps(_annotated(masks, names)).encode()


def _zipped(masks: list[Mask], names: list[str]) -> bytes:
    """One PNG per object, 255 inside and 0 outside; file names keep letters and digits only."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for number, (mask, name) in enumerate(zip(masks, names, strict=True), 1):
            plain = "".join(letter if letter.isalnum() else "_" for letter in name)
            archive.writestr(f"{number:02d}_{plain}.png", png(mask.astype(np.uint8) * 255))
    return stream.getvalue()


def _annotated(masks: list[Mask], names: list[str]) -> dict[str, Any]:
    """COCO records with one category per name and one annotation per object; objects may overlap, and empty ones are left out."""
    height, width = masks[0].shape
    categories = {name: number for number, name in enumerate(dict.fromkeys(names), 1)}
    annotations: list[dict[str, Any]] = []
    for mask, name in zip(masks, names, strict=True):
        for found in coco(mask.astype(np.int32) - 1)["annotations"]:
            annotations.append({**found, "id": len(annotations) + 1, "category_id": categories[name]})
    return {
        "images": [{"id": 1, "width": width, "height": height, "file_name": ""}],
        "categories": [{"id": number, "name": name, "supercategory": ""} for name, number in categories.items()],
        "annotations": annotations,
    }
