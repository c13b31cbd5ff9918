"""What a change reaches: the tests that run it, and the machine code that has it inside."""

import ast
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mutants import COMPILERS, Mutant

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Function:
    """A function at the top of a module or a class."""

    path: str
    name: str
    owner: str | None
    compiled: bool
    names: dict[str, tuple[int, ...]]  # every name that its body reads, with the lines
    lines: range


@dataclass(frozen=True)
class Sources:
    """All functions of the package."""

    functions: tuple[Function, ...]

    @classmethod
    def of(cls, root: Path) -> "Sources":
        """Read the package below `root`."""
        found: list[Function] = []
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root.parent).as_posix()
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in tree.body:
                inside = node.body if isinstance(node, ast.ClassDef) else [node]
                owner = node.name if isinstance(node, ast.ClassDef) else None
                found += [_function(name, owner, one) for one in inside if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        return cls(tuple(found))

    @cached_property
    def readers(self) -> dict[str, list[Function]]:
        """Functions by the names that they read."""
        found: dict[str, list[Function]] = {}
        for function in self.functions:
            for name in function.names:
                found.setdefault(name, []).append(function)
        return found

    def inlined_into(self, names: set[str]) -> set[str]:
        """Names of the compiled functions that read one of `names`, directly or through other compiled functions."""
        found: set[str] = set()
        new = set(names)
        while new:
            new = {one.name for name in new for one in self.readers.get(name, []) if one.compiled} - found
            found |= new
        return found

    def stale(self, mutant: Mutant) -> set[str]:
        """Compiled functions whose machine code is another one for this mutant."""
        place = mutant.place
        if place.function is not None:
            return {place.function} | self.inlined_into({place.function}) if place.compiled else set()
        names = set(place.names) or {one.name for one in self.functions if one.path == mutant.path}
        return self.inlined_into(names | ({place.owner} if place.owner else set()))


def _function(path: str, owner: str | None, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    names: dict[str, list[int]] = {}
    for statement in node.body:
        for part in ast.walk(statement):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                names.setdefault(part.id, []).append(part.lineno)
            elif isinstance(part, ast.Attribute):
                names.setdefault(part.attr, []).append(part.lineno)
    compiled = any(ast.unparse(one).partition("(")[0] in COMPILERS for one in node.decorator_list)
    lines = range(node.body[0].lineno, (node.end_lineno or 0) + 1)
    return Function(path, node.name, owner, compiled, {name: tuple(seen) for name, seen in names.items()}, lines)


class Reach:
    """Tests by mutant."""

    def __init__(self, record: Path, sources: Sources, root: Path = ROOT) -> None:
        self.root = root
        self.words: dict[str, set[str]] = {}
        kept = json.loads(record.read_text(encoding="utf-8"))
        self.tests = [name for name, _ in kept["tests"]]
        self.left_out = kept["failed"]  # without any change
        self.seconds = dict(kept["tests"])
        self.lines = {path: {int(line): seen for line, seen in lines.items()} for path, lines in kept["lines"].items()}
        self.sources = sources

    def of_files(self, files: list[str]) -> list[str]:
        """All tests of these files, the quickest first."""
        return sorted((name for name in self.tests if name.split("::")[0] in files), key=lambda name: (self.seconds[name], name))

    def covering(self, mutant: Mutant) -> list[str]:
        """Tests that run a mutant, those of its own folder and the quickest first."""
        found = {self.tests[number] for number in self._numbers(mutant)}
        folder = mutant.path.split("/")[1]
        return sorted(found, key=lambda name: (self.seconds[name] * (0.1 if f"/{folder}/" in name else 1.0), name))

    def _numbers(self, mutant: Mutant) -> set[int]:
        place = mutant.place
        if place.function is not None and not place.compiled:
            first, last = place.lines
            return self._of_lines(mutant.path, range(first, last + 1))
        if place.function is not None:
            return self._of_names({place.function})
        named = self._of_names(set(place.names)) if place.names and place.owner is None else set()
        own = [one for one in self.sources.functions if one.path == mutant.path and one.owner == place.owner]
        if not named:
            for one in own or [one for one in self.sources.functions if one.path == mutant.path]:
                named |= self._of_lines(one.path, one.lines)
            named |= self._of_names({place.owner} if place.owner else set(place.names))
        return named or self._of_lines(mutant.path, range(place.lines[0], place.lines[1] + 1))  # those that import the module first

    def _words(self, file: str) -> set[str]:
        """The names in a file of tests; none where it is gone."""
        if file not in self.words:
            path = self.root / file
            self.words[file] = set(re.findall(r"\w+", path.read_text(encoding="utf-8"))) if path.is_file() else set()
        return self.words[file]

    def _of_lines(self, path: str, lines: range) -> set[int]:
        seen = self.lines.get(path, {})
        return {number for line in lines for number in seen.get(line, ())}

    def _of_names(self, names: set[str]) -> set[int]:
        """Tests that run a line which reads one of these names, or which calls machine code that does.

        Coverage sees no line of machine code, nor those of tests: a test whose file names a compiled function may call it itself.
        """
        machine = names | self.sources.inlined_into(names)
        compiled = {one.name for one in self.sources.functions if one.compiled} & machine
        found = {number for number, test in enumerate(self.tests) if compiled & self._words(test.split("::")[0])}
        for name in machine:
            for function in self.sources.readers.get(name, []):
                if not function.compiled:
                    for line in function.names[name]:
                        found |= self._of_lines(function.path, range(line, line + 1))
        return found
