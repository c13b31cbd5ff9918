"""The house rules, over the sources themselves: sizes of files and functions, dead names, extras, layers and words."""

import ast
import importlib
import re
import tomllib
from collections import defaultdict
from pathlib import Path

from sources import Parsed

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "pixtree"
SOURCES = Parsed(PACKAGE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

MOST_LINES, LONGEST_FUNCTION = 400, 60
BACKENDS = {"definition.py", "batched.py", "compiled.py", "triton.py"}  # every kernel has these files
# Compiled loops whose state is many local arrays: numba inlines no closure, and a call per pixel would pass them all.
LONG_FUNCTIONS = {
    "merge": "one round of merging, whose arrays are rewritten in place as regions disappear",
    "climb": "the rounds of a tree, which share one block of scratch memory",
    "absorb": "one merge of every component on a GPU, whose values stay in registers",
    "grow_flat": "the rounds of an exact cut, which share one block of scratch memory",
    "gradients_of_image": "the backward pass of all rounds, fused so that no round's gradient goes through memory",
    "gradients_of_level": "the gradients of all members of one round, fused with their sums",
    "merge_cheapest_first": "a heap of merges with its neighbour lists, which one loop keeps consistent",
    "cheapest_polylines": "a dynamic programme over the corners of an arc, with its running sums",
    "cheapest_pieces": "a dynamic programme over the samples of an arc, with its running sums",
    "meeting_points": "the ends of all pieces, for which junctions are listed once and walked in place",
    "write_shapes": "digits written straight into one buffer of bytes",
}


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring."""
    docstring = function.body[0] if ast.get_docstring(function) is not None else None
    inside = 0 if docstring is None else (docstring.end_lineno or 0) - docstring.lineno + 1
    return (function.end_lineno or 0) - function.lineno + 1 - inside


def test_no_file_is_long():
    lines = {str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def test_no_two_files_have_the_same_name():
    """A name alone says which file is meant; commands are named like what they run."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        in_backend = f"{path.parent.name}.py" in BACKENDS  # parts of an idea have the same name in all of them
        if path.name not in {"__init__.py", *BACKENDS} and path.relative_to(PACKAGE).parts[0] != "cli" and not in_backend:
            places[path.name].append(str(path.relative_to(PACKAGE).parent))
    assert {name: folders for name, folders in places.items() if len(folders) > 1} == {}


def test_functions_are_short_unless_a_kernel_needs_it():
    long = {function.name for tree in SOURCES.values() for function in functions(tree) if lines_of(function) > LONGEST_FUNCTION}
    assert long - LONG_FUNCTIONS.keys() == set()


def test_every_exception_is_a_function_with_a_reason():
    names = {function.name for tree in SOURCES.values() for function in functions(tree)}
    assert set(LONG_FUNCTIONS) <= names
    assert all(LONG_FUNCTIONS.values())


def test_no_name_is_dead():
    """Every name at the top of a module is used by the package, a benchmark, an example or a page for users, not only by tests."""
    used: set[str] = set()
    others = [path for folder in ("benchmarks", "examples") for path in (ROOT / folder).rglob("*.py")]
    for tree in (*SOURCES.values(), *(ast.parse(path.read_text(encoding="utf-8")) for path in others)):
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                used.add(node.id)
            elif isinstance(node, ast.Attribute):
                used.add(node.attr)
            elif isinstance(node, ast.alias):
                used.add(node.name)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                used.add(node.value.rpartition(".")[2])  # names are also looked up by their paths
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *PACKAGE.rglob("*.yaml")):
        if page.name not in ("decisions.md", "paper.md", "architecture.md"):  # which speak of the inside
            used |= set(re.findall(r"\w+", page.read_text(encoding="utf-8")))
    assert {name: where for name, where in top_names().items() if name not in used} == {}


PROTOCOLS = {"default_cfgs"}  # timm looks it up by name


def top_names() -> dict[str, str]:
    """Functions, classes and constants at the top of modules, by name; what a decorator of a library registers is left out."""
    found = {}
    for path, tree in SOURCES.items():
        for node in tree.body:
            names: list[str] = []
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not any(
                word in ast.unparse(d) for d in node.decorator_list for word in ("register", "router.")
            ):
                names = [node.name]
            elif isinstance(node, ast.Assign):
                names = [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names = [node.target.id]
            found |= {name: str(path.relative_to(PACKAGE)) for name in names if not name.startswith("__") and name not in PROTOCOLS}
    return found


MODULES = {
    "scikit-image": "skimage",
    "opencv-contrib-python-headless": "cv2",
    "pillow": "PIL",
    "pyyaml": "yaml",
    "PySide6-Essentials": "qtpy",
}  # napari's way to Qt


def test_every_extra_is_imported():
    imported = set()
    for tree in SOURCES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.split(".")[0])
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "_module")):
                imported |= {str(word.value).split(".")[0] for word in node.args if isinstance(word, ast.Constant)}
    extras = PROJECT["project"]["optional-dependencies"]
    packages = {re.split(r"[\[<>=~!; ]", one)[0] for extra in extras.keys() - {"all", "dev"} for one in extras[extra]}
    assert {package for package in packages if MODULES.get(package, package) not in imported} == set()


def test_contributors_read_the_layers_that_are_checked():
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    contract = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    exist = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    layers = [[name for name in re.findall(r"pixtree\.(\w+)", layer) if name in exist] for layer in contract]
    assert " → ".join(f"`{' | '.join(layer)}`" for layer in layers if layer) in text
    assert {name for layer in layers for name in layer} == exist - {"__init__", "__main__", "__pycache__"}


# The results pages quote the texts of records, which stay as they were measured.
PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.stem not in ("results", "results_long")]
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES, *SOURCES]
AVOIDED = re.compile(
    "|".join(
        [
            r"what decides|\brivals?\b|if nothing is said|how (good|fast)\b|what is learned",
            r"(?<!, )\bso many\b(?! [\w-]+ that\b)",  # but "so many regions that ..."
            r"(?<!\bthere )\b(is|are) no (?!longer\b|more\b|less\b|such\b|match\b|\w+er than\b)[a-z]",  # but "there is no ..."
            r"\b(is|are) said\b(?! to\b)",
            r"\bcures?\b|\bempty hands\b|\bwhat became of\b|\bof other people\b|\bmore of what people drew\b|\bno contest\b",
            r"\bnot good yet\b|\bsuch products\b|\bmay be attacks\b|\bdo none of it\b|\b(retrofitted|coarsened) self\b",
            r"\b(models|a tree) (say|tells)\b|\bwait for who\b|\bbefore anybody\b|\bthe (darker|more|fewer|larger|smaller), the\b",
        ]
    ),
    re.IGNORECASE,
)


def test_words_are_those_of_the_field():
    found = {}
    for path in TEXTS:
        words = [match[0] for match in AVOIDED.finditer(" ".join(path.read_text(encoding="utf-8").split()))]
        if words:
            found[str(path.relative_to(ROOT))] = words
    assert found == {}


def test_benchmarks_and_examples_import_names_that_exist():
    scripts = [path for folder in ("benchmarks", "examples") for path in sorted((ROOT / folder).glob("*.py"))]
    lost = []
    for path in scripts:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pixtree"):
                found = has_names(node.module, [alias.name for alias in node.names])
                lost += [] if found else [(path.name, ast.unparse(node))]
    assert len(scripts) > 20
    assert lost == []


def has_names(module: str, names: list[str]) -> bool:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    return all(hasattr(found, name) for name in names)
