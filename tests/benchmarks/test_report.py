"""The page of results is made of records alone."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from evidence.chapters import CHAPTERS, DIFFERENCES, WORDS
from evidence.report import chapters, is_current, render, script, section, slug, verdict, write_report

from pixtree.evaluation.records import markdown_table
from pixtree.evaluation.superpixels import MEASURES

ROOT = Path(__file__).parents[2]
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
    page, _ = render(tmp_path)
    for words in ("### Superpixels", "`pixtree evaluate superpixels bsds500`", "2024-05-06", "Some CPU, 2 cores", "numpy 2.0"):
        assert words in page
    assert "#### 100 regions requested" in page
    assert "| grid | 198.0 | 199.0 | 0.5000 |" in page
    assert "| – |" in page
    assert all(measure.meaning in page for measure in MEASURES)


def test_any_record_with_columns_joins_the_page(tmp_path):
    record = {"benchmark": "table", "title": "Speed", "columns": [["what", "What", ""], ["ms", "ms", ".1f"]], **HEAD}
    (tmp_path / "a.json").write_text(json.dumps(superpixel_record()))
    (tmp_path / "b.json").write_text(json.dumps({**record, "rows": [{"what": "tree", "ms": 1.26}], "notes": ["Medians."]}))
    write_report(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert page.index("### Superpixels") < page.index("### Speed")
    assert "| What | ms |\n|---|---|\n| tree | 1.3 |\n" in page
    assert "Medians." in page


def test_missing_values_are_dashes_and_words_stay():
    assert markdown_table([("a", "A", ".2f"), ("b", "B", ".2f")], [{"a": "x"}]) == "| A | B |\n|---|---|\n| x | – |\n"


def test_a_record_of_an_unknown_kind_is_named_with_the_choices(tmp_path):
    with pytest.raises(FileNotFoundError, match="found none"):
        render(tmp_path)
    (tmp_path / "odd.json").write_text(json.dumps({"benchmark": "dance", **HEAD}))
    with pytest.raises(ValueError, match=r"odd.json .*'dance'; choose one of superpixels, table"):
        render(tmp_path)


def test_the_committed_page_says_what_the_committed_records_say():
    assert is_current(ROOT / "benchmarks" / "results", ROOT / "docs" / "results.md")


def test_targets_are_met_or_not_in_words():
    record = {"benchmark": "table", "title": "t", "command": "c", "date": "d", "machine": {"cpu": "x", "cores": 1, "platform": "p"}}
    bars = [{"what": "a", "wanted": "> 0", "found": 1.0, "met": True}, {"what": "b", "wanted": "> 0", "found": -1.0, "met": "no"}]
    text = section({**record, "columns": [["a", "A", ""]], "rows": [{"a": True}], "bars": bars}, "t.json")
    assert "| a | > 0 | 1 | yes |" in text
    assert "| b | > 0 | -1 | no |" in text
    assert "| yes |" in text.partition("Target")[0]


def plain_record(title="Speed", rows=1, **more):
    columns = [["what", "What", ""], ["ms", "ms", ".1f"], ["error", "± s.e.", ".1f"]]
    values = [{"what": f"row {place}", "ms": 1.0 + place, "error": 1.0} for place in range(rows)]
    return {"benchmark": "table", "title": title, "columns": columns, "rows": values, **HEAD, **more}


def written(folder, **records):
    for name, record in records.items():
        (folder / f"{name}.json").write_text(json.dumps(record))
    return render(folder)


def test_chapters_follow_the_story_and_unknown_records_come_last(tmp_path):
    names = ["speed", "app", "select_clicks", "vectors", "salient", "retrofit", "zebra", "tokenizers", "superpixels"]
    found = [name for _, some in chapters({name: {} for name in names}) for name in some]
    assert found == ["superpixels", "tokenizers", "retrofit", "salient", "vectors", "select_clicks", "app", "speed", "zebra"]
    page, _ = written(tmp_path, zebra=plain_record("Stripes"), app=plain_record("The web app"))
    assert page.index("## App") < page.index("### The web app") < page.index("## Further records") < page.index("### Stripes")


def test_the_contents_link_every_heading(tmp_path):
    page, _ = written(tmp_path, a=plain_record("Gradients, at 2×: which?"), superpixels={**superpixel_record(), "title": "Photos"})
    links = re.findall(r"\(#([^)]+)\)", page)
    headings = [slug(line.lstrip("# ")) for line in page.splitlines() if re.match(r"#{2,3} ", line)]
    assert set(links) <= set(headings)
    assert "gradients-at-2-which" in links
    assert len(headings) == len(set(headings))


def test_a_long_table_has_a_page_of_its_own_and_leaves_its_targets_and_words(tmp_path):
    bars = [{"what": "fast", "wanted": "< 2", "found": 1.0, "met": True}, {"what": "small", "wanted": "1", "found": 2, "met": "no"}]
    page, long = written(
        tmp_path, a=plain_record(rows=41, bars=bars, notes=["Medians."], shows="Shows rows."), b=plain_record("Few")
    )
    assert "| row 40 |" in long
    assert "| row 40 |" not in page
    assert "[The whole table](results_long.md#speed)" in page
    assert "| fast | < 2 | 1 | yes |\n| small | 1 | 2 | no |" in page
    assert page.index("Shows rows.") < page.index("Medians.")
    assert "## Few" not in long


def test_a_difference_below_two_standard_errors_is_a_tie(tmp_path):
    assert [verdict(*one) for one in ((0.3, 0.2), (-0.3, 0.2), (0.5, 0.2), (-0.5, 0.2), (None, 0.2), (0.0, 0.0))] == [
        *("tie", "tie", "ahead", "behind"),
        None,
        None,
    ]
    difference, error = DIFFERENCES["coarsen"]
    columns = [["method", "Method", ""], [difference, "Lead", ".2f"], [error, "± s.e.", ".2f"], ["last", "Last", ""]]
    record = plain_record() | {"columns": columns, "rows": [{"method": "x", difference: 0.01, error: 0.02, "last": 3}]}
    page, _ = written(tmp_path, coarsen=record)
    assert "| Method | Lead | ± s.e. | Verdict | Last |" in page
    assert "| x | 0.01 | 0.02 | tie | 3 |" in page


def test_superpixels_that_tie_with_the_first_method_are_named(tmp_path):
    record = superpixel_record()
    first = {**record["rows"][1], **{f"{measure.key}_se": 0.01 for measure in MEASURES}}
    near, far = ({**first, "method": name, "boundary_recall": recall} for name, recall in (("near", 0.52), ("far", 0.6)))
    page, _ = written(tmp_path, superpixels={**record, "rows": [first, near, far]})
    assert "Boundary recall: near;" in page


def test_a_command_in_the_first_table_is_short():
    shown = {
        "chrt -r 1 python benchmarks/app.py -o a.json": "python benchmarks/app.py …",
        "python benchmarks/coarsen.py report --images $PIXTREE_DATA/a": "python benchmarks/coarsen.py report …",
        "python benchmarks/paper_counts.py $PIXTREE_DATA/a": "python benchmarks/paper_counts.py …",
        "python benchmarks/vectors.py others": "python benchmarks/vectors.py others",
    }
    assert {command: script({"command": command}) for command in shown} == shown


def test_words_and_patterns_are_those_of_committed_records_or_of_none():
    assert all(words.endswith(".") for words in WORDS.values())
    assert all(chapter.words.endswith(".") for chapter in CHAPTERS)


def test_one_command_writes_the_pages_and_checks_them(tmp_path, monkeypatch, capsys):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "a.json").write_text(json.dumps(superpixel_record()))
    page = tmp_path / "page.md"
    command = [str(ROOT / "benchmarks" / "evidence"), str(tmp_path / "results"), "-o", str(page)]

    def report(*words):  # in this process, which has loaded torch
        monkeypatch.setattr("sys.argv", [*command, *words])
        monkeypatch.setattr("sys.path", [*sys.path])
        runpy.run_path(command[0], run_name="__main__")
        return capsys.readouterr().out

    assert report() == f"wrote {page}\n"
    assert "### Superpixels" in page.read_text()
    assert (tmp_path / "page_long.md").is_file()
    assert report("--check") == f"{page} is up to date\n"
    page.write_text("typed by hand")
    refused = subprocess.run([sys.executable, *command, "--check"], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "run make report" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert page.read_text() == "typed by hand"
