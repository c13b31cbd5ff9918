"""Machine code inside the package is loaded where it fits, and compiled anew where anything differs."""

import gc
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numba
import numpy as np
import pytest
from numba.core import event
from numba.core.caching import FunctionCache

import pixtree
from pixtree.runtime import announcer, jit, shipped

MODULE = "pixtree.kernels.tried"  # as if it were ours
SOURCE = """
def add_seven(number):
    return number + 7
"""
# Compiles the kernels of a file as the build of a wheel does.
BUILD = f"""
import sys
from pathlib import Path
from types import ModuleType
from pixtree.runtime import jit
module = sys.modules[{MODULE!r}] = ModuleType({MODULE!r})
exec(compile(Path(sys.argv[1]).read_text(), sys.argv[1], "exec"), vars(module))
module.add_seven = jit.kernel(module.add_seven)
assert module.add_seven(1) == 8
"""
# Run again, it loads what it has compiled, and packs that.
PACK = """
from pathlib import Path
from pixtree.runtime import shipped
shipped.pack(Path(sys.argv[-1]))
"""


def built(program, folder, *arguments):
    """What a process compiles for the CPUs of wheels, as a wheel has it."""
    environment = {**os.environ, **shipped.building(folder / "compiled")}
    for text in (program, program + PACK):
        command = [sys.executable, "-c", text, *map(str, arguments), str(folder / "packed")]
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return folder / "packed"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "tried.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def packed(source, tmp_path_factory):
    return built(BUILD, tmp_path_factory.mktemp("wheel"), source)


@pytest.fixture
def place(packed, tmp_path, monkeypatch):
    """A package with machine code for one kernel, on a machine that has compiled nothing yet."""
    folder = tmp_path / "shipped_code"
    shutil.copytree(packed, folder)
    monkeypatch.setattr(shipped, "FOLDER", folder)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(announcer.announcer, "is_kept", True)
    monkeypatch.setitem(sys.modules, MODULE, ModuleType(MODULE))  # numba imports it with the code
    shipped.usable.cache_clear()
    yield folder
    shipped.usable.cache_clear()


@pytest.fixture
def compiled():
    """The names of the functions that are compiled during a test."""
    names = []

    class Listener(event.Listener):
        def on_start(self, event):
            names.append(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event):
            pass

    with event.install_listener("numba:compile", Listener()):
        yield names


def fresh(source):
    """A kernel as a new process has it."""
    gc.collect()
    names = {"__name__": MODULE}
    exec(compile(source.read_text(), str(source), "exec"), names)
    return jit.kernel(names["add_seven"])


def test_shipped_machine_code_is_loaded_and_nothing_is_compiled_or_written(place, source, compiled, tmp_path):
    target, why = shipped.usable()
    assert (target.cpu, target.features, why) == (shipped.LEVELS[platform.machine()][0], "", "")
    assert fresh(source)(1) == 8
    assert compiled == []
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_a_signature_that_is_not_shipped_is_compiled_and_kept(place, source, compiled, tmp_path):
    assert fresh(source)(0.5) == 7.5
    assert fresh(source)(0.5) == 7.5
    assert compiled == ["add_seven"]
    assert [path.suffix for path in sorted((tmp_path / "cache").rglob("*.nb?"))] == [".nbc", ".nbi"]


def test_without_a_folder_to_write_shipped_machine_code_is_still_loaded(place, source, compiled, monkeypatch):
    monkeypatch.setattr("numba.core.caching.CompileResultCacheImpl._locator_classes", [])
    assert fresh(source)(1) == 8
    assert compiled == []
    assert fresh(source)(0.5) == 7.5
    assert compiled == ["add_seven"]


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_damaged_files_are_compiled_instead(place, source, compiled, suffix):
    (path,) = place.rglob(f"*{suffix}")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + b"x" + content[len(content) // 2 + 1 :])
    assert fresh(source)(1) == 8
    assert compiled == ["add_seven"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"target": 3}'])
def test_a_damaged_manifest_is_named_and_everything_is_compiled(place, source, compiled, text):
    (place / shipped.MANIFEST).write_text(text)
    assert shipped.usable() == (None, "manifest.json is damaged")
    assert fresh(source)(1) == 8
    assert compiled == ["add_seven"]


@pytest.mark.parametrize("name", ["Python", "numba", "llvmlite", "sources of kernels", "sources of vector"])
def test_other_versions_and_sources_are_named_and_everything_is_compiled(place, source, compiled, name):
    manifest = json.loads((place / shipped.MANIFEST).read_text())
    (place / shipped.MANIFEST).write_text(json.dumps(manifest | {name: "another"}))
    target, why = shipped.usable()
    assert target is None
    assert why.startswith(f"built for {name} another, and this is ")
    assert fresh(source)(1) == 8
    assert compiled == ["add_seven"]


def test_other_sources_are_compiled_even_if_the_manifest_agrees(place, source, compiled, monkeypatch):
    monkeypatch.setattr(jit, "fingerprint", lambda _: "of other sources")
    assert fresh(source)(1) == 8
    assert compiled == ["add_seven"]


class Smaller:
    """A CPU that lacks one feature."""

    def __init__(self, codegen, feature):
        self.codegen, self.feature = codegen, feature

    def magic_tuple(self):
        triple, cpu, features = self.codegen.magic_tuple()
        return triple, cpu, features.replace(f"+{self.feature},", f"-{self.feature},")


@pytest.mark.parametrize("feature", shipped.LEVELS["x86_64"][1].split(","))
def test_a_cpu_that_lacks_a_feature_is_named(place, monkeypatch, feature):
    codegen = shipped.cpu_target.target_context.codegen()
    monkeypatch.setattr(shipped.cpu_target.target_context, "codegen", lambda: Smaller(codegen, feature))
    target, why = shipped.usable()
    assert target is None
    assert why.endswith(f" without {feature}")


def test_an_installation_without_machine_code_compiles(place, source, compiled):
    shutil.rmtree(place)
    assert shipped.usable() == (None, "none in this installation; wheels for a platform have it")
    assert fresh(source)(1) == 8
    assert compiled == ["add_seven"]


def test_machine_code_for_other_cpus_is_loaded_from_the_package_only(place, packed, source, compiled, monkeypatch):
    shutil.rmtree(place)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(packed.parent / "compiled"))
    assert fresh(source)(1) == 8
    assert compiled == ["add_seven"]


def test_the_folder_is_inside_the_package_and_git_ignores_it():
    assert Path(pixtree.__file__).parent in shipped.FOLDER.parents
    root = Path(__file__).parents[2]
    assert "shipped_code/" in (root / ".gitignore").read_text().splitlines()


def test_functions_of_other_libraries_keep_the_keys_of_numba(place, tmp_path):
    def foreign(number):
        return number + 1

    code = FunctionCache(foreign)
    dispatcher = numba.njit(cache=True)(foreign)
    assert dispatcher(1) == 2
    codegen = shipped.cpu_target.target_context.codegen()
    (key,) = code._cache_file._load_index()
    assert type(dispatcher._cache) is FunctionCache
    assert key == code._index_key(key[0], codegen)
    assert key[1] == codegen.magic_tuple()


SEGMENT = """
import json, sys
import numpy, torch
from numba.core import event

names = []
class Listener(event.Listener):
    def on_start(self, event):
        names.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
import pixtree
photo = numpy.random.default_rng(0).integers(0, 256, (48, 56, 3), dtype=numpy.uint8)
labels = pixtree.segment(photo, 20).tolist()
torch.manual_seed(0)  # the projection of tokens is random
features = pixtree.Tokenizer.pretrained(pixtree.Exactly(9))(torch.from_numpy(photo).permute(2, 0, 1)[None] / 255).features.tolist()
print(json.dumps([pixtree.__file__, len(names), labels, features]))
"""


@pytest.mark.slow
def test_a_package_with_machine_code_segments_without_compiling_and_gives_equal_labels(tmp_path):
    """Kernels of learned values may sum in another order on another CPU; all others are equal to the bit."""
    packed = built(SEGMENT, tmp_path)
    copy = tmp_path / "site" / "pixtree"
    shutil.copytree(Path(pixtree.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(packed, copy / "runtime" / "shipped_code")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "NUMBA_CACHE_DIR": str(tmp_path / "empty")}
    here = subprocess.run([sys.executable, "-c", SEGMENT], capture_output=True, text=True, check=True)
    there = subprocess.run([sys.executable, "-c", SEGMENT], env=environment, capture_output=True, text=True, check=True)
    file, loaded, labels, features = json.loads(there.stdout)
    _, _, expected_labels, expected_features = json.loads(here.stdout)
    assert file == str(copy / "__init__.py")
    assert loaded == 0
    assert labels == expected_labels
    assert np.allclose(features, expected_features, rtol=1e-4, atol=1e-5)
