"""A release: one version everywhere, files that are complete, and an installed package that needs no sources beside it."""

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGE = ROOT / "src" / "pixtree"
PYTHONS = ["3.11", "3.12", "3.13"]
GONE = {  # modules of the standard library that 3.12 and 3.13 no longer have
    *(
        "asynchat",
        "asyncore",
        "distutils",
        "imp",
        "smtpd",
        "aifc",
        "audioop",
        "cgi",
        "cgitb",
        "chunk",
        "crypt",
        "imghdr",
        "mailcap",
    ),
    *("msilib", "nis", "nntplib", "ossaudiodev", "pipes", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib", "lib2to3"),
}


def test_one_version_stands_everywhere():
    version = PROJECT["version"]
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("CITATION.cff", "CHANGELOG.md", "recipe/meta.yaml")}
    assert f"\nversion: {version}\n" in texts["CITATION.cff"]
    dated = re.search(r"## \[([\d.]+)\] - (\d{4}-\d\d-\d\d)", texts["CHANGELOG.md"])
    assert dated[1] == version
    assert f"date-released: {dated[2]}" in texts["CITATION.cff"]
    assert f'set version = "{version}"' in texts["recipe/meta.yaml"]


def test_the_recipe_asks_for_what_the_package_asks_for():
    recipe = (ROOT / "recipe" / "meta.yaml").read_text(encoding="utf-8")
    asked = re.search(r"(?s)\n  run:\n(.*?)\n\n", recipe)[1]
    found = {line.strip().removeprefix("- ").replace(" ", "") for line in asked.splitlines()}
    other = {"torch": "pytorch", "resvg-py": "resvg-py"}  # names of conda-forge
    expected = {"python>=3.11"}
    for requirement in PROJECT["dependencies"]:
        name, version = re.fullmatch(r"([\w-]+)(>=.+)", requirement).groups()
        expected.add(other.get(name, name) + version)
    assert found == expected


def test_all_promised_pythons_are_tried_by_ci_and_before_publishing():
    promised = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert promised == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    for name in ("ci.yml", "publish.yml"):
        text = (ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8")
        assert re.findall(r"3\.\d+", re.search(r"python: \[(.*)\]", text)[1]) == PYTHONS


def test_publishing_tries_macos_and_windows_and_is_said_to_be_untried():
    text = (ROOT / ".github" / "workflows" / "publish.yml").read_text(encoding="utf-8")
    assert "macos-latest" in text
    assert "windows-latest" in text
    assert "This workflow has not run yet" in text
    assert "untried" in (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


def test_the_lowest_versions_that_are_tried_are_those_that_are_allowed():
    """But for torch and torchvision, of which there is one build."""
    text = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8")
    tried = dict(re.findall(r"(?m)^([\w-]+)==([\d.]+)", text.lower()))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    extras = re.search(r"LOWEST_EXTRAS := (.*)", makefile)[1].split(",")
    assert set(extras) == PROJECT["optional-dependencies"].keys() - {"all", "dev"}
    requirements = [*PROJECT["dependencies"], *(one for extra in extras for one in PROJECT["optional-dependencies"][extra])]
    for requirement in requirements:
        name, lowest = re.fullmatch(r"([\w-]+)(?:\[\w+\])?(?:>=([\d.]+))?", requirement).groups()
        if name not in ("pixtree", "torch", "torchvision"):
            assert f"{tried[name.lower()]}.".startswith(f"{lowest}."), name  # the first release of that number


def test_sources_are_python_3_11_and_use_nothing_that_later_ones_dropped():
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 11))  # an error names the file
        imported = {alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {
            (node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level
        }
        found[str(path.relative_to(PACKAGE))] = imported & GONE
    assert len(found) > 100
    assert {path: modules for path, modules in found.items() if modules} == {}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True)
    return folder


def wheel_of(folder):
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_package_and_nothing_else(built):
    expected = {path.relative_to(ROOT / "src").as_posix() for path in PACKAGE.rglob("*") if path.is_file()}
    expected = {name for name in expected if "__pycache__" not in name}
    with zipfile.ZipFile(wheel_of(built)) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        metadata = archive.read(f"pixtree-{PROJECT['version']}.dist-info/METADATA").decode()
    assert names == expected
    assert "pixtree/tokenizer/pretrained.safetensors" in names
    assert "\nLicense-Expression: MIT\n" in metadata
    assert "\nRequires-Python: >=3.11\n" in metadata


@pytest.mark.slow
def test_the_sdist_can_be_built_from_and_tested(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("pyproject.toml", "LICENSE", "README.md", "SECURITY.md", "constraints.txt", "tests/test_release.py", "Makefile"):
        assert name in names
    assert not any(name.startswith((".venv", "out/", "dist/")) for name in names)


@pytest.mark.slow
def test_the_wheel_works_without_the_sources_beside_it(built, tmp_path):
    """Offline: the other packages are those of this environment. `benchmarks/release.py` tries empty environments."""
    place = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(place)]
    subprocess.run([*pip, str(wheel_of(built))], check=True, capture_output=True)
    code = (
        "import pixtree, torch; print(pixtree.__file__);"
        "tokens = pixtree.Tokenizer.pretrained(pixtree.Exactly(9))(torch.zeros(1, 3, 32, 32)); print(tokens.features.shape[1])"
    )
    environment = {"PYTHONPATH": str(place), "PATH": "", "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == [str(place / "pixtree" / "__init__.py"), "9"]
