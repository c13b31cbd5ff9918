"""Triton's interpreter, which runs kernels on tensors of the CPU.

Whether functions are interpreted is decided when they are defined, so `conftest.py` imports this before anything imports Triton, as
timm does. Tests that use the backend by its name need the fixture `interpreting`.

Triton's language is bound to the interpreter once. Triton itself binds it anew at every call of a function, on top of what it bound
before, which takes most of the time.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="Triton is published for Linux only; elsewhere its kernels cannot be tested")

import triton.language as tl
from torch.utils._python_dispatch import _disable_current_modes
from triton.runtime import interpreter

from pixtree.kernels import kernels_for
from pixtree.runtime import launch

TRITON = kernels_for("triton")  # and defines all its kernels
del os.environ["TRITON_INTERPRET"]  # which processes that tests start would inherit
interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
interpreter._patch_lang = lambda function: interpreter._LangPatchScope()
interpreter.InterpretedFunction.__call__ = lambda self, *arguments, **named: self.rewrite()(*arguments, **named)
interpreter.interpreter_builder.options = interpreter.InterpreterOptions(sanitize_overflow=False)
launch.BLOCK = launch.WARP = 1024  # few programs: the interpreter's time is per operation, not per lane


@contextmanager
def in_blocks(lanes: int) -> Iterator[None]:
    """Programs of that many lanes."""
    before = launch.BLOCK, launch.WARP
    launch.BLOCK = launch.WARP = lanes
    try:
        yield
    finally:
        launch.BLOCK, launch.WARP = before


@contextmanager
def in_random_order(seed: int) -> Iterator[SimpleNamespace]:
    """The programs of every launch one after the other in a random order; yields how many launches and programs there were."""
    builder, random, seen = interpreter.interpreter_builder, np.random.default_rng(seed), SimpleNamespace(launches=0, programs=0)
    set_dim, set_index = builder.set_grid_dim, builder.set_grid_idx
    order, grid = np.zeros(0), (1, 1, 1)

    def shuffled(*dims: int) -> None:
        nonlocal order, grid
        grid, order = dims, random.permutation(int(np.prod(dims)))
        seen.launches, seen.programs = seen.launches + 1, seen.programs + len(order)
        set_dim(*dims)

    def elsewhere(x: int, y: int, z: int) -> None:
        place = int(order[(x * grid[1] + y) * grid[2] + z])
        set_index(place // (grid[1] * grid[2]), place // grid[2] % grid[1], place % grid[2])

    builder.set_grid_dim, builder.set_grid_idx = shuffled, elsewhere
    try:
        yield seen
    finally:
        del builder.set_grid_dim, builder.set_grid_idx


@contextmanager
def on_stand_ins(patch: pytest.MonkeyPatch, stand_in: type) -> Iterator[None]:
    """Kernels take tensors of a stand-in for a device by the values that these hold."""
    run = interpreter.GridExecutor.__call__

    def unwrapped(self, *arguments, **named):
        with _disable_current_modes():
            return run(self, *(one.held if isinstance(one, stand_in) else one for one in arguments), **named)

    patch.setattr(interpreter.GridExecutor, "__call__", unwrapped)
    yield
    patch.setattr(interpreter.GridExecutor, "__call__", run)
