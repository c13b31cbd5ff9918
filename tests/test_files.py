import os
import socket
from pathlib import Path

import pytest

from pixtree.files import replacing


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    target = tmp_path / "out.txt"
    with replacing(target) as temporary:
        temporary.write_text("whole")
        assert not target.exists()
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".txt"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
    assert target.read_text() == "whole"


def fail_while_writing(target):
    with replacing(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError("disk on fire")


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError, match="fire"):
        fail_while_writing(target)
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
    assert target.read_text() == "old"


def test_a_missing_folder_is_named_before_any_work(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"), replacing(tmp_path / "nowhere" / "out.txt"):
        pytest.fail("the block must not run")


def test_a_folder_is_no_output(tmp_path):
    with pytest.raises(IsADirectoryError, match="add a file name"), replacing(tmp_path):
        pytest.fail("the block must not run")


def test_writing_through_a_link_replaces_the_file_that_it_leads_to(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    real, link = tmp_path / "elsewhere" / "data.bin", tmp_path / "out.txt"
    real.write_text("old")
    link.symlink_to(real)
    with replacing(link) as temporary:
        assert temporary.parent == real.parent  # a rename must not cross file systems
        assert temporary.suffix == ".txt"
        temporary.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert [path.name for path in real.parent.iterdir()] == ["data.bin"]


def test_a_link_to_a_file_that_is_not_there_yet_makes_it(tmp_path):
    (tmp_path / "out.txt").symlink_to("new.txt")
    with replacing(tmp_path / "out.txt") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "out.txt").is_symlink()
    assert (tmp_path / "new.txt").read_text() == "new"


@pytest.mark.parametrize("leads_to", ["nowhere/new.txt", "out.txt"])
def test_a_link_that_leads_nowhere_is_refused(tmp_path, leads_to):
    (tmp_path / "out.txt").symlink_to(leads_to)
    with pytest.raises(FileNotFoundError, match="leads nowhere"), replacing(tmp_path / "out.txt"):
        pytest.fail("the block must not run")


@pytest.mark.parametrize("kind", ["device", "pipe", "link to a device", "socket"])
def test_what_is_no_regular_file_is_refused_and_stays_what_it_is(tmp_path, kind):
    target = tmp_path / "out.txt"
    if kind == "device":
        target = Path(os.devnull)
    elif kind == "pipe":
        os.mkfifo(target)
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(str(target))
    else:
        target.symlink_to(os.devnull)
    before = target.stat()
    with pytest.raises(ValueError, match="an output is a regular file"), replacing(target):
        pytest.fail("the block must not run")
    assert target.stat().st_mode == before.st_mode


def test_a_replaced_file_keeps_its_permissions_and_a_new_one_has_those_of_the_umask(tmp_path):
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("secret")
    old.chmod(0o600)
    mask = os.umask(0o027)
    try:
        for path in (old, new):
            with replacing(path) as temporary:
                temporary.write_text("text")
    finally:
        os.umask(mask)
    assert [oct(path.stat().st_mode & 0o777) for path in (old, new)] == ["0o600", "0o640"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the kernel has no full disk to try")
def test_a_full_disk_is_one_sentence(tmp_path):
    with pytest.raises(OSError, match=r"needs room on the disk, '.*out\.txt' found it full"), replacing(tmp_path / "out.txt"):
        Path("/dev/full").write_text("text")
    assert list(tmp_path.iterdir()) == []


def test_the_longest_names_can_be_written(tmp_path):
    name = "x" * 251 + ".txt"
    with replacing(tmp_path / name) as temporary:
        temporary.write_text("text")
    assert [path.name for path in tmp_path.iterdir()] == [name]
