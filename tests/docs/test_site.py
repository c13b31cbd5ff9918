"""The site builds without a warning, its links lead somewhere, and it misses no public name, command, folder and picture."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag

import numpy as np
import pytest
import typer
from evidence.renderers import PROGRAMS
from pages import PAGES, ROOT, blocks
from PIL import Image
from renderers import needs
from zone_rule import cuts_a_zone, keeps_the_rule, solid_zones

import pixtree
from pixtree.cli.main import app

LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
HOW_TO = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "how_to").glob("*.md"))
PICTURES, ONE_PICTURE, ALL_PICTURES, ONE_PAGE = 2_000_000, 1_200_000, 14_000_000, 4_500_000  # bytes

# Its trees of documents stay to the end, and the garbage collector visits them again and again for a quarter of the time.
SPHINX = "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"


class Page(HTMLParser):
    """What a page of the site links to, shows, and can be linked at."""

    def __init__(self, path):
        super().__init__()
        self.path, self.links, self.pictures, self.places = path, [], set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.places.update(found[name] for name in ("id", "name") if found.get(name))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag == "img":
            self.pictures.add((self.path.parent / unquote(found["src"])).resolve())

    @property
    def weight(self):
        """Bytes of the page with its pictures, without what all pages share."""
        return self.path.stat().st_size + sum(picture.stat().st_size for picture in self.pictures)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the site, and what Sphinx said and returned."""
    folder = tmp_path_factory.mktemp("built")
    options = ["-q", "-W", "--keep-going", "-d", folder / "trees", ROOT / "docs", folder / "site"]
    call = [sys.executable, "-c", SPHINX, *options]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    return folder / "site", done.returncode, done.stderr


@pytest.fixture(scope="module")
def site(built):
    """The pages of the site by their paths."""
    return {path.resolve(): Page(path) for path in built[0].rglob("*.html")}


def test_the_site_builds_without_a_warning(built):
    folder, code, said = built
    assert (code, said) == (0, "")
    assert (folder / "how_to" / "superpixels.html").is_file()


def test_every_link_of_the_site_leads_to_a_page_and_a_place_on_it(site):
    lost = []
    for page in site.values():
        for link in page.links:
            address, place = urldefrag(link)
            if re.match(r"\w+:", address):
                continue
            target = (page.path.parent / unquote(address)).resolve() if address else page.path.resolve()
            is_there = unquote(place) in {"", *site[target].places} if target in site else target.is_file() and not place
            lost += [] if is_there else [f"{page.path.name}: {link}"]
    assert lost == []


def test_no_page_is_heavy(site):
    assert {page.path.name: page.weight for page in site.values() if page.weight > ONE_PAGE} == {}


@needs("chromium")
@pytest.mark.parametrize("name", ["index", "limits", "concepts/tree"])
def test_screenshots_of_the_site_are_cut_along_their_colours(built, tmp_path, name):
    program = next(found for one in PROGRAMS["chromium"][0] if (found := shutil.which(one)))
    page, shot = (built[0] / f"{name}.html").as_uri(), tmp_path / "shot.png"
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={tmp_path}",
        "--window-size=800,600",
    ]
    subprocess.run([program, *options, f"--screenshot={shot}", page], check=True, capture_output=True, timeout=120)
    with Image.open(shot) as image:
        pixels = np.array(image.convert("RGB"))
    zone = solid_zones(pixels)
    for tokens in (2, 20, 200, 2000):
        labels = pixtree.segment(pixels, tokens=tokens)
        assert keeps_the_rule(labels, zone)
        relaxed = pixtree.segment(pixels, tokens=tokens, relax=True)
        assert cuts_a_zone(labels, zone) or not cuts_a_zone(relaxed, zone)


def test_architecture_names_every_folder():
    folders = [path.name for path in (ROOT / "src" / "pixtree").iterdir() if (path / "__init__.py").is_file()]
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [name for name in folders if f"`{name}`" not in text] == []


def test_every_concept_has_one_drawing_made_by_a_script():
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "concepts").glob("[!i]*.md")}
    drawings = {name: re.findall(r"!\[[^\]]*\]\(\.\./pictures/(\w+)\.png\)", text) for name, text in pages.items()}
    script = (ROOT / "benchmarks" / "concept_pictures.py").read_text(encoding="utf-8")
    assert pages
    assert drawings == {name: [f"concept_{name}"] for name in pages}
    assert [name for name in pages if name not in script] == []


def test_every_public_name_is_in_the_reference():
    reference = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"auto(?:class|function):: pixtree\.(\w+)$", reference, re.MULTILINE)
    assert sorted(named) == sorted(pixtree.__all__)


def commands(group=None, path=()):
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        yield from commands(command, (*path, name)) if hasattr(command, "commands") else [" ".join(("pixtree", *path, name))]


def test_every_command_is_in_a_how_to():
    known = list(commands())
    assert len(known) > 10
    assert [command for command in known if not re.search(rf"{command}\b", HOW_TO)] == []


def test_links_lead_to_files():
    linked = [(page, link) for page in PAGES for link in LINK.findall(page.read_text(encoding="utf-8"))]
    files = [(page, link) for page, link in linked if not re.match(r"https?://", link)]
    assert len(files) > 100
    assert [(page.name, link) for page, link in files if not (page.parent / link).exists()] == []


def test_pictures_are_used_and_light():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    pictures = list((ROOT / "docs" / "pictures").iterdir())
    assert [path.name for path in pictures if path.name not in text and not path.name.startswith("app_")] == []
    assert [path.name for path in pictures if path.stat().st_size > ONE_PICTURE] == []
    assert sum(path.stat().st_size for path in pictures) <= ALL_PICTURES


def test_the_readme_has_its_parts_and_nothing_else():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    opening = readme.split("\n\n")[1]
    assert len(re.findall(r"[.!?](?=\s|$)", opening)) == 2
    assert re.findall(r"^## (.*)$", readme, re.MULTILINE) == [
        "Install",
        "Regions",
        "Vision Transformers",
        "Drawings",
        "Benchmarks",
        "Limits",
        "Development",
        "Citation",
    ]
    for block in blocks(ROOT / "README.md"):
        if block.language == "python":
            assert len([line for line in block.text.splitlines() if line and not line.startswith("import")]) == 3


def test_the_readme_is_light_and_its_sentences_are_short():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = {link for link in LINK.findall(readme) if link.startswith("docs/pictures/")}
    assert sum((ROOT / link).stat().st_size for link in shown) <= PICTURES
    for block in blocks(ROOT / "README.md"):
        readme = readme.replace(block.text, "")
    prose = [line for line in readme.splitlines() if not line.startswith(("|", "#", "!", "```"))]
    text = re.sub(r"\]\([^)]*\)", "]", "\n".join(prose))
    sentences = re.split(r"(?<=[.!?])\s+|\n\n|\n- ", text)
    assert max((len(sentence.split()), sentence) for sentence in sentences)[0] <= 30
