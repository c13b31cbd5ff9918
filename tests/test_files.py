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
