"""The page of results is made of records alone."""

import json
from pathlib import Path

import pytest

from pixtree.evaluation.report import is_current, render, section, table, write_report
from pixtree.evaluation.superpixels import MEASURES

HEAD = {
    "command": "pixtree evaluate superpixels bsds500",
    "date": "2024-05-06",
    "machine": {"cpu": "Some CPU", "cores": 2, "platform": "Linux"},
    "versions": {"numpy": "2.0"},
}


def superpixel_record():
    values = {measure.key: 0.5 for measure in MEASURES}
    row = {"method": "grid", "photos": 3, "segments": 198.0, "pieces": 199.0, "psnr_of_mean_error": None, "seconds": 0.1}
    rows = [{**row, **values, "tokens": count} for count in (100, 200)]
    data = {"name": "bsds500", "split": "val", "photos": 3, "annotations": 15}
    return {"benchmark": "superpixels", "title": "Superpixels", "dataset": data, "rows": rows, **HEAD}


def test_a_section_states_command_date_and_machine(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(superpixel_record()))
    page = render(tmp_path)
    for words in ("## Superpixels", "`pixtree evaluate superpixels bsds500`", "2024-05-06", "Some CPU, 2 cores", "numpy 2.0"):
        assert words in page
    assert "### 100 regions requested" in page
    assert "| grid | 198.0 | 199.0 | 0.5000 |" in page
    assert "| – |" in page
    assert all(measure.meaning in page for measure in MEASURES)


def test_any_record_with_columns_joins_the_page(tmp_path):
    record = {"benchmark": "table", "title": "Speed", "columns": [["what", "What", ""], ["ms", "ms", ".1f"]], **HEAD}
    (tmp_path / "a.json").write_text(json.dumps(superpixel_record()))
    (tmp_path / "b.json").write_text(json.dumps({**record, "rows": [{"what": "tree", "ms": 1.26}], "notes": ["Medians."]}))
    write_report(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert page.index("## Superpixels") < page.index("## Speed")
    assert "| What | ms |\n|---|---|\n| tree | 1.3 |\n" in page
    assert "Medians." in page


def test_missing_values_are_dashes_and_words_stay():
    assert table([("a", "A", ".2f"), ("b", "B", ".2f")], [{"a": "x"}]) == "| A | B |\n|---|---|\n| x | – |\n"


def test_a_record_of_an_unknown_kind_is_named_with_the_choices(tmp_path):
    with pytest.raises(FileNotFoundError, match="found none"):
        render(tmp_path)
    (tmp_path / "odd.json").write_text(json.dumps({"benchmark": "dance", **HEAD}))
    with pytest.raises(ValueError, match=r"odd.json .*'dance'; choose one of superpixels, table"):
        render(tmp_path)


def test_the_committed_page_says_what_the_committed_records_say():
    root = Path(__file__).parents[2]
    assert is_current(root / "benchmarks" / "results", root / "docs" / "results.md")


def test_targets_are_met_or_not_in_words():
    record = {"benchmark": "table", "title": "t", "command": "c", "date": "d", "machine": {"cpu": "x", "cores": 1, "platform": "p"}}
    bars = [{"what": "a", "wanted": "> 0", "found": 1.0, "met": True}, {"what": "b", "wanted": "> 0", "found": -1.0, "met": "no"}]
    text = section({**record, "columns": [["a", "A", ""]], "rows": [{"a": True}], "bars": bars}, "t.json")
    assert "| a | > 0 | 1 | yes |" in text
    assert "| b | > 0 | -1 | no |" in text
    assert "| yes |" in text.partition("Target")[0]
