"""The documentation imports public names only: from `pixtree` or from one of its packages, never from a module inside one."""

import ast
import json
import re
from importlib import import_module

from pages import PAGES, ROOT, blocks

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOK = ROOT / "examples" / "tour.ipynb"
DEEP = re.compile(r"pixtree\.\w+\.\w+")


def sources():
    """Every piece of Python that users read, by where it stands."""
    yield from ((f"examples/{path.name}", path.read_text(encoding="utf-8")) for path in EXAMPLES)
    yield "docs/conf.py", (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield NOTEBOOK.name, "".join(cell["source"])
    for page in PAGES:
        yield from ((f"{page.name}:{block.line}", block.text) for block in blocks(page) if block.language == "python")


def imports(text):
    """Modules and names that a piece of code imports from pixtree."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == "pixtree")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pixtree":
            yield from ((node.module, alias.name) for alias in node.names)


def test_no_import_goes_deeper_than_a_package():
    found = [(where, module) for where, text in sources() for module, _ in imports(text)]
    assert len(found) > 30
    assert [(where, module) for where, module in found if DEEP.search(module)] == []


def test_imported_names_are_those_that_packages_export():
    unknown = []
    for where, text in sources():
        for module, name in imports(text):
            if name and name not in exported(module):
                unknown.append((where, module, name))
    assert unknown == []


def test_every_exported_name_exists():
    packages = [f"pixtree.{path.parent.name}" for path in sorted((ROOT / "src" / "pixtree").glob("*/__init__.py"))]
    public = [package for package in packages if hasattr(import_module(package), "__all__")]
    assert {"pixtree.batch", "pixtree.exports", "pixtree.models", "pixtree.training"} <= set(public)
    missing = [f"{package}.{name}" for package in public for name in exported(package) if not hasattr(import_module(package), name)]
    assert missing == []


def exported(module):
    return import_module(module).__all__


def test_the_reference_documents_public_names_only():
    reference = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"auto(?:class|function):: (pixtree(?:\.\w+)?)\.(\w+)$", reference, re.MULTILINE)
    assert len(named) == len(re.findall("auto(?:class|function)::", reference))
    assert [(module, name) for module, name in named if name not in exported(module)] == []
