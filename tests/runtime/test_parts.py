"""Parts: functions that only kernels call are compiled into them, and nowhere else."""

import sys
from types import ModuleType

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from pixtree.runtime import jit
from pixtree.runtime.parts import PartLibrary

NAMES = {"__name__": "pixtree.kernels.tried", "np": np, "jit": jit}
SOURCE = """
@jit.part()
def double(values, i):
    return 2 * values[i]

@jit.inlined
def both(values, i):
    return double(values, i) + double(values, i + 1)

@jit.part(allocates=True)
def doubled(values):
    found = np.empty(values.size, values.dtype)
    for i in range(values.size):
        found[i] = double(values, i)
    return found

@jit.part()
def same(values):
    return values

@jit.kernel
def total(values):
    sum = 0
    for i in range(values.size - 1):
        sum += both(doubled(values), i)
    return sum

@jit.kernel
def first(values):
    return same(values)[0]

@jit.part()
def summed(values):
    sum = np.float32(0)
    for i in range(values.size):
        sum += values[i] * values[i]
    return sum

@jit.tolerant
def in_any_order(values):
    return summed(values)

@jit.kernel
def in_order(values):
    return summed(values)
"""


@pytest.fixture
def tried(tmp_path, monkeypatch):
    """The functions as a new process has them; machine code is kept in a folder of the test."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "code"))
    path = tmp_path / "tried.py"
    path.write_text(SOURCE)

    def make():
        module = ModuleType(NAMES["__name__"])
        vars(module).update(NAMES, __file__=str(path))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(SOURCE, str(path), "exec"), vars(module))
        return module

    return make


def test_kernels_contain_their_parts(tried):
    module, values = tried(), np.arange(5)
    assert module.total(values) == 2 * 2 * (1 + 3 + 5 + 7)
    (library,) = (one.library for one in module.double.overloads.values())
    assert isinstance(library, PartLibrary)
    assert [one.name for one in library.get_defined_functions()] == []
    (library,) = (one.library for one in module.total.overloads.values())
    assert not isinstance(library, PartLibrary)


def test_a_later_process_loads_kernels_and_compiles_others_from_loaded_parts(tried):
    values = np.arange(5)
    assert tried().total(values) == 64
    later = tried()
    later.total(values)
    assert sum(later.total.stats.cache_hits.values()) == 1
    assert not later.double.overloads
    other = tried()
    vars(other)["again"] = jit.kernel(other.total.py_func)
    other.total._cache.flush()
    assert other.total(values) == 64
    assert sum(other.both.stats.cache_hits.values()) == sum(other.doubled.stats.cache_hits.values()) == 1
    assert not other.both.stats.cache_misses


def test_python_may_call_a_part_which_then_has_machine_code(tried):
    module = tried()
    assert module.doubled(np.arange(3)).tolist() == [0, 2, 4]
    assert module.double(np.arange(3.0), 2) == 4.0
    again = tried()
    assert again.double(np.arange(3.0), 2) == 4.0
    assert sum(again.double._kernel.stats.cache_hits.values()) == 1
    assert again.total(np.arange(5)) == 64


def test_a_part_that_counts_no_references_must_not_return_an_array(tried):
    """Numba lets it return its argument, which its caller would then release."""
    with pytest.raises(TypingError, match="expected a part that returns no array, got same, which does; give it allocates=True"):
        tried().first(np.arange(3))


def test_a_part_keeps_its_arithmetic_whoever_compiles_it_first(tried):
    values = np.random.default_rng(0).random(9999, np.float32)
    module, other = tried(), tried()
    expected = np.float32(0)
    for value in values:
        expected += value * value
    assert module.in_any_order(values) == module.in_order(values) == expected
    assert other.in_order(values) == expected


def test_functions_of_others_are_compiled_as_ever():
    one = numba.njit(lambda number: number + 1)
    assert one(1) == 2
    (library,) = (found.library for found in one.overloads.values())
    assert not isinstance(library, PartLibrary)
