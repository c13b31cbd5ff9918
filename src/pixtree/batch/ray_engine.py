"""The same parts on a Ray cluster, as a Ray Data pipeline."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from pixtree.batch.corpus import Part
from pixtree.batch.parts import Order, Outcome, finish

INSTALL = "pip install 'pixtree[ray]'"


def finish_all_on_ray(order: Order, parts: Sequence[Part], workers: int | None) -> Iterator[Outcome]:
    """Do all parts and tell of each as it ends; Ray starts a part again whose process or machine is lost.

    An existing cluster is used where RAY_ADDRESS names one, else a local one is started. Source and destination must be seen by all
    machines.
    """
    try:
        import ray
    except ImportError as fault:
        raise ImportError(f"--engine ray needs Ray, which is not installed; {INSTALL}") from fault
    if not ray.is_initialized():
        local: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": workers, "include_dashboard": False}
        ray.init(log_to_driver=False, **local)
    quiet = ray.data.DataContext.get_current()
    quiet.enable_progress_bars = False
    rows = ray.data.from_items([part._asdict() for part in parts], override_num_blocks=len(parts))
    done = rows.map(partial(_finish_row, order), num_cpus=1)
    for row in done.iter_rows():
        yield Outcome(row["part"], row["done"], row["failed"])


def _finish_row(order: Order, row: dict[str, Any]) -> dict[str, Any]:
    import torch

    os.environ["PIXTREE_THREADS"] = "1"
    torch.set_num_threads(1)
    return finish(order, Part(row["name"], tuple(row["files"])))._asdict()
