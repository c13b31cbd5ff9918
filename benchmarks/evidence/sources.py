"""The sources that a record measures, as hashes: when one of them has changed since, the record is stale.

The sources of a command are its script (below benchmarks/, or the file of the command line that holds the command) and every
script and module of pixtree that these import, directly or not, also inside functions. Comments, docstrings and layout do not
count, so that rewording makes no record stale; data files of the package, such as the shipped weights, do. A script that starts
other programs names the folders that it measures in a constant `MEASURES`.
"""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# These write records and pass arguments on: the arguments themselves stand in the command of a record.
LEFT_OUT = (
    "pixtree/__init__.py",
    "pixtree/files.py",
    "pixtree/evaluation/records.py",
    "benchmarks/evidence/__init__.py",
    "benchmarks/evidence/records.py",
    "benchmarks/evidence/sources.py",
)
COMMAND_LINE = "pixtree/cli"
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_FIELDS_WITHOUT_MEANING = ("ctx", "kind", "type_comment", "type_ignores")


class State(NamedTuple):
    """Whether a record still holds: "fresh", "stale" or "unknown" (no hashes), and the folders whose sources have changed."""

    word: str
    changed: tuple[str, ...] = ()


def source_hashes(command: str, root: Path = ROOT) -> dict[str, str]:
    """Hash per folder of the sources that a command measures; empty if it names no script or the sources are not there."""
    by_folder: dict[str, list[str]] = {}
    for path in sources_of(command, root):
        name = _name(path, root)
        by_folder.setdefault(str(Path(name).parent), []).append(f"{name} {_fingerprint(path)}")
    return {folder: _digest("\n".join(sorted(by_folder[folder])).encode()) for folder in sorted(by_folder)}


def state_of(record: Mapping[str, Any], root: Path = ROOT) -> State:
    """Compare the hashes of a record with the sources as they are."""
    kept, now = record.get("source_hashes"), source_hashes(record["command"], root)
    if not kept:
        return State("unknown")
    changed = tuple(folder for folder in sorted(kept.keys() | now.keys()) if kept.get(folder) != now.get(folder))
    return State("stale" if changed else "fresh", changed)


def sources_of(command: str, root: Path = ROOT) -> list[Path]:
    """All files that a command measures, sorted."""
    script = script_of(command, root)
    if script is None:
        return []
    found, waiting = set[Path](), [script, *_named_folders(script, root)]
    is_file = cache(Path.is_file)  # most modules import the same ones
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [one for one in _imported(path, root) if one not in found and is_file(one)]
    return sorted(found | set(_data_files({path.parent for path in found}, root)))


def script_of(command: str, root: Path = ROOT) -> Path | None:
    """The script that a command starts, or the file of the command line that holds it."""
    if script := re.search(r"benchmarks/[\w/]+(\.py)?", command):
        path = root / script[0]
        path = path / "__main__.py" if path.is_dir() else path
        return path if path.is_file() else None
    words = re.search(r"\bpixtree ([a-z-]+)(?: ([a-z0-9-]+))?", command)
    for word in (words[2], words[1]) if words else ():
        for path in sorted((root / "src" / COMMAND_LINE).glob("*.py")) if word else ():
            function = rf"^def {word.replace('-', '_')}\("
            if path.stem == word or re.search(function, path.read_text(encoding="utf-8"), re.MULTILINE):
                return path
    return None


def _name(path: Path, root: Path) -> str:
    """A path as records name it: the package's from pixtree/, others from the root."""
    return str(path.relative_to(root)).removeprefix("src/")


def _named_folders(script: Path, root: Path) -> Iterator[Path]:
    for node in ast.parse(script.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == "MEASURES" for one in node.targets):
            for folder in ast.literal_eval(node.value):
                yield from (root / folder).rglob("*.py")


def _imported(path: Path, root: Path) -> Iterator[Path]:
    """Where the modules of pixtree, and other scripts and packages below benchmarks/, would be that a file imports."""
    if path.suffix != ".py":
        return
    if path.name == "definition.py":  # kernels find the other backends of an idea by their names
        yield from path.parent.rglob("*.py")
    benchmarks = root / "benchmarks"
    folders = tuple(dict.fromkeys((path.parent, benchmarks))) if benchmarks in path.parents else ()
    for module in _modules(path.read_text(encoding="utf-8"), _homes(root / "src")):
        yield from _candidates(module, folders, root)


@cache
def _candidates(module: str, folders: tuple[Path, ...], root: Path) -> tuple[Path, ...]:
    """The files that may hold a module and the packages around it, but for those left out. folders: where scripts look for it."""
    parts = module.split(".")
    if parts[0] == "pixtree":
        stems = [root.joinpath("src", *parts[:length]) for length in range(2, len(parts) + 1)]
    else:
        stems = [folder.joinpath(*parts[:length]) for folder in folders for length in range(1, len(parts) + 1)]
    files = (one for stem in stems for one in (stem.with_suffix(".py"), stem / "__init__.py"))
    return tuple(one for one in files if not _name(one, root).startswith((*LEFT_OUT, COMMAND_LINE)))


@cache
def _modules(text: str, homes: tuple[tuple[str, str], ...]) -> frozenset[str]:
    """Names of modules that a source imports anywhere, but for the checker of types, with those of the public names it uses."""
    found = set[str]()
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pixtree":
            found.add(f"pixtree.{node.attr}")
    return frozenset(found | {module for name, module in homes if name in found})


@cache
def _homes(source: Path) -> tuple[tuple[str, str], ...]:
    """Public names that packages of pixtree import on first use, and the modules that define them."""
    found: dict[str, str] = {}
    for path in (source / "pixtree").rglob("__init__.py"):
        package = ".".join(path.parent.relative_to(source).parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "_HOMES":
                found |= {f"{package}.{name}": f"{package}.{home}" for name, home in ast.literal_eval(node.value).items()}
    return tuple(sorted(found.items()))


def _data_files(folders: Iterable[Path], root: Path) -> Iterator[Path]:
    """Files of the package other than Python, in these folders and in those below that are not packages."""
    for folder in folders:
        if root / "src" in folder.parents and folder != root / "src" / "pixtree":
            for path in folder.rglob("*"):
                if path.suffix != ".py" and "__pycache__" not in path.parts and path.is_file():
                    home = next(one for one in path.parents if one == folder or (one / "__init__.py").is_file())
                    if home == folder:
                        yield path


def _fingerprint(path: Path) -> str:
    content = path.read_bytes()
    return _code_digest(content.decode()) if path.suffix == ".py" else _digest(content)


@cache
def _code_digest(text: str) -> str:
    """Hash of the syntax tree of a source without docstrings, written so that all versions of Python agree."""
    return _digest(_written(ast.parse(text)).encode())


def _written(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(_written(one) for one in value)}]"
    if not isinstance(value, ast.AST):
        return repr(value)
    fields = {name: getattr(value, name, None) for name in value._fields if name not in _FIELDS_WITHOUT_MEANING}
    if isinstance(value, _WITH_DOCSTRING) and ast.get_docstring(value, clean=False):
        fields["body"] = value.body[1:]
    inside = ",".join(f"{name}={_written(part)}" for name, part in fields.items() if part not in (None, []))
    return f"{type(value).__name__}({inside})"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
