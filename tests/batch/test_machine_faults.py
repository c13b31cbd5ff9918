"""Faults of the machine end a run with a sentence; only what an image causes itself is recorded as its failure."""

import errno
import os

import pytest
from corpora import contents, register, statuses

from pixtree.batch import run
from pixtree.images import bounds, checked

FULL = [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO]


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "photos").mkdir()
    for name in ("a.png", "b.png", "c.png"):
        (tmp_path / "photos" / name).write_bytes(name.encode())
    return tmp_path / "photos"


def refused_then_done(photos, made, monkeypatch, fault, words):
    """Run with a fault, which must end the run, and then without."""
    with monkeypatch.context() as patch:
        register(patch, fault=fault, key="b.png")
        with pytest.raises(OSError, match=words):
            run("stub", photos, made, workers=1)
        assert not (made / "manifest" / "manifest.jsonl").exists()
    register(monkeypatch)
    assert run("stub", photos, made, workers=1).failed == 0


@pytest.mark.parametrize("number", FULL)
def test_a_full_machine_ends_the_run_and_is_no_images_fault(photos, tmp_path, monkeypatch, number):
    words = rf"ran out at 'b' .*{os.strerror(number)}.*; free some, and the same call goes on$"
    refused_then_done(photos, tmp_path / "made", monkeypatch, OSError(number, os.strerror(number)), words)


def test_a_fault_of_the_machine_behind_another_error_is_found(photos, tmp_path, monkeypatch):
    hidden = ValueError("cannot decode")
    hidden.__cause__ = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    refused_then_done(photos, tmp_path / "made", monkeypatch, hidden, "ran out at 'b'")


@pytest.mark.parametrize("fault", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried …")])
def test_no_memory_ends_the_run(photos, tmp_path, monkeypatch, fault):
    with monkeypatch.context() as patch:
        patch.setattr("pixtree.images.bounds.has_memory", lambda: False)
        patch.setattr("pixtree.batch.work.has_memory", lambda: False)
        refused_then_done(photos, tmp_path / "made", patch, fault, "ran out at 'b'")


def test_an_image_that_needs_too_much_memory_is_a_row_and_tried_again_by_the_next_run(photos, tmp_path, monkeypatch):
    assert bounds.has_memory()
    with monkeypatch.context() as patch:
        register(patch, fault=MemoryError(), key="b.png")
        assert run("stub", photos, tmp_path / "made", workers=1).failed == 1
    register(monkeypatch)
    assert run("stub", photos, tmp_path / "made", workers=1).failed == 0


def test_what_an_image_causes_itself_is_kept(photos, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        register(patch, fault=ValueError("not an image"), key="b.png")
        run("stub", photos, tmp_path / "made", workers=1)
    register(monkeypatch)
    assert run("stub", photos, tmp_path / "made", workers=1) == (2, 1, 1, 1, True)


def test_a_bad_sector_of_an_image_is_a_row_and_tried_again(photos, tmp_path, monkeypatch):
    from pathlib import Path

    register(monkeypatch)
    opened = Path.open

    def broken(path, *options, **named):
        if path.name == "b.png":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return opened(path, *options, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", broken)
        assert run("stub", photos, tmp_path / "made", workers=1).failed == 1
        assert statuses(tmp_path / "made") == {"a": "done", "b.png": "failed", "c": "done"}
    assert run("stub", photos, tmp_path / "made", workers=1).failed == 0


def test_too_many_open_files_while_reading_the_source_end_the_run(photos, tmp_path, monkeypatch):
    from pathlib import Path

    register(monkeypatch)

    def none_left(path):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", none_left)
        with pytest.raises(OSError, match="Too many open files"):
            run("stub", photos, tmp_path / "made", workers=1)
    assert run("stub", photos, tmp_path / "made", workers=1).done == 3


def test_decoders_pass_a_fault_of_the_machine_on(monkeypatch):
    import PIL.Image

    def full(*_, **__):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(PIL.Image, "open", full)
    with pytest.raises(OSError, match="Too many open files"):
        checked(b"\x89PNG\r\n\x1a\n")


def test_a_rerun_after_a_fault_has_the_bytes_of_an_undisturbed_run(photos, tmp_path, monkeypatch):
    refused_then_done(photos, tmp_path / "made", monkeypatch, OSError(errno.ENOSPC, "full"), "ran out")
    run("stub", photos, tmp_path / "whole", workers=1)
    assert contents(tmp_path / "made") == contents(tmp_path / "whole")
