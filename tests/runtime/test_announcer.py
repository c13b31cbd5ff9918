"""A process that waits for a compiler names the kernel and how many are left, at least every two seconds."""

import io
import itertools
import logging
import sys
import time
from types import SimpleNamespace

import numba
import pytest

from pixtree import messages
from pixtree.runtime import announcer
from pixtree.runtime.announcer import Announcer


@numba.njit
def inner(number):
    return number + 1


@numba.njit
def middle(number):
    return inner(number) * 2


@numba.njit
def outer(number):
    return middle(number) + inner(number)


for dispatcher in (inner, middle, outer):
    dispatcher.py_func.__module__ = "pixtree.kernels.tree.build.compiled.tried"  # as if they were ours


def about(dispatcher):
    return SimpleNamespace(data={"dispatcher": dispatcher})


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only when a test says so."""
    now = [0.0]
    monkeypatch.setattr(messages.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(messages, "_last", -messages.INTERVAL)
    monkeypatch.setattr(messages, "displays", [])
    return now


@pytest.fixture
def logged(caplog, clock):
    caplog.set_level(logging.WARNING, "pixtree")
    return caplog


def test_a_message_names_the_kernel_and_how_many_are_left(logged, clock):
    one = Announcer()
    for dispatcher in (outer, middle, inner):
        one.on_start(about(dispatcher))
        clock[0] += messages.INTERVAL
    assert logged.messages == [
        "pixtree: compiling kernel 1 (tree.build.tried.outer) and about 2 more, once for this machine ...",
        "pixtree: compiling kernel 2 (tree.build.tried.middle) and about 1 more, once for this machine ...",
        "pixtree: compiling kernel 3 (tree.build.tried.inner), once for this machine ...",
    ]
    for dispatcher in (inner, middle, outer):
        one.on_end(about(dispatcher))
    assert one.names == []


def test_lines_of_the_log_come_at_intervals(logged, clock):
    one = Announcer()
    for _ in range(100):
        one.on_start(about(outer))
        one.on_end(about(outer))
        clock[0] += messages.INTERVAL / 10
    assert len(logged.messages) == 10


def test_a_kernel_that_takes_long_is_named_again(logged, monkeypatch):
    ticks = itertools.count(step=messages.INTERVAL)
    monkeypatch.setattr(messages.time, "monotonic", lambda: next(ticks))
    monkeypatch.setattr(announcer, "INTERVAL", 0.01)
    one = Announcer()
    one.on_start(about(outer))
    for _ in range(500):
        if len(logged.messages) >= 3:
            break
        time.sleep(0.01)
    one.on_end(about(outer))
    assert len(logged.messages) >= 3
    assert {message.partition(" and ")[0] for message in logged.messages} == {
        "pixtree: compiling kernel 1 (tree.build.tried.outer)"
    }


def test_kernels_that_are_compiled_already_are_not_counted_unless_types_are_new():
    names = {"njit": numba.njit}
    exec("@njit\ndef known(number): return number\n@njit\ndef caller(number): return known(number)", names)
    known, caller = names["known"], names["caller"]
    assert announcer.callees(caller) == {known}
    known(1)
    assert announcer.callees(caller) == set()
    caller(1)
    assert announcer.callees(caller) == {known}


def test_functions_of_other_libraries_are_not_announced(logged):
    one = Announcer()
    foreign = SimpleNamespace(py_func=SimpleNamespace(__module__="elsewhere", __name__="foreign"))
    one.on_start(about(foreign))
    one.on_end(about(foreign))
    assert logged.messages == []


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_in_a_terminal_one_line_changes_and_is_cleared(clock, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(messages.logger, "hasHandlers", lambda: False)
    one = Announcer()
    for dispatcher in (outer, middle):
        one.on_start(about(dispatcher))
    for dispatcher in (middle, outer):
        one.on_end(about(dispatcher))
    first, second, third, end = terminal.getvalue().split(messages.CLEAR)
    assert (first, end) == ("", "")
    assert second.startswith("pixtree: compiling kernel 1 (tree.build.tried.outer)")
    assert third.startswith("pixtree: compiling kernel 2 (tree.build.tried.middle)")
    assert "\n" not in terminal.getvalue()


def test_a_progress_bar_shows_it_instead(logged, monkeypatch):
    shown = []
    monkeypatch.setattr(messages, "displays", [shown.append])
    one = Announcer()
    one.on_start(about(outer))
    one.on_end(about(outer))
    assert [message.partition(" and ")[0] for message in shown] == ["compiling kernel 1 (tree.build.tried.outer)", ""]
    assert logged.messages == []
