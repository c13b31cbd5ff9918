"""The site builds without a warning, and it misses no public name, no command and no picture."""

import re
import subprocess
import sys

import pytest
import typer
from pages import PAGES, ROOT, blocks

import pixtree
from pixtree.cli.main import app

LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
HOW_TO = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "how_to").glob("*.md"))
PICTURES, ONE_PICTURE = 2_000_000, 1_200_000  # bytes


def test_the_site_builds_without_a_warning(tmp_path):
    call = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", tmp_path / "trees", ROOT / "docs", tmp_path / "site"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "site" / "how_to" / "superpixels.html").is_file()


def test_every_public_name_is_in_the_reference():
    reference = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"auto(?:class|function):: pixtree\.(\w+)$", reference, re.MULTILINE)
    assert sorted(named) == sorted(pixtree.__all__)


def commands(group=None, path=()):
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        yield from commands(command, (*path, name)) if hasattr(command, "commands") else [" ".join(("pixtree", *path, name))]


@pytest.mark.parametrize("command", list(commands()))
def test_every_command_is_in_a_how_to(command):
    assert re.search(rf"{command}\b", HOW_TO)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    linked = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not re.match(r"https?://", link)]
    assert [link for link in linked if not (page.parent / link).exists()] == []


def test_pictures_are_used_and_light():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    pictures = list((ROOT / "docs" / "pictures").iterdir())
    assert [path.name for path in pictures if path.name not in text and not path.name.startswith("app_")] == []
    assert [path.name for path in pictures if path.stat().st_size > ONE_PICTURE] == []


def test_the_readme_is_light_and_its_sentences_are_short():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = {link for link in LINK.findall(readme) if link.startswith("docs/pictures/")}
    assert sum((ROOT / link).stat().st_size for link in shown) <= PICTURES
    for block in blocks(ROOT / "README.md"):
        readme = readme.replace(block.text, "")
    prose = [line for line in readme.splitlines() if not line.startswith(("|", "#", "!", "```"))]
    text = re.sub(r"\]\([^)]*\)", "]", "\n".join(prose))
    sentences = re.split(r"(?<=[.!?:])\s+|\n\n", text)
    assert max((len(sentence.split()), sentence) for sentence in sentences)[0] <= 30
