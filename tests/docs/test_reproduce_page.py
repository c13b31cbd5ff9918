"""docs/reproduce.md: its recipes and changes exist, its tables are those of the paper, and its hours those of the record.

That options exist is shown for all pages by `test_blocks.py`.
"""

import itertools
import json

import pytest
from pages import ROOT, blocks, lines_of

from pixtree.evaluation.records import markdown_table
from pixtree.training.recipe import read_recipe

PAGE = ROOT / "docs" / "reproduce.md"
TEXT = PAGE.read_text(encoding="utf-8")
LINES = [words for block in blocks(PAGE) if block.language == "bash" for words in lines_of(block.text)]
RECIPES = [words for words in LINES if words[1:3] == ["train", "recipe"]]
LABELS = (ROOT / "tests" / "paper" / "labels.txt").read_text(encoding="utf-8").split()
SHOWN = ("fig:teaser", "fig:pipeline", "fig:arbopixels", "fig:spatgran", "fig:scale_invariance", "fig:resdensity")


@pytest.mark.parametrize("words", RECIPES, ids=lambda words: words[words.index("-o") + 1])
def test_recipes_of_the_page_take_its_changes(words):
    changes = [value for option, value in itertools.pairwise(words) if option == "--set"]
    recipe = read_recipe(words[3], changes)
    values = recipe.model_dump()
    for change in changes:
        key, _, value = change.partition("=")
        section, name = key.split(".") if "." in key else (None, key)
        assert str((values[section] if section else values)[name]).lower() == value.replace("null", "none").lower()


def test_runs_start_from_what_an_earlier_line_leaves():
    made: set[str] = set()
    for words in LINES:
        used = [word.removeprefix("run=").removesuffix("/encoder.safetensors").removeprefix("model.encoder=") for word in words]
        if "-o" in words:
            output = words[words.index("-o") + 1]
            assert [one for one in used if one.startswith("runs/") and one not in made | {output}] == []
            made.add(output)


def test_every_table_of_results_is_on_the_page():
    tables = [label for label in LABELS if label.startswith("tab:") and not label.startswith(("tab:config", "tab:all_config"))]
    assert len(tables) > 8
    assert [label for label in (*tables, *SHOWN) if f"`{label}`" not in TEXT] == []


def test_records_and_scripts_of_the_page_exist():
    named = {word for words in LINES for word in words if word.startswith("benchmarks/")}
    assert named
    assert [one for one in named if not (ROOT / one).is_file()] == []
    records = {part for part in TEXT.split("`") if part.endswith(".json") and " " not in part and "/" not in part}
    assert [one for one in records - {"FILE.json"} if not (ROOT / "benchmarks" / "results" / one).is_file()] == []


def test_hours_are_those_of_the_record():
    record = json.loads((ROOT / "benchmarks" / "results" / "gpu_hours.json").read_text(encoding="utf-8"))
    assert markdown_table(record["columns"], record["rows"]) in TEXT
