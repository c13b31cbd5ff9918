"""A follow-up to a module that is not loaded yet."""

import importlib
import importlib.util
import sys

import pytest

from pixtree.lazy import when_loaded

NAME = "a_module_of_this_test"


@pytest.fixture
def heard(tmp_path, monkeypatch):
    """The module's name, added by a follow-up; the module is a file that nobody has loaded."""
    (tmp_path / f"{NAME}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    heard = []
    when_loaded(NAME, lambda: heard.append(sys.modules[NAME].value))
    yield heard
    sys.modules.pop(NAME, None)


def test_it_runs_once_when_the_module_is_complete(heard):
    module = importlib.import_module(NAME)
    assert heard == [1]
    importlib.reload(module)
    assert heard == [1]


def test_looking_for_the_module_does_not_run_it(heard):
    assert importlib.util.find_spec(NAME) is not None
    assert heard == []
    importlib.import_module(NAME)
    assert heard == [1]


def test_a_module_that_fails_to_load_does_not_run_it(heard, tmp_path):
    (tmp_path / f"{NAME}.py").write_text("raise ImportError('broken')\n")
    with pytest.raises(ImportError, match="broken"):
        importlib.import_module(NAME)
    assert heard == []
    (tmp_path / f"{NAME}.py").write_text("value = 22\n")
    importlib.invalidate_caches()
    importlib.import_module(NAME)
    assert heard == [22]


def test_it_runs_at_once_for_a_module_that_is_loaded(heard):
    importlib.import_module(NAME)
    when_loaded(NAME, lambda: heard.append("again"))
    assert heard == [1, "again"]
