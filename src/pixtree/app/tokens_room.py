"""The Tokens room: square patches, SLIC and the tree side by side, and the outputs of a model."""

from typing import TYPE_CHECKING, Annotated, Literal, cast

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from pixtree.app.limits import Form, RefusedError
from pixtree.app.sessions import Service, Session, Shared, binary
from pixtree.app.uploads import reduced
from pixtree.app.wire import packed, partition_values
from pixtree.exports.pictures import mean_colours
from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.segment import segment
from pixtree.trees.partition import Partition

if TYPE_CHECKING:
    from pixtree.app.demo_model import DemoModel  # needs timm, which the other rooms do without

router = APIRouter()
SIDE = 448  # pixels: three images side by side, and SLIC takes seconds on larger ones


class Method(Form):
    """One method, and its number of tokens, which some methods reach only roughly."""

    method: Literal["grid", "slic", "pixtree"]
    count: int = Field(196, ge=4, le=1024)


class SalientObject(Form):
    """Options of `pixtree.salient`. tokens: features are averaged over this many regions; None for the model's own patches."""

    tokens: int | None = Field(None, ge=4, le=1024)
    side: Literal["border", "centre", "largest", "attention", "occlusion"] = "border"
    snap: bool = True


@router.get("/api/trees/{name}/tokens")
async def tokens(name: str, request: Request, wanted: Annotated[Method, Query()], service: Shared) -> Response:
    """The partition of one method, on the image reduced to 448 pixels, with its regions and the PSNR of their mean colours."""
    return binary(await service.workers.run(request, _packed_tokens, service.sessions.get(name), wanted))


@router.get("/api/trees/{name}/model")
async def model(name: str, request: Request, service: Shared) -> Response:
    """The outputs of the server's model for the image; see `DemoModel.outputs`."""
    session = service.sessions.get(name)
    return binary(packed(*await service.workers.run(request, _model_of(service).outputs, session.pixels)))


@router.get("/api/trees/{name}/salient")
async def salient_object(name: str, request: Request, wanted: Annotated[SalientObject, Query()], service: Shared) -> Response:
    """The mask of the object that stands out to the server's model; see `DemoModel.salient`."""
    session = service.sessions.get(name)
    mask = await service.workers.run(request, _model_of(service).salient, session.pixels, wanted.tokens, wanted.side, wanted.snap)
    return binary(packed({"area": int(mask.sum())}, {"mask": mask.astype(np.uint8)}))


def _model_of(service: Service) -> "DemoModel":
    if service.model is None:
        raise RefusedError(404, "this server has no model; start it with pixtree demo --model NAME --weights FILE")
    return cast("DemoModel", service.model)


def _packed_tokens(session: Session, wanted: Method) -> bytes:
    pixels = reduced(session.pixels, SIDE)
    method = None if wanted.method == "pixtree" else wanted.method
    labels = np.asarray(segment(pixels, tokens=wanted.count, partitioner=method))
    fidelity = psnr(mean_squared_error(mean_colours(pixels, labels), pixels))
    partition = Partition.from_labels(labels)
    header = {
        "height": pixels.shape[0],
        "width": pixels.shape[1],
        "regions": int(partition.counts[0]),
        "psnr": round(min(fidelity, 99.0), 2),
    }
    return packed(header, partition_values(partition, pixels))
