"""The first table of the page of results: figures looked up in records, the paper's quoted."""

import json
from pathlib import Path

import pytest
from evidence.report import records_in
from evidence.summary import CLAIMS, Claim, bar, best, claimed, listed, peers, printed, summary, value

ROOT = Path(__file__).parents[2]
RECORDS = records_in(ROOT / "benchmarks" / "results")
QUOTES = json.loads((ROOT / "benchmarks" / "paper.json").read_text(encoding="utf-8"))
RECORD = {
    "date": "2026-01-02",
    "rows": [
        {"method": "pixtree", "count": 200, "share": 0.4991, "error": 0.1, "segments": 200, "pieces": 200},
        {"method": "slic", "count": 200, "share": 0.5, "error": 0.3, "segments": 199, "pieces": 199},
        {"method": "lsc", "count": 200, "share": 0.52, "error": 0.2, "segments": 200, "pieces": 900},
        {"method": "lsc", "count": 400, "share": 0.5, "error": None},
    ],
    "bars": [{"what": "mean error", "found": 0.25}],
    "printed": [{"method": "the paper's own", "error": 0.15}],
    "claims": {"fit": 0.5},
}


@pytest.mark.parametrize(
    ("pick", "figure"),
    [
        (value("error", ".2f", method="pixtree"), "0.10"),
        (value("error", ".2f", " s", share=0.5), "0.10 s"),
        (value("error", ".2f", method="none"), None),
        (value("error", ".2f", method="lsc", count=400), None),
        (best("error", ".1f", "method", least=True, but=("pixtree",), count=200), "0.2 (lsc)"),
        (best("error", ".1f", "method", count=200), "0.3 (slic)"),
        (best("error", ".1f", "method", count=9), None),
        (best("error", ".1f", "method", least=True, but=("pixtree",), connected=True, count=200), "0.3 (slic)"),
        (listed(value("error", ".1f", method="slic"), value("error", ".1f", " (ours)", method="pixtree")), "0.3, 0.1 (ours)"),
        (listed(value("error", ".1f", method="none"), value("error", ".1f", method="slic")), "0.3"),
        (listed(value("error", ".1f", method="none")), None),
        (bar("mean", ".2f", " dB"), "0.25 dB"),
        (bar("least", ".2f"), None),
        (printed("error", ".2f"), "0.15"),
        (claimed("fit", ".1f"), "0.5"),
        (claimed("other", ".1f"), None),
    ],
)
def test_figures_are_looked_up_in_records(pick, figure):
    assert pick(RECORD) == figure


def test_a_method_with_torn_regions_is_named_with_the_best_connected_one():
    rows = [
        {"method": "torn", "tokens": 200, "boundary_recall": 0.97, "segments": 204, "pieces": 6950},
        {"method": "whole", "tokens": 200, "boundary_recall": 0.95, "segments": 204, "pieces": 204},
        {"method": "pixtree", "tokens": 200, "boundary_recall": 0.99, "segments": 200, "pieces": 200},
    ]
    assert peers("boundary_recall")({"rows": rows}) == "0.9700 (torn); with connected regions 0.9500 (whole)"
    assert peers("boundary_recall")({"rows": rows[1:]}) == "0.9500 (whole)"


def test_rows_of_the_first_table_carry_the_words_that_make_them_fair():
    rows = {row["claim"]: row for row in summary(RECORDS, QUOTES)}

    def cell(claim, column):
        return next(row[column] for words, row in rows.items() if claim in words)

    assert "square patches, then `snap`" in cell("Salient", "ours")
    assert "own 784 regions" in cell("Salient", "ours")
    assert "(square patches)" in cell("Salient", "other")
    assert "CPU" in cell("384 px", "ours")
    assert "MI250X" in cell("384 px", "paper")
    assert "all 768 patches" in cell("CamVid: mIoU", "other")
    assert "the paper's pipeline in our code" in cell("five images, 5,000 paths: PSNR", "ours")
    assert "the paper's preset" in cell("fine-tuned", "ours")
    assert "the paper's preset" in cell("neighbours", "ours")


def test_a_claim_without_its_record_is_left_out_and_a_missing_figure_is_a_dash(monkeypatch):
    claims = (Claim("error", "some", value("error", ".1f", method="none"), paper="quoted"), Claim("other", "gone", bar("x", "")))
    monkeypatch.setattr("evidence.summary.CLAIMS", claims)
    shown = {"paper": "about 3", "ours": "–", "other": "–", "record": "some", "date": "2026-01-02"}
    assert summary({"some": RECORD}, {"quoted": {"label": "tab:x", "figure": "about 3"}}) == [{"claim": "error", **shown}]


def test_every_claim_finds_its_figures_in_the_committed_records():
    rows = summary(RECORDS, QUOTES)
    assert {row["claim"] for row in rows if row["ours"] == "–"} == set()
    others = {claim.words for claim in CLAIMS if claim.other is not None and claim.record in RECORDS}
    assert {row["claim"] for row in rows if row["other"] != "–"} == others


def test_quotes_of_the_paper_name_its_labels():
    labels = (ROOT / "tests" / "paper" / "labels.txt").read_text(encoding="utf-8").split()
    quotes = {key: quote for key, quote in QUOTES.items() if key != "about"}
    assert [quote["label"] for quote in quotes.values() if quote["label"] not in labels] == []
    assert {claim.paper for claim in CLAIMS if isinstance(claim.paper, str)} <= quotes.keys()
