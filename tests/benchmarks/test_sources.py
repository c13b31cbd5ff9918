"""A record is stale exactly when what it measures has changed: the script, and what the script imports."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from evidence.records import provenance, write_record
from evidence.sources import script_of, source_hashes, sources_of, state_of

ROOT = Path(__file__).parents[2]
COMMAND = "python benchmarks/colours.py --data $PIXTREE_DATA"
FILES = {
    "benchmarks/colours.py": (
        '"""Colours."""\n'
        "import pixtree\n"
        "from neighbour import value  # a script beside it\n"
        "def main():\n"
        '    """Measure."""\n'
        "    from pixtree.images.reading import read\n"
        "    return pixtree.cut(read(value))\n"
    ),
    "benchmarks/neighbour.py": "value = 3\n",
    "benchmarks/other.py": "import pixtree.models.vit\n",
    "src/pixtree/__init__.py": '_HOMES = {"cut": "trees.cuts"}\n',
    "src/pixtree/images/__init__.py": "",
    "src/pixtree/images/reading.py": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pixtree.models.vit import ViT\ndef read(x):\n    return x\n"
    ),
    "src/pixtree/models/__init__.py": "",
    "src/pixtree/models/vit.py": "class ViT: pass\n",
    "src/pixtree/trees/__init__.py": "",
    "src/pixtree/trees/cuts.py": "from pixtree.evaluation.records import provenance\ndef cut(x):\n    return x + 1\n",
    "src/pixtree/evaluation/records.py": "def provenance(): pass\n",
    "src/pixtree/trees/weights.bin": "123",
    "src/pixtree/cli/evaluate.py": "from pixtree.cli import tables\ndef top_one():\n    from pixtree.models.vit import ViT\n",
    "src/pixtree/cli/tables.py": "import pixtree.trees.cuts\n",
}


@pytest.fixture
def root(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def names(command, root):
    return {str(path.relative_to(root)) for path in sources_of(command, root)}


def change(root, name, before, after):
    path = root / name
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


def test_a_command_measures_its_script_and_what_that_imports(root):
    assert names(COMMAND, root) == {
        "benchmarks/colours.py",
        "benchmarks/neighbour.py",
        "src/pixtree/images/__init__.py",
        "src/pixtree/images/reading.py",
        "src/pixtree/trees/__init__.py",
        "src/pixtree/trees/cuts.py",
        "src/pixtree/trees/weights.bin",
    }


def test_a_command_of_the_command_line_measures_the_file_that_holds_it(root):
    found = names("pixtree evaluate top-one deit --tokens 3", root)
    assert found == {"src/pixtree/cli/evaluate.py", "src/pixtree/models/__init__.py", "src/pixtree/models/vit.py"}


def test_a_script_that_starts_programs_names_the_folders_that_it_measures(root):
    (root / "benchmarks" / "other.py").write_text('MEASURES = ("src/pixtree/trees",)\n')
    assert "src/pixtree/trees/cuts.py" in names("python benchmarks/other.py", root)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("benchmarks/colours.py", "pixtree.cut(read(value))", "pixtree.cut(value)"),
        ("benchmarks/neighbour.py", "3", "4"),
        ("src/pixtree/trees/cuts.py", "x + 1", "x + 2"),
        ("src/pixtree/trees/weights.bin", "123", "124"),
    ],
)
def test_a_change_of_a_measured_source_makes_a_record_stale_and_names_its_folder(root, name, before, after):
    record = {"command": COMMAND, "source_hashes": source_hashes(COMMAND, root)}
    assert state_of(record, root).word == "fresh"
    change(root, name, before, after)
    assert state_of(record, root) == ("stale", (str(Path(name).parent).removeprefix("src/"),))
    change(root, name, after, before)
    assert state_of(record, root).word == "fresh"


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("benchmarks/colours.py", "Measure.", "Measure colours."),
        ("benchmarks/colours.py", "# a script beside it", "# a script of the same folder"),
        ("src/pixtree/trees/cuts.py", "    return x + 1", "    # why one\n    return (x\n        + 1)"),
        ("src/pixtree/models/vit.py", "pass", "size = 3"),
        ("src/pixtree/evaluation/records.py", "pass", "return 3"),
    ],
)
def test_words_layout_and_other_sources_leave_a_record_fresh(root, name, before, after):
    record = {"command": COMMAND, "source_hashes": source_hashes(COMMAND, root)}
    change(root, name, before, after)
    assert state_of(record, root).word == "fresh"


def test_a_module_that_joins_or_leaves_the_imports_makes_a_record_stale(root):
    record = {"command": COMMAND, "source_hashes": source_hashes(COMMAND, root)}
    change(root, "benchmarks/colours.py", "import pixtree\n", "import pixtree\nimport pixtree.models.vit\n")
    assert state_of(record, root) == ("stale", ("benchmarks", "pixtree/models"))


def test_records_without_hashes_are_unknown(root):
    assert state_of({"command": COMMAND}, root) == ("unknown", ())
    assert source_hashes("a word of mine", root) == {}
    assert source_hashes("python benchmarks/gone.py", root) == {}
    assert script_of("pixtree evaluate nothing", root) == root / "src/pixtree/cli/evaluate.py"


def test_a_new_record_is_fresh_and_says_what_it_cost(tmp_path):
    command = "python benchmarks/paper_counts.py $PIXTREE_DATA/imagenet_sample/images"
    write_record(provenance(command), tmp_path / "a.json")
    record = json.loads((tmp_path / "a.json").read_text())
    assert state_of(record).word == "fresh"
    assert record["cpu_minutes"] >= 0
    assert {"benchmarks", "pixtree/trees"} <= record["source_hashes"].keys()
    assert "pixtree/kernels/tree/build/compiled" in record["source_hashes"]  # a backend, which is found by its name


def test_imports_are_followed_to_every_module_that_a_run_loads(tmp_path):
    """Measured against Python itself: what a segmentation and a tokenizer load is what is found without running them."""
    code = (
        "import sys, numpy, pixtree\n"
        "pixtree.segment(numpy.zeros((8, 8, 3)), tokens=2); pixtree.Tokenizer()\n"
        "print(*(getattr(one, '__file__', None) or '' for name, one in sys.modules.items() if name.startswith('pixtree.')))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {Path(one).resolve() for one in run.stdout.split() if one.endswith(".py")}
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "both.py").write_text(code)
    (tmp_path / "src").symlink_to(ROOT / "src")
    found = {path.resolve() for path in sources_of("python benchmarks/both.py", tmp_path)}
    assert len(loaded) > 50
    assert {str(one.relative_to(ROOT)) for one in loaded - found} <= {"src/pixtree/files.py"}
