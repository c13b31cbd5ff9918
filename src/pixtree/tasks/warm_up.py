"""Warm up: small calls that together use every kernel, so that later calls do not wait for a compiler."""

import gc
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.tasks.segment import hierarchy, segment
from pixtree.tasks.segment_tiles import segment_tiles
from pixtree.tasks.select import select
from pixtree.tasks.snap import snap
from pixtree.tasks.vectorize import vectorize
from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import Exactly
from pixtree.trees.options import Cosine, Gaussian, Likelihood, Tanimoto, Ward

MODEL = "vit_tiny_patch16_224"


def _photo(channels: int = 3) -> NDArray[np.uint8]:
    """Noise, whose trees have all kinds of merges."""
    return np.random.default_rng(0).integers(0, 256, (48, 56, channels), dtype=np.uint8)


def _artwork() -> NDArray[np.uint8]:
    """A row of flat shapes with blended edges: discs, bars with corners, a rule of one pixel, a shorter line of another colour."""
    y, x = np.mgrid[:48, :96].astype(np.float32)
    image = np.full((48, 96, 3), 255, np.float32)
    for column, colour in ((14, (200, 40, 60)), (40, (30, 90, 220))):
        cover = np.clip(10.5 - np.hypot(y - 23.3, x - column), 0, 1)[..., None]
        image = image * (1 - cover) + cover * np.array(colour, np.float32)
    image[10:38, 58:70] = (20, 150, 90)
    image[16:30, 70:76] = (20, 150, 90)
    image[8:40, 84] = 0
    image[12:30, 90] = (120, 0, 120)
    return image.round().astype(np.uint8)


def _photos() -> None:
    segment(_photo(), 20)
    segment(_photo(), 20, relax=True)
    segment(_photo(), 20, relax="detail")
    segment(np.tile(_photo(), (6, 5, 1)), 20)  # more pixels than are sorted
    for relax in (True, "detail"):
        hierarchy(_photo()).cut(20, relax=relax)


def _channels(count: int) -> Callable[[], None]:
    def cut() -> None:
        segment(_photo(count), 20, channel_axis=-1)
        hierarchy(_photo(count), channel_axis=-1).cut(20, relax=True)

    return cut


def _deep_grey() -> None:
    segment(_photo(1)[..., 0].astype(np.uint16) * 257, 20)


def _similarities() -> None:
    for similarity in (Gaussian(), Cosine(), Tanimoto(), Likelihood(), Ward()):
        hierarchy(_photo(), similarity=similarity).cut(20)


def _cuts() -> None:
    tree = hierarchy(_photo())
    tree.cut(criterion="bic")
    tree.cut(criterion="bic", at_most=9)
    tree.cut(criterion=Criterion("bic", rule="pixel"))
    tree.at_level(3)
    tree.table(9)
    tree.contours()
    parts = np.ones((48, 56), bool)
    parts[:, 20:30] = False
    hierarchy(_photo(), mask=parts).cut(20)
    with tempfile.TemporaryDirectory() as folder:
        segment_tiles(np.tile(_photo(), (1, 4, 1)), Path(folder) / "labels.npy", 5, tile=128)


def _zones() -> None:
    segment(_artwork(), 6, relax=True)
    hierarchy(_artwork()).cut(6)


def _selections() -> None:
    tree = hierarchy(_photo())
    select(tree, inside=[(20, 20)], outside=[(2, 2)])
    snap(np.arange(48 * 56).reshape(48, 56) % 56 < 30, tree)


def _drawing(image: Callable[[], NDArray[np.uint8]], **options: Any) -> Callable[[], None]:
    def draw() -> None:
        str(vectorize(image(), **{"paths": 12, **options}))

    return draw


def _tokens(make: Callable[[], Tokenizer]) -> Callable[[], None]:
    def encode() -> None:
        tokenizer, artwork = make(), torch.from_numpy(_artwork()).permute(2, 0, 1)[None] / 255
        criteria = Criterion("bic"), Criterion("bic", rule="pixel", nodes="levels")
        for images, budget in ((torch.rand(2, 3, 48, 48), Exactly(9)), *((artwork, criterion) for criterion in criteria)):
            tokens = tokenizer(images, budget=budget)
            tokens.to_pixels(tokens.features).sum().backward()
            with torch.no_grad():
                tokenizer(images, budget=budget)

    return encode


def _retrofit() -> None:
    from pixtree.models.retrofit import retrofit  # which needs timm

    model = retrofit(MODEL, tokens=9, depth=1)
    model(torch.rand(1, 3, 48, 48)).sum().backward()
    model.forward_intermediates(torch.rand(1, 3, 48, 48))


def _coarsen() -> None:
    from pixtree.models.coarsening.coarsen import coarsen

    for rule in ("tree", "atc"):
        with torch.no_grad():
            coarsen(MODEL, compute=0.5, rule=rule)(torch.rand(1, 3, 224, 224))


# Processes take these in turn, those that take long first.
CALLS: dict[str, Callable[[], None]] = {
    "photos": _photos,
    "coarsened models": _coarsen,
    "13 channels": _channels(13),
    "drawings of photos": _drawing(_photo),
    "tokens": _tokens(Tokenizer.paper),
    "drawings of artwork": _drawing(_artwork),
    "pretrained tokens": _tokens(Tokenizer.pretrained),
    "1 channel": _channels(1),
    "smooth drawings": _drawing(_photo, style="smooth"),
    "posters": _drawing(_artwork, preset="poster"),
    "retrofits": _retrofit,
    "cuts": _cuts,
    "similarities": _similarities,
    "artwork": _zones,
    "drawings with the edges of pixels": _drawing(_photo, style="polygon"),
    "posters of photos": _drawing(_photo, preset="poster"),
    "icons of photos": _drawing(_photo, preset="icon"),
    "line art": _drawing(_artwork, preset="lineart"),
    "line drawings": _drawing(_photo, preset="sketch"),
    "fast drawings": _drawing(_photo, fast=True),
    "16-bit grey": _deep_grey,
    "selections": _selections,
}
# The call that compiles most of what two have in common comes before the other one, which then loads it; all but "coarsened models"
# come after "photos". So no two processes compile one kernel at the same time, but for a few small ones.
AFTER = dict.fromkeys(CALLS, "photos") | {
    "tokens": "13 channels",
    "drawings of artwork": "drawings of photos",
    "pretrained tokens": "tokens",
    "1 channel": "13 channels",
    "smooth drawings": "drawings of photos",
    "posters": "drawings of artwork",
    "retrofits": "pretrained tokens",
    "drawings with the edges of pixels": "smooth drawings",
    "posters of photos": "posters",
    "icons of photos": "drawings of artwork",
    "line art": "smooth drawings",
    "line drawings": "drawings of artwork",
    "fast drawings": "drawings of photos",
    "16-bit grey": "1 channel",
}
del AFTER["photos"], AFTER["coarsened models"]


def run(name: str) -> str:
    """Make one of the calls: "" if it worked, or the sentence about an extra that is missing."""
    torch.set_num_threads(1)
    gc.freeze()  # what is here stays: looking through it again and again would be a twentieth of the time
    try:
        CALLS[name]()
    except ImportError as error:
        return str(error)
    return ""


def _be_silent() -> None:
    logging.getLogger("pixtree").setLevel(logging.ERROR)


def warm_up(processes: int | None = None, *, silent: bool = False) -> Iterator[tuple[str, str]]:
    """Make all calls, by default in one process per core; yields the name of each call at its end, and the extra that it lacked.

    silent: the processes do not say what they compile.

    The machine code lands where numba keeps it, so this costs CPU time once per machine: minutes to compile, seconds to load.
    """
    workers = min(processes or os.cpu_count() or 1, len(CALLS))
    # Forked processes would inherit locks of torch's threads.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_be_silent if silent else None) as pool:
        waiting, ended = list(CALLS), set[str]()
        running: dict[Future[str], str] = {}
        try:
            while waiting or running:
                ready = [name for name in waiting if AFTER.get(name) in (None, *ended)]
                for name in ready[: workers - len(running)]:
                    waiting.remove(name)
                    running[pool.submit(run, name)] = name
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    name = running.pop(done)
                    ended.add(name)
                    yield name, done.result()
        except BrokenProcessPool as fault:
            raise OSError(
                "a process of the warm-up was killed, perhaps for lack of memory; run it again with --workers 1"
            ) from fault
        finally:
            pool.shutdown(cancel_futures=True)
