"""Wheels: a pure one, and one for this Python and platform if there is machine code for it."""

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def build(folder, **variables):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True)


@pytest.mark.skipif(sys.platform != "linux", reason="wheels with machine code are built on Linux")
def test_machine_code_makes_a_wheel_for_this_python_and_platform(tmp_path):
    code = tmp_path / "code"
    (code / "pixtree.kernels.tried").mkdir(parents=True)
    (code / "manifest.json").write_text("{}")
    (code / "pixtree.kernels.tried" / "tried.nbi").write_bytes(b"index")
    done = build(tmp_path / "dist", PIXTREE_MACHINE_CODE=str(code))
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{python}-{python}{sys.abiflags}-manylinux_2_17_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = archive.read(next(name for name in names if name.endswith("/WHEEL"))).decode()
    assert "pixtree/runtime/shipped_code/manifest.json" in names
    assert "pixtree/runtime/shipped_code/pixtree.kernels.tried/tried.nbi" in names
    assert "Root-Is-Purelib: false" in about


def test_without_machine_code_the_wheel_is_pure(tmp_path):
    assert build(tmp_path).returncode == 0
    (wheel,) = tmp_path.iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not any("shipped_code" in name for name in archive.namelist())


def test_a_folder_without_machine_code_is_an_error_that_says_what_to_run(tmp_path):
    done = build(tmp_path / "dist", PIXTREE_MACHINE_CODE=str(tmp_path))
    assert done.returncode != 0
    assert f"found no manifest.json; run pixtree warmup --ship {tmp_path}" in done.stderr


def test_the_hook_and_the_loader_mean_the_same_folder():
    from pixtree.runtime import shipped

    found = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    hook = importlib.util.module_from_spec(found)
    found.loader.exec_module(hook)
    assert shipped.FOLDER.as_posix().endswith(hook.PLACE)


def test_the_release_workflow_builds_wheels_with_machine_code_and_calls_arm_untried():
    import yaml

    text = (ROOT / ".github" / "workflows" / "publish.yml").read_text(encoding="utf-8")
    job = yaml.safe_load(text)["jobs"]["machine-code"]
    assert job["strategy"]["matrix"] == {"system": ["ubuntu-latest", "ubuntu-24.04-arm"], "version": ["3.11", "3.12", "3.13"]}
    assert "ARM64 is untried" in text
    assert "make wheel" in [step.get("run") for step in job["steps"]]
