"""A device makes trees only where it gives what the CPU gives; else the host makes them, with one notice."""

import json
from importlib import metadata

import interpreted  # noqa: F401
import pytest
import torch
from far_device import ELSEWHERE, Far, FarDevice, near

import pixtree
from pixtree import messages
from pixtree.kernels import kernels_for, proof
from pixtree.kernels.tree.prune import triton as cuts
from pixtree.runtime import backend

pytestmark = pytest.mark.usefixtures("interpreting")

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small_cases(monkeypatch, tmp_path):
    """Tiny images, no memory of earlier tests, and a file of our own."""
    monkeypatch.setattr(proof, "SIDE", 5)
    monkeypatch.setattr(proof, "REGIONS", 6)
    monkeypatch.setattr(proof, "_file", lambda: tmp_path / "devices.json")
    monkeypatch.setattr(messages, "_warned", set())
    forget = proof.holds.cache_clear
    forget()
    yield tmp_path / "devices.json"
    forget()


def broken_cut(*arguments):
    made = DEFINED(*arguments)
    made.labels[0, 0, 0] += 1
    return made


DEFINED = cuts.cut_batch


def test_a_device_that_equals_the_cpu_is_taken_and_tested_once(small_cases, monkeypatch):
    assert proof.why_not(CPU) is None
    assert list(json.loads(small_cases.read_text()).values()) == ["equal"]
    monkeypatch.setattr(proof, "differences", lambda device: pytest.fail("tested again"))
    assert proof.why_not(CPU) is None
    monkeypatch.setattr(torch.version, "hip", "7.9")  # another stack is another test
    monkeypatch.setattr(proof, "differences", lambda device: ["labels"])
    assert proof.why_not(CPU) == "its self-test gave other labels than the CPU"


def test_a_damaged_file_of_outcomes_means_another_test(small_cases, monkeypatch):
    small_cases.write_text("{")
    monkeypatch.setattr(proof, "differences", lambda device: [])
    assert proof.why_not(CPU) is None
    assert list(json.loads(small_cases.read_text()).values()) == ["equal"]


def no_triton(name):
    raise metadata.PackageNotFoundError(name)


def failing(device):
    raise RuntimeError("no kernel image\nis available")


REASONS = [
    (lambda patch: patch.setattr(metadata, "version", no_triton), "Triton is not installed"),
    (lambda patch: patch.setattr(metadata, "version", lambda name: "3.5.1"), "Triton 3.5.1 is older than 3.6"),
    (lambda patch: patch.setattr(proof, "differences", lambda device: ["labels"]), "its self-test gave other labels than the CPU"),
    (
        lambda patch: patch.setattr(proof, "differences", failing),
        "its self-test ended with RuntimeError: no kernel image is available",
    ),
]


@pytest.mark.parametrize(("spoil", "reason"), REASONS, ids=["without Triton", "with an old one", "unequal", "crashing"])
def test_without_proof_the_host_makes_the_trees_with_one_notice(spoil, reason, monkeypatch, caplog):
    images = torch.randint(0, 256, (2, 3, 6, 7), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    expected = pixtree.segment(images, tokens=5)
    monkeypatch.setitem(backend.CUTTING, ELSEWHERE.type, "triton")
    spoil(monkeypatch)
    for _ in range(2):
        with FarDevice(monkeypatch) as device:
            found = pixtree.segment(Far(images), tokens=5)
        assert torch.equal(near(found), expected)
        assert (device.out, device.back) == (1, 1)
    (notice,) = [record.getMessage() for record in caplog.records]
    assert notice.startswith(f"pixtree: trees are built on the host, not on xla:0: {reason}")


REFUSED = [
    ({"tokens": 5, "relax": True}, "boundaries are polished"),
    ({"tokens": 5, "mask": torch.arange(42).view(6, 7) > 3}, "masks are cut image by image"),
    ({"criterion": pixtree.Criterion("aic", shape=1.0)}, "criteria with shape="),
]


@pytest.mark.parametrize(("options", "reason"), REFUSED, ids=["relax", "mask", "shape"])
def test_what_a_device_cannot_cut_is_cut_on_the_host_with_the_reason(options, reason, monkeypatch, caplog):
    image = torch.randint(0, 256, (3, 6, 7), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    expected = pixtree.segment(image, **options)
    monkeypatch.setitem(backend.CUTTING, ELSEWHERE.type, "triton")
    monkeypatch.setattr(proof, "holds", lambda device: True)
    with FarDevice(monkeypatch) as device:
        found = pixtree.segment(Far(image), **options)
    assert torch.equal(near(found), expected)
    assert (device.out, device.back) == (1, 1)
    (notice,) = [text for record in caplog.records if "compiling" not in (text := record.getMessage())]
    assert notice.startswith(f"pixtree: this cut is made on the host, not on xla:0: {reason}")


def test_a_wrong_label_is_noticed(monkeypatch):
    monkeypatch.setattr(type(kernels_for("triton")), "cut_batch", broken_cut)
    assert proof.differences(CPU) == ["labels"]


def test_amd_needs_a_newer_triton(monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "7.1")
    monkeypatch.setattr(metadata, "version", lambda name: "3.7.0")
    assert proof.triton_fault() == "Triton 3.7.0 is older than 3.7.1, from which on it rounds exactly; install a newer torch"


def test_only_auto_chooses(monkeypatch):
    monkeypatch.setitem(backend.CUTTING, "cpu", "triton")
    monkeypatch.setattr(proof, "holds", lambda device: True)
    assert [proof.cutting(name, CPU) for name in ("auto", "numba", "torch")] == ["triton", "numba", "torch"]
    monkeypatch.setattr(proof, "holds", lambda device: False)
    assert proof.cutting("auto", CPU) == "auto"
