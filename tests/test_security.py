"""What SECURITY.md promises: no file that is read can run code, and nothing that is read leaves its place."""

import ast
import pickle
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from sources import Parsed, tree_of
from torch import nn

import pixtree
from pixtree.batch.datasets import read_labels
from pixtree.training.loop import restored

ROOT = Path(__file__).parents[1]
SOURCES, SCRIPTS = Parsed(ROOT / "src"), Parsed(ROOT / "benchmarks", ROOT / "examples")
LOADERS = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
RUNNERS = ("eval", "exec", "os.system", "torch.hub.load", "yaml.load", "yaml.unsafe_load", "yaml.full_load", "tempfile.mktemp")


def calls(paths):
    """File, name of the function, and keywords of every call."""
    return [call for path in paths for call in calls_in(path)]


@cache
def calls_in(path):
    found = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    return [(path.name, ast.unparse(node.func), {word.arg: ast.unparse(word.value) for word in node.keywords}) for node in found]


def test_no_source_loads_a_pickle():
    found = []
    for path, tree in SOURCES.items():
        for node in ast.walk(tree):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [(path.name, module) for module in modules if module.split(".")[0] in LOADERS]
    assert found == [("loop.py", "pickle")]  # for the name of an error, see the next test


def test_of_pickle_only_the_name_of_an_error_is_used():
    used = {
        ast.unparse(node)
        for tree in SOURCES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pickle"
    }
    assert used == {"pickle.UnpicklingError"}


def test_files_of_torch_are_read_as_weights_only_everywhere():
    found = [(name, words) for name, function, words in calls([*SOURCES, *SCRIPTS]) if function == "torch.load"]
    assert found
    assert [name for name, words in found if words.get("weights_only") != "True"] == []


def test_files_of_numpy_are_read_without_pickle():
    names = ("np.load", "numpy.load")
    found = [(name, words) for name, function, words in calls(SOURCES) if function in names]
    assert found
    assert [name for name, words in found if words.get("allow_pickle") != "False"] == []
    assert [
        name for name, function, words in calls(SCRIPTS) if function in names and words.get("allow_pickle", "False") != "False"
    ] == []


def test_no_source_runs_text_a_shell_or_code_that_comes_with_data():
    found = [(name, function) for name, function, words in calls(SOURCES) if function in RUNNERS or words.get("shell") == "True"]
    found += [
        (name, "trust_remote_code") for name, _, words in calls(SOURCES) if words.get("trust_remote_code", "False") != "False"
    ]
    assert found == []


def test_no_archive_is_unpacked_to_disk():
    unpacking = (".extractall", ".extract", ".unpack_archive")
    assert [(name, function) for name, function, _ in calls(SOURCES) if function.endswith(unpacking)] == []


class Bomb:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path):
    learner = nn.Linear(2, 2)
    torch.save({"about": {}, "module": Bomb(tmp_path / "ran")}, tmp_path / "run.pt")
    with pytest.raises(ValueError, match="is damaged or another file"):
        restored(tmp_path / "run.pt", learner, torch.optim.SGD(learner.parameters()), None, {})
    assert not (tmp_path / "ran").exists()


def test_trees_and_label_maps_that_would_run_code_are_refused(tmp_path):
    objects = np.array([Bomb(tmp_path / "ran")], dtype=object)
    pixtree.hierarchy(np.eye(8)).save(tmp_path / "tree.npz")
    with np.load(tmp_path / "tree.npz") as stored:
        np.savez(tmp_path / "tree.npz", **{**stored, "parent": objects}, allow_pickle=True)
    np.savez(tmp_path / "labels.npz", labels=objects, allow_pickle=True)
    with pytest.raises(ValueError):
        pixtree.Hierarchy.load(tmp_path / "tree.npz")
    with pytest.raises(ValueError, match="allow_pickle"):
        read_labels((tmp_path / "labels.npz").read_bytes(), ".npz")
    assert pickle.dumps(objects)  # it can be pickled, so it was there to be loaded
    assert not (tmp_path / "ran").exists()


LOCKED = ROOT / "requirements-locked.txt"


def versions(text):
    """Pinned versions by normalised names."""
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in re.findall(r"(?m)^([\w.-]+)==([^\s;]+)", text)}


def test_everything_that_ci_installs_has_its_hashes():
    requirements = re.split(r"\n(?=\S)", LOCKED.read_text(encoding="utf-8").strip())
    assert len(requirements) > 100
    for requirement in requirements:
        assert re.fullmatch(r"[\w.-]+==[^\s;]+( ; [^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+", requirement), requirement[:80]


def test_the_locked_versions_are_those_that_are_known_to_work_together():
    locked, known = versions(LOCKED.read_text(encoding="utf-8")), versions((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    builds = {"torch", "torchvision"}  # of the machine: they have no hashes
    assert {name: version for name, version in known.items() if locked.get(name) != version and name not in builds} == {}
    assert builds.isdisjoint(locked)


def test_every_promise_names_tests_that_exist():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) >= 8
    for path, test in named:
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8") if test else (ROOT / path).is_file()
