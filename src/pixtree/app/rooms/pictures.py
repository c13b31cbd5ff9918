"""The door: a picture comes in as the body of a request, the top of its tree goes out."""

from fastapi import APIRouter, Depends, Request, Response

from pixtree.app.service import Service, grown, service_of

router = APIRouter()


@router.post("/api/trees")
async def upload(request: Request, service: Service = Depends(service_of)) -> Response:
    """Grow the tree of an image file and keep it; the answer's header x-pixtree-id is its id."""
    async with service.intake.body(request, service.limits.upload_bytes) as content:
        session, answer = await service.workers.run(grown, content, service.limits)
    name = service.sessions.add(session)
    return Response(answer, media_type="application/octet-stream", headers={"x-pixtree-id": name})
