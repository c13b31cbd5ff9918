"""The server: the rooms' routes, errors in one sentence, and kernels that are warm before the first picture comes."""

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from pixtree.app import page
from pixtree.app.limits import Limits
from pixtree.app.protection import Protection
from pixtree.app.refusals import RefusedError
from pixtree.app.rooms import drawing, pictures, regions, selection, tokens
from pixtree.app.service import Service, grown

ROUTERS = (page.router, pictures.router, regions.router, selection.router, drawing.router, tokens.router)


def create_app(limits: Limits | None = None, *, model: Any = None, hosts: Sequence[str] = ()) -> FastAPI:
    """The web app. model: a `pixtree.app.model.Model`. hosts: names that browsers may ask for; none means any."""
    service = Service.within(limits or Limits(), model)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, float]]:
        warming = asyncio.create_task(service.workers.run(warm_up, service.limits))
        yield {"header_seconds": service.limits.header_seconds}  # which connections see before any request
        service.workers.close()
        warming.cancel()

    app = FastAPI(title="pixtree", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.service = service
    app.add_middleware(Protection, hosts=tuple(hosts))
    for router in ROUTERS:
        app.include_router(router)
    for kind in (RefusedError, ValueError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _answer)
    return app


def warm_up(limits: Limits) -> None:
    """Load the kernels, or compile them once per machine, by growing a small tree."""
    import PIL.Image

    stream = io.BytesIO()
    PIL.Image.fromarray(np.eye(64, dtype=np.uint8) * 255).save(stream, "PNG")
    grown(stream.getvalue(), limits)


async def _answer(_: Request, fault: Exception) -> JSONResponse:
    """Any error as a status and one sentence; those of the library tell the user what to do, others tell nothing."""
    match fault:
        case RefusedError():
            return fault.response()
        case RequestValidationError():
            first = fault.errors()[0]
            place = ".".join(str(part) for part in first["loc"][1:])
            return RefusedError(422, f"the request is not valid: {place}: {first['msg']}; correct it").response()
        case HTTPException():
            return RefusedError(
                fault.status_code, f"this server has no such page ({fault.detail}); go to its start page"
            ).response()
        case ValueError():
            return RefusedError(422, " ".join(str(fault).split())).response()
        case MemoryError():
            return RefusedError(503, "the server has too little memory for this picture; send a smaller one").response()
    return RefusedError(500, "the server made a mistake, which its terminal shows; try something else").response()
