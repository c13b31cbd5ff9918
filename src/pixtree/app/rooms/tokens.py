"""Tokens: square patches, SLIC and the tree side by side, and what a model makes of a picture."""

from typing import TYPE_CHECKING, Annotated, Literal, cast

import numpy as np
from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from pixtree.app.fine_tree import partition_values
from pixtree.app.pictures import Picture
from pixtree.app.refusals import RefusedError
from pixtree.app.service import Service, service_of
from pixtree.app.sessions import Session
from pixtree.app.wire import packed
from pixtree.exports.pictures import mean_colours
from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.segment import segment
from pixtree.trees.partition import Partition

if TYPE_CHECKING:
    from pixtree.app.model import Model  # needs timm, which the other rooms do without

router = APIRouter()
SIDE = 448  # pixels: three pictures side by side, and SLIC takes seconds on larger ones


class Method(BaseModel):
    """One way to as many tokens as are asked for, or nearly so."""

    model_config = ConfigDict(extra="forbid")

    method: Literal["grid", "slic", "pixtree"]
    count: int = Field(196, ge=4, le=1024)


class SalientObject(BaseModel):
    """How the salient object is found. tokens: features are averaged over this many regions; None for the model's own patches."""

    model_config = ConfigDict(extra="forbid")

    tokens: int | None = Field(None, ge=4, le=1024)
    side: Literal["border", "centre", "largest", "attention", "occlusion"] = "border"
    snap: bool = True


@router.get("/api/trees/{name}/tokens")
async def tokens(name: str, wanted: Annotated[Method, Query()], service: Service = Depends(service_of)) -> Response:
    """The partition of one method, on the picture reduced to 448 pixels, with its regions and the PSNR of their mean colours."""
    session = service.sessions.get(name)
    return Response(await service.workers.run(_packed_tokens, session, wanted), media_type="application/octet-stream")


@router.get("/api/trees/{name}/model")
async def model(name: str, service: Service = Depends(service_of)) -> Response:
    """What the server's model makes of the picture; see `Model.understood`."""
    session = service.sessions.get(name)
    header, arrays = await service.workers.run(_model_of(service).understood, session.picture)
    return Response(packed(header, arrays), media_type="application/octet-stream")


@router.get("/api/trees/{name}/salient")
async def salient_object(name: str, wanted: Annotated[SalientObject, Query()], service: Service = Depends(service_of)) -> Response:
    """The mask of the object that stands out to the server's model; see `Model.salient`."""
    session = service.sessions.get(name)
    mask = await service.workers.run(_model_of(service).salient, session.picture, wanted.tokens, wanted.side, wanted.snap)
    return Response(packed({"area": int(mask.sum())}, {"mask": mask.astype(np.uint8)}), media_type="application/octet-stream")


def reduced(picture: Picture, side: int = SIDE) -> Picture:
    """The picture with at most `side` pixels on its longer side."""
    import PIL.Image

    image = PIL.Image.fromarray(picture)
    image.thumbnail((side, side), PIL.Image.Resampling.LANCZOS)
    return np.array(image)


def _model_of(service: Service) -> "Model":
    if service.model is None:
        raise RefusedError(404, "this server has no model; start it with pixtree demo --model NAME --weights FILE")
    return cast("Model", service.model)


def _packed_tokens(session: Session, wanted: Method) -> bytes:
    picture = reduced(session.picture)
    method = None if wanted.method == "pixtree" else wanted.method
    labels = np.asarray(segment(picture, tokens=wanted.count, partitioner=method))
    fidelity = psnr(mean_squared_error(mean_colours(picture, labels), picture))
    partition = Partition.from_labels(labels)
    header = {
        "height": picture.shape[0],
        "width": picture.shape[1],
        "regions": int(partition.counts[0]),
        "psnr": round(min(fidelity, 99.0), 2),
    }
    return packed(header, partition_values(partition, picture))
