"""The page: its files, read once from the package, and the example photos, by a fixed list of names."""

import io
import mimetypes
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Response

from pixtree.app.limits import RefusedError
from pixtree.app.sessions import Shared
from pixtree.app.uploads import FORMATS, QUALITY, reduced

router = APIRouter()
# Photos that come with scikit-image, by the names of its functions, and their captions.
EXAMPLES = {
    "astronaut": "An astronaut before a flag",
    "coffee": "A cup of coffee on a table",
    "chelsea": "A cat looking at you",
    "rocket": "A rocket on its launch pad",
    "hubble_deep_field": "Galaxies in deep space",
    "retina": "The back of an eye",
}
THUMBNAIL = 320  # pixels
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html; charset=utf-8", ".svg": "image/svg+xml"}


@cache
def static_files() -> dict[str, bytes]:
    """All files of the page by their paths below static/: a request names a key of this, never a file system path."""
    return dict(_walked(files("pixtree.app") / "static", ""))


def _walked(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _walked(item, f"{prefix}{item.name}/")
        else:
            yield prefix + item.name, item.read_bytes()


@cache
def example(name: str, side: int) -> bytes:
    """An example photo as JPEG with at most `side` pixels a side."""
    import PIL.Image

    try:
        from skimage import data
    except ImportError as error:
        raise RefusedError(501, "the examples come with scikit-image, which is missing; pip install 'pixtree[app]'") from error
    stream = io.BytesIO()
    PIL.Image.fromarray(reduced(getattr(data, name)(), side)).convert("RGB").save(stream, "JPEG", quality=QUALITY)
    return stream.getvalue()


@router.get("/")
async def start() -> Response:
    """The one page."""
    return _file("index.html")


@router.get("/static/{name:path}")
async def static_file(name: str) -> Response:
    """A file of the page."""
    return _file(name)


@router.get("/examples/{name}")
def example_photo(name: str, small: bool = False) -> Response:
    """An example photo, or its thumbnail."""
    if name not in EXAMPLES:
        raise RefusedError(404, f"an example is one of {', '.join(EXAMPLES)}; choose one of them")
    return Response(example(name, THUMBNAIL if small else 1024), media_type="image/jpeg", headers={"cache-control": "max-age=3600"})


@router.get("/api/about")
async def about(service: Shared) -> dict[str, object]:
    """What the page must know about the server: limits, examples, and its model, if any."""
    return {
        "examples": EXAMPLES,
        "formats": FORMATS,
        "uploadBytes": service.limits.upload_bytes,
        "model": None if service.model is None else service.model.name,
    }


def _file(name: str) -> Response:
    content = static_files().get(name)
    if content is None:
        raise RefusedError(404, "the page has no such file; go to the start page")
    suffix = "." + name.rpartition(".")[2]
    kind = TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(content, media_type=kind, headers={"cache-control": "no-cache"})
