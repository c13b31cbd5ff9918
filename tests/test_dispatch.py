"""Who computes is decided in one place, and compiled code stands in the folders that its fingerprint covers."""

import ast
from pathlib import Path

import pytest
from sources import tree_of

import pixtree
from pixtree.runtime import jit

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


def test_nothing_is_compiled_outside_the_folders_of_the_fingerprint():
    compiling = [path for path in SOURCES if "runtime.jit import" in path.read_text(encoding="utf-8")]
    assert compiling
    assert {path.relative_to(PACKAGE).parts[0] for path in compiling} == set(jit.FOLDERS)


def test_an_edit_anywhere_in_a_folder_changes_the_fingerprint_of_its_machine_code(tmp_path, monkeypatch):
    for name in ("kernels", "runtime", "vector"):
        (tmp_path / name / "room").mkdir(parents=True)
        (tmp_path / name / "room" / "file.py").write_text("one = 1\n")
    monkeypatch.setattr(jit, "PACKAGE", tmp_path)
    jit.fingerprint.cache_clear()
    try:
        before = jit.fingerprint("vector"), jit.fingerprint("kernels")
        (tmp_path / "vector" / "room" / "file.py").write_text("one = 2\n")
        jit.fingerprint.cache_clear()
        after = jit.fingerprint("vector"), jit.fingerprint("kernels")
    finally:
        jit.fingerprint.cache_clear()
    assert before[0] != after[0]
    assert before[1] == after[1]
