"""Every code block of the README and of the documentation runs, page by page, from top to bottom."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from commands import invoke
from pages import HERE, PAGES, PARSED_ONLY, ROOT, blocks, command_of, given, lines_of, make_world
from PIL import Image

from pixtree.cli import doctor
from pixtree.cli.main import app

KNOWN = {"python", "bash", "text", "{toctree}", "{eval-rst}"}
WITH_CODE = [page for page in PAGES if any(block.language in ("python", "bash") for block in blocks(page))]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_every_block_says_what_it_is():
    assert [(page.name, block.line) for page in PAGES for block in blocks(page) if block.language not in KNOWN] == []


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The files that the pages speak of; every page gets its own copy."""
    folder = tmp_path_factory.mktemp("world")
    make_world(folder)
    return folder


@pytest.fixture
def shallow(narrow, monkeypatch):
    """Called on a page that compiles its models, it makes that quick: one block instead of twelve equal ones, and scalar code.

    To find out which vector instructions there are, torch compiles a program for each of them, which takes longer than the model.
    """
    from torch._inductor import cpu_vec_isa

    from pixtree.models.timm_import import timm

    create = timm.create_model

    def prepare(page):
        if any("torch.compile(model.backbone" in block.text for block in blocks(page)):
            monkeypatch.setattr(timm, "create_model", lambda name, *more, **words: create(name, *more, **{"depth": 1} | words))
            monkeypatch.setattr(cpu_vec_isa, "valid_vec_isa_list", list)

    return prepare


@pytest.fixture
def quick_doctor(monkeypatch):
    """The doctor imports no package, which takes a process per extra: tests/cli/test_doctor.py lets it do so."""
    monkeypatch.setattr(doctor, "import_faults", lambda names: {})


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.usefixtures("quick_doctor")
def test_every_block_runs(page, world, tmp_path, monkeypatch, shallow):
    shallow(page)
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    if page.name == "vectorise.md":  # it draws its photo five times, and names no place in it
        Image.open(tmp_path / "photo.jpg").reduce(2).save(tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)
    names = given()
    for block in blocks(page):
        if block.language == "python":
            text = block.text
            for there, here in HERE.items():
                text = text.replace(there, here)
            exec(compile("\n" * (block.line - 1) + text, str(page), "exec"), names)
        elif block.language == "bash":
            for words in lines_of(block.text):
                run_line(words)


def run_line(words):
    """Run one command line of a page, or check it where it would install, need data, or never end."""
    if words[0] == "torchrun":  # the command that it starts several times
        words = words[words.index("pixtree") :]
    if words[0] == "pip":
        asked = [re.fullmatch(r"(?:pixtree|\.)(?:\[(.*)\])?", word) for word in words[2:] if word[0] != "-" and ".txt" not in word]
        assert asked
        assert all(one and set((one[1] or "all").split(",")) <= EXTRAS.keys() for one in asked)
    elif words[0] == "make":
        assert words[1] in TARGETS
    elif words[0] == "mkdir":
        Path(words[1]).mkdir()
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file()
    elif words[1] in PARSED_ONLY:
        command, rest = command_of(words[1:])
        command.make_context("pixtree", rest)
    else:
        assert words[0] == "pixtree"
        done = invoke(app, words[1:])
        assert done.exit_code == 0, done.stderr
