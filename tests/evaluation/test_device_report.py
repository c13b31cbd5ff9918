"""The report on a GPU, in which Triton's interpreter plays the GPU: what it compares, and what it says of faults."""

import json

import interpreted  # noqa: F401
import pytest
import torch
from commands import invoke

from pixtree.cli import doctor
from pixtree.cli.main import app
from pixtree.evaluation import device_report
from pixtree.evaluation.device_report import KINDS, Extent, faults, pictures, report
from pixtree.kernels.tree.prune import triton as cuts

CPU, SMALL = torch.device("cpu"), Extent((6,), (2,), 9, 2, 0.0, None)
HEALTHY = cuts.cut_batch

pytestmark = pytest.mark.usefixtures("interpreting")


@pytest.fixture(autouse=True)
def proved(monkeypatch):
    monkeypatch.setattr("pixtree.evaluation.device_report.why_not", lambda device: None)
    monkeypatch.setattr(device_report, "EXTENT", SMALL)
    monkeypatch.setattr(doctor, "first_gpu", lambda: CPU)


def test_a_healthy_device_equals_the_cpu_in_every_kind_of_image():
    found = dict(report(CPU))
    assert found["equal"] == {f"{kind}, 2 × 6 px": "ok" for kind in KINDS}
    assert found["repeats"] == "ok: 2 repeats are equal"
    assert found["graph"].startswith("ok: left out")
    assert found["self_test"] == "ok"
    assert set(found["cuts_per_second"]["2 × 6 px"]) == {"triton", "torch", "host"}
    assert all(speed > 0 for speed in found["cuts_per_second"]["2 × 6 px"].values())
    assert found["images_per_second"] == "left out"
    assert found["versions"]["triton"]
    assert faults(found) == []


@pytest.fixture
def one_kind(monkeypatch):
    """The interpreter takes its time."""
    monkeypatch.setattr(device_report, "KINDS", ("noise",))


def broken_cut(*arguments):
    made = HEALTHY(*arguments)
    made.labels[0, 0, 0] += 1
    return made


@pytest.mark.usefixtures("one_kind")
def test_a_device_with_other_labels_fails_with_a_report_of_where(monkeypatch, tmp_path):
    monkeypatch.setattr(type(device_report.kernels_for("triton")), "cut_batch", broken_cut)
    result = invoke(app, ["doctor", "--gpu", "--json", str(tmp_path / "gpu.json")])
    assert result.exit_code == 1
    assert json.loads((tmp_path / "gpu.json").read_text())["equal"]["noise, 2 × 6 px"] == "labels"
    assert "the GPU does not equal the CPU in noise, 2 × 6 px" in result.stderr


@pytest.mark.usefixtures("one_kind")
def test_a_part_that_stops_is_its_result(monkeypatch):
    def stopping(*arguments):
        raise RuntimeError("out of\nmemory")

    monkeypatch.setattr(device_report, "cut_speeds", stopping)
    assert dict(report(CPU))["cuts_per_second"] == "failed: RuntimeError: out of memory"


@pytest.mark.usefixtures("one_kind")
def test_the_doctor_prints_the_report_and_keeps_existing_files(tmp_path):
    result = invoke(app, ["doctor", "--gpu"])
    assert result.exit_code == 0, result.output
    assert "equal: noise, 2 × 6 px" in result.output
    kept = tmp_path / "gpu.json"
    kept.write_text("mine")
    result = invoke(app, ["doctor", "--gpu", "--json", str(kept)])
    assert result.exit_code != 0
    assert "existing reports are kept" in result.stderr
    assert kept.read_text() == "mine"


def test_a_file_without_a_report_is_refused():
    result = invoke(app, ["doctor", "gpu.json"])
    assert result.exit_code != 0
    assert "a file is written by --gpu --json" in result.stderr


def test_a_machine_without_a_gpu_is_told_what_to_install(monkeypatch):
    monkeypatch.undo()
    result = invoke(app, ["doctor", "--gpu"])
    assert result.exit_code != 0
    assert "a report on a GPU needs one, got none from PyTorch" in result.stderr


def test_the_speed_of_a_model_is_measured_beside_that_of_its_retrofit(monkeypatch):
    from pixtree.models.timm_import import timm

    tiny = {"img_size": 32, "patch_size": 16, "embed_dim": 48, "depth": 1, "num_heads": 3, "num_classes": 7}
    monkeypatch.setattr(timm, "create_model", lambda name, pretrained: timm.models.VisionTransformer(**tiny))
    found = device_report.model_speeds(CPU, Extent((32,), (2,), 256, 1, 0.0, "tiny"))
    assert set(found) == {"retrofit", "patches"}
    assert all(one["forward"] > 0 and one["training"] > 0 for one in found.values())


def test_pictures_are_bytes_of_the_asked_size():
    for kind in KINDS:
        images = pictures(kind, 2, 20)
        assert (tuple(images.shape), images.dtype) == ((2, 3, 20, 20), torch.uint8)
        assert images.float().std() > 5
