"""Progress of a training run on the command line: steps, time left, and the latest figures."""

from collections.abc import Mapping


class Steps:
    """A progress bar; a context whose value is called after every step with its figures."""

    def __init__(self, steps: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("steps"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self.progress = Progress(*columns, TextColumn("{task.fields[figures]}"), console=Console(stderr=True))
        self.task = self.progress.add_task("steps", total=steps, figures="")

    def __enter__(self) -> "Steps":
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def __call__(self, step: int, figures: Mapping[str, float]) -> None:
        """Show a step."""
        self.progress.start()  # not earlier, so that an error before the first step is one line
        text = f"loss {figures['loss']:.5f}"
        if "tokens" in figures:
            text += f", {figures['tokens']:.0f} tokens"
        if "images_per_second" in figures:
            text += f", {figures['images_per_second']:.1f} images/s"
        self.progress.update(self.task, completed=step + 1, figures=text)
