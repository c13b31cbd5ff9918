"""The page about large corpora says what its record says."""

import importlib.util
import json

import pytest
from pages import ROOT


@pytest.fixture(scope="module")
def scaling():
    spec = importlib.util.spec_from_file_location("scaling", ROOT / "benchmarks" / "scaling.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_record(scaling):
    page = scaling.PAGE.read_text(encoding="utf-8")
    assert scaling.with_tables(page, json.loads(scaling.RECORD.read_text(encoding="utf-8"))) == page


def test_a_fit_finds_the_line_that_values_lie_on(scaling):
    rows = [{"megapixels": m, "seconds": 0.02 + 0.5 * m} for m in (0.1, 0.2, 0.7)]
    assert scaling.fitted(rows, "seconds") == pytest.approx((0.02, 0.5))
    assert scaling.fitted([{"megapixels": m, "seconds": m - 0.05} for m in (0.1, 1.0)], "seconds")[0] == 0.0


def test_costs_are_those_of_computing_or_of_moving(scaling):
    """3600 · 32 · 0.85 pictures of one second are one hour of one machine; pictures that cost nothing wait for the network."""
    corpus = scaling.Corpus("test", 3600 * 32 * 0.85, 1.0, 1.0)
    slow = scaling.costs(corpus, {"seconds": (1.0, 0.0), "bytes_out": (0.0, 0.0)})
    assert slow["hours"] == pytest.approx(1.0)
    assert slow["core_hours"] == pytest.approx(32 * 0.85)
    quick = scaling.costs(scaling.Corpus("test", 1e6, 1.0, 1250.0), {"seconds": (0.0, 0.0), "bytes_out": (0.0, 0.0)})
    assert quick["hours"] == pytest.approx(1e6 * 1.25e6 * 8 / 10e9 / 3600)
    assert quick["gigabits"] == pytest.approx(10.0)
