"""`pixtree evaluate speed`: what a model gains from fewer tokens on this machine."""

from functools import partial
from typing import Annotated

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.evaluate_models import Model, Timing, reporter, title_of
from pixtree.cli.options import grouped
from pixtree.cli.progress import Progress
from pixtree.cli.tables import refuse_several


@reported()
@grouped
def speed(
    model: Model,
    compute: Annotated[str, typer.Option(help="Shares of the operations to keep, separated by commas.")] = "0.7,0.5,0.3",
    times: Annotated[
        str, typer.Option("--speed", help="Speeds to fit schedules to, by measured time, such as 1.5,1.8.", show_default="none")
    ] = "",
    size: Annotated[int | None, typer.Option(help="Side of the images in pixels.", show_default="the model's")] = None,
    threads: Annotated[int, typer.Option(help="Threads; 0 is torch's own choice.")] = 0,
    rounds: Annotated[int, typer.Option(help="Rounds in which all take turns.")] = 7,
    *,
    settings: Timing,
) -> None:
    """Measure images per second with fewer tokens: at your batch, image size and threads, in turns with the model as it is."""
    refuse_several("speed")
    shares, wanted = _numbers(compute, "--compute"), _numbers(times, "--speed")
    if rounds < 1 or threads < 0 or settings.batch < 1:
        found = f"{rounds}, {threads} and {settings.batch}"
        raise UsageError(f"expected at least 1 round, 0 or more threads and a batch of at least 1, got {found}; try 7, 0 and 8")
    from pixtree.evaluation.classification import image_side
    from pixtree.evaluation.coarse_speed import SPEED_COLUMNS, coarsened_at, speed_rows, untouched, using_threads
    from pixtree.evaluation.plots import plot_bars
    from pixtree.evaluation.variants import photo_batch

    base = untouched(model, settings.weights, size).to(settings.device)
    images = photo_batch(settings.batch, image_side(base)).to(settings.device)
    with using_threads(threads) as used, Progress(rounds + 1) as progress:
        models = coarsened_at(base, shares, wanted, settings.batch)
        rows = speed_rows(models, images, rounds, reporter(progress))
    words = f" --compute {compute}" + (f" --speed {times}" if times else "") + (f" --size {size}" if size else "")
    command = settings.command("speed", model) + f"{words} --batch {settings.batch} --threads {used} --rounds {rounds}"
    note = (
        f"{settings.batch} images of {image_side(base)} pixels at a time, {used} threads, float32; all take turns in one run. Only "
        "ratios carry over to other machines. What accuracy it costs is measured by pixtree evaluate top1."
    )
    draw = partial(plot_bars, {row["variant"]: row["images_per_second"] for row in rows}, x="images per second")
    settings.finish(f"Speed of {title_of(model)} with fewer tokens", command, SPEED_COLUMNS, rows, [note], draw)


def _numbers(text: str, option: str) -> list[float]:
    """Positive numbers from text such as 0.7,0.5."""
    try:
        found = [float(word) for word in text.split(",")] if text.strip() else []
    except ValueError:
        found = [-1.0]
    if not all(number > 0.0 for number in found):
        raise UsageError(f"{option} takes numbers above 0, separated by commas, got {text!r}; try 0.5,0.7 or 1.5,1.8")
    return found
