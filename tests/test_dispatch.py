"""Who computes is decided in one place, and compiled code stands in the folders that its fingerprint covers."""

import ast
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from pictures import photo
from sources import tree_of

import pixtree
import pixtree.kernels
from pixtree.kernels import NAMES, Kernels, kernels_for
from pixtree.kernels.image.planes import definition as planes
from pixtree.kernels.tokens.sample import Injected
from pixtree.runtime import backend, machine_code
from pixtree.tokenizer.sampling import Sampler

PACKAGE = Path(pixtree.__file__).parent
ONE_PLACE = "runtime/backend.py"
SOURCES = sorted(PACKAGE.rglob("*.py"))


def is_device_test(node: ast.AST) -> bool:
    """`x.device.type`, `x.is_cuda`, `x.is_cpu`, or `device.type` compared with something."""
    return isinstance(node, ast.Attribute) and (
        node.attr in ("is_cuda", "is_cpu", "is_mps")
        or (node.attr == "type" and isinstance(node.value, ast.Attribute | ast.Name) and ast.unparse(node.value).endswith("device"))
    )


def autocast_arguments(tree: ast.AST) -> set[ast.AST]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and "autocast" in ast.unparse(node.func)]
    return {inner for call in calls for argument in call.args for inner in ast.walk(argument)}


def test_devices_are_told_apart_in_one_place_only():
    found = []
    for path in SOURCES:
        tree = tree_of(path)
        allowed = autocast_arguments(tree)
        tests = [node.lineno for node in ast.walk(tree) if is_device_test(node) and node not in allowed]
        found += [f"{path.relative_to(PACKAGE)}:{line}" for line in tests]
    assert {name.partition(":")[0] for name in found} == {ONE_PLACE}, found


@pytest.mark.parametrize("code", ["x.device.type == 'cpu'", "labels.is_cuda", "device.type"])
def test_the_check_itself_bites(code):
    assert any(is_device_test(node) for node in ast.walk(ast.parse(code)))


@pytest.fixture
def toy(monkeypatch):
    """A third backend: one more module in the folder of one idea, with one of its functions, and the line that names it."""
    module, seen = ModuleType("pixtree.kernels.image.planes.toy"), []

    def colours(image: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(image.shape))
        return planes.colours(image)

    module.colours = colours
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(backend.IMPLEMENTED, "toy", backend.Backend("toy", ()))
    monkeypatch.setattr(pixtree.kernels, "_found", {})
    return module, seen


def test_a_third_backend_is_one_more_file_and_no_caller_changes(toy):
    module, seen = toy
    kernels = kernels_for("toy")
    assert kernels.colours is module.colours
    assert all(getattr(type(kernels), name) is getattr(Kernels, name) for name in NAMES if name != "colours")
    image = photo(height=9, width=11)
    labels = pixtree.segment(image, tokens=5, backend="toy")
    assert seen == [(3, 9, 11)]
    assert torch.equal(labels, pixtree.segment(image, tokens=5, backend="torch"))
    assert torch.equal(labels, pixtree.segment(image, tokens=5))
    assert pixtree.hierarchy(image, backend="toy").cut(tokens=5).counts.tolist() == [5]
    assert seen == [(3, 9, 11)] * 2


def test_a_backend_runs_on_its_devices_only(monkeypatch):
    monkeypatch.setitem(backend.IMPLEMENTED, "toy", backend.Backend("toy", ("cuda", "xpu")))
    with pytest.raises(ValueError, match=r"^the toy backend works on CUDA or XPU tensors, got one on cpu; call .cuda\(\) first"):
        kernels_for("toy", torch.device("cpu"))
    with pytest.raises(ValueError, match=r"^the numba backend works on CPU tensors, got one on cuda:1; call .cpu\(\) first"):
        kernels_for("numba", torch.device("cuda", 1))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match=r"^the triton backend works on CUDA tensors, got one on cpu; call .cuda\(\) first"):
        kernels_for("triton", torch.device("cpu"))
    with pytest.raises(ValueError, match=r"^a backend is one of auto, torch, numba, triton, toy, got 'tory'; choose one of these$"):
        kernels_for("tory")
    assert kernels_for("auto", torch.device("cuda", 1)) is kernels_for("torch") is not kernels_for("auto") is kernels_for("numba")


def test_a_backend_that_lacks_a_library_is_not_taken_for_a_missing_file(toy, tmp_path, monkeypatch):
    (tmp_path / "toy.py").write_text("import a_library_that_is_not_installed\n")
    monkeypatch.delitem(sys.modules, toy[0].__name__)
    monkeypatch.setattr(sys.modules["pixtree.kernels.image.planes"], "__path__", [str(tmp_path)])
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_not_installed"):
        kernels_for("toy")


@pytest.mark.parametrize(
    ("backend", "more"),
    [
        ("numba", ["operators.py", "tokens/sample/compiled.py"]),
        ("torch", ["tokens/sample/definition.py", "tokens/segments/definition.py"]),
    ],
)
def test_a_call_of_the_sampler_passes_at_most_three_files_of_kernels(backend, more, monkeypatch):
    folder, files = Path(pixtree.kernels.__file__).parent, set()
    sampler, labels = Sampler(patch=4, smallest=4, backend=backend), torch.zeros(1, 8, 8, dtype=torch.int32)
    image = Injected(torch.rand(1, 3, 8, 8), torch.zeros(1, 1, 3), torch.ones(3), torch.zeros(3))
    frame = sampler.frames(labels, 1)
    monkeypatch.setattr(sampler, "frames", lambda *_: frame)  # boxes are another kernel
    expected = sampler(image, labels)  # and the first call compiles

    def watch(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(folder):
            files.add(path.relative_to(folder).as_posix())

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        found = sampler(image, labels)
    finally:
        sys.setprofile(before)
    assert torch.equal(found, expected)
    assert files == {"__init__.py", *more}


def test_nothing_is_compiled_outside_the_folders_of_the_fingerprint():
    imported = re.compile(r"from pixtree\.runtime(\.jit)? import .*\b(kernel|inlined|tolerant|tolerant_inlined|jit)\b")
    compiling = [path for path in SOURCES if imported.search(path.read_text(encoding="utf-8"))]
    assert compiling
    assert {path.relative_to(PACKAGE).parts[0] for path in compiling} == set(machine_code.FOLDERS)


def test_an_edit_anywhere_in_a_folder_changes_the_fingerprint_of_its_machine_code(tmp_path, monkeypatch):
    for name in ("kernels", "runtime", "vector"):
        (tmp_path / name / "room").mkdir(parents=True)
        (tmp_path / name / "room" / "file.py").write_text("one = 1\n")
    monkeypatch.setattr(machine_code, "PACKAGE", tmp_path)
    machine_code.fingerprint.cache_clear()
    try:
        before = machine_code.fingerprint("vector"), machine_code.fingerprint("kernels")
        (tmp_path / "vector" / "room" / "file.py").write_text("one = 2\n")
        machine_code.fingerprint.cache_clear()
        after = machine_code.fingerprint("vector"), machine_code.fingerprint("kernels")
    finally:
        machine_code.fingerprint.cache_clear()
    assert before[0] != after[0]
    assert before[1] == after[1]
