"""`pixtree doctor`: what is installed is imported, and what is broken has its cure beside it."""

import json

import pytest
from commands import invoke

from pixtree.cli import doctor
from pixtree.cli.main import app
from pixtree.evaluation.records import version_of
from pixtree.runtime import bfloat16, machine_code, shipped


def run(*arguments):
    return invoke(app, list(arguments))


def found_by(command):
    """What the doctor says, by the name of the line."""
    return json.loads(run(command, "--json").stdout)


@pytest.fixture
def no_trials(monkeypatch):
    """Nothing is imported: these tests are about other lines."""
    monkeypatch.setattr(doctor, "import_faults", lambda names: {})


def test_the_doctor_finds_all_backends_well():
    result = run("doctor")
    assert result.exit_code == 0, result.output
    for word in ("python", "pixtree", "torch", "numba", "extra models", "cores", "PIXTREE_THREADS", "backend numba"):
        assert word in result.output


@pytest.mark.usefixtures("no_trials")
def test_the_doctor_says_so_when_a_backend_fails(monkeypatch):
    def broken(backend):
        if backend == "numba":
            raise RuntimeError("no compiler")
        return healthy(backend)

    healthy = doctor._small_cut
    monkeypatch.setattr(doctor, "_small_cut", broken)
    result = run("doctor")
    assert result.exit_code == 1
    assert "no compiler" in result.output


@pytest.mark.usefixtures("no_trials")
def test_the_doctor_says_so_when_backends_disagree(monkeypatch):
    healthy = doctor._small_cut
    monkeypatch.setattr(doctor, "_small_cut", lambda backend: healthy("torch")[:: 1 if backend == "torch" else -1])
    assert run("doctor").exit_code == 1


@pytest.mark.usefixtures("no_trials")
def test_the_doctor_says_so_when_the_cpu_dies_of_bfloat16(monkeypatch):
    diagnosis = bfloat16.diagnosis
    monkeypatch.setattr(bfloat16, "diagnosis", lambda: diagnosis(lambda limit: None if limit else "SIGILL"))
    result = run("doctor")
    assert result.exit_code == 0  # the library itself does not need it
    assert "set ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI before Python starts" in " ".join(result.output.split())


def test_extras_are_known_without_importing_them():
    assert sorted(doctor.extras()["models"]) == ["pydantic", "timm", "torchvision"]
    assert "dev" not in doctor.extras()
    assert version_of("no-such-distribution") is None


def test_what_is_called_installed_can_be_imported():
    assert doctor.import_faults(("tifffile", "scikit-image")) == {}


@pytest.mark.parametrize("name", ["PySide6-Essentials", "pyside6-essentials", "Pillow"])
def test_the_case_of_a_name_does_not_matter(name):
    assert doctor.import_faults((name,)) == {}


def test_a_broken_package_beside_a_torchvision_without_operators_is_told(monkeypatch):
    faults = {"torchvision": doctor.LACKING, "accelerate": "SIGILL"}
    monkeypatch.setattr(doctor, "import_faults", lambda names: faults)
    assert doctor.state_of("train", ["numpy"]) == "broken: accelerate (SIGILL); run pip install --force-reinstall accelerate"


def test_what_cannot_be_imported_is_broken(tmp_path, monkeypatch):
    (tmp_path / "raises.py").write_text("raise ImportError('libGL.so.1: cannot open\\nshared object file')")
    (tmp_path / "dies.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(doctor, "version_of", lambda name: "1.0")
    assert doctor.state_of("some", ["raises"]) == (
        "broken: raises (ImportError: libGL.so.1: cannot open shared object file); run pip install --force-reinstall raises"
    )
    assert doctor.state_of("some", ["dies"]) == "broken: dies (SIGILL); run pip install --force-reinstall dies"


def test_what_is_missing_has_its_command():
    assert doctor.state_of("geo", ["no-such-distribution"]) == ("missing: no-such-distribution; run pip install 'pixtree[geo]'")


def test_a_torchvision_without_operators_has_its_cure(monkeypatch):
    fault = "RuntimeError: operator torchvision::nms does not exist"
    monkeypatch.setattr(doctor, "import_faults", lambda names: {"torchvision": fault, "timm": fault})
    assert doctor.state_of("models", ["timm", "torchvision"]) == (
        "works: torchvision lacks its operators, and import timm fails before import pixtree.models; "
        f"install the torchvision for torch {version_of('torch')}"
    )


def test_a_broken_package_is_an_error(monkeypatch):
    monkeypatch.setattr(doctor, "import_faults", lambda names: dict.fromkeys(names, "SIGILL"))
    result = run("doctor")
    assert result.exit_code == 1
    assert result.stderr == "error: a package is installed but broken; see the lines above\n"


@pytest.mark.usefixtures("no_trials")
def test_a_kernel_cache_that_cannot_be_written_has_its_cure(monkeypatch):
    monkeypatch.setattr(machine_code, "folder_fault", lambda: ("/full", "No space left on device"))
    assert found_by("doctor")["kernel cache"] == (
        "broken: /full (No space left on device), so every process compiles; set NUMBA_CACHE_DIR to a folder that can be written"
    )


@pytest.mark.usefixtures("no_trials")
@pytest.mark.parametrize(
    ("state", "line"),
    [
        ((shipped.Target("x86_64-unknown-linux-gnu", "x86-64-v3"), ""), "used: built for x86-64-v3"),
        ((None, "built for numba 0.60.0, and this is 0.61.0"), "not used: built for numba 0.60.0, and this is 0.61.0"),
    ],
)
def test_the_doctor_says_whether_shipped_kernels_are_used_and_why_not(monkeypatch, state, line):
    monkeypatch.setattr(shipped, "usable", lambda: state)
    assert dict(doctor._surroundings())["shipped kernels"] == line


def test_the_kernel_cache_is_tried_by_writing(monkeypatch):
    folder, fault = machine_code.folder_fault()
    assert folder is not None
    assert fault is None

    def full(self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching._CacheLocator.ensure_cache_path", full)
    assert machine_code.folder_fault()[1] in ("No space left on device", "no folder can be written")


@pytest.mark.usefixtures("no_trials")
def test_a_line_is_whole_outside_of_a_terminal(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda program: None)
    lines = run("doctor").stdout.splitlines()
    assert any(line.rstrip().endswith("missing: needed by style='paper' only; install the program potrace") for line in lines)


@pytest.mark.usefixtures("no_trials")
def test_a_missing_potrace_is_named(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda program: None)
    assert found_by("doctor")["potrace"] == "missing: needed by style='paper' only; install the program potrace"


@pytest.mark.usefixtures("no_trials")
def test_json_has_every_line():
    result = run("doctor", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["backend numba"] == "ok"
    assert {"python", "extra models", "kernel cache", "potrace", "bfloat16"} <= found.keys()
