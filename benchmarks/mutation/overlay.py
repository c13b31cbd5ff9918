"""The copy of the package that mutants run in: one file of it may be replaced in memory, by two environment variables.

Machine code must not leak from one mutant to the next, and must not be made again where a change cannot reach it. Numba's cache
is therefore keyed by what the runner knows: a compiled function has the stamp of the mutant if the change can be inlined into
it, and the stamp of the unchanged package otherwise.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

MUTANT, STALE, STAMP, FAULT = "PIXTREE_MUTANT", "PIXTREE_STALE", "PIXTREE_STAMP", "PIXTREE_BFLOAT16_FAULT"

HOOK = '''"""Loads a mutant in the place of one module, in this process and in all that it starts."""

import importlib.machinery
import json
import os
import sys

MUTANT = json.loads(os.environ.get("PIXTREE_MUTANT", "null"))


class Loader(importlib.machinery.SourceFileLoader):
    """Compiles another text under the file's own name, and keeps no bytecode of it."""

    def get_code(self, fullname):
        open(MUTANT["loaded"], "a").close()
        with open(MUTANT["text"], encoding="utf-8") as file:
            return compile(file.read(), self.path, "exec", dont_inherit=True)


class Finder(importlib.machinery.PathFinder):
    """Finds the one module that has a mutant."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname != MUTANT["module"]:
            return None
        spec = super().find_spec(fullname, path, target)
        spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


if MUTANT is not None:
    sys.meta_path.insert(0, Finder)
'''

STAMPS = """

def _stamped(compiled_plainly):
    import os

    stale = set(os.environ.get("PIXTREE_STALE", "").split(","))

    def compiled(function, *words, **more):
        found = compiled_plainly(function, *words, **more)
        stored = getattr(found._cache.own, "_cache_file", None)
        if stored is not None:
            stored._source_stamp = os.environ["PIXTREE_STAMP"] if function.__name__ in stale else "unchanged"
        return found

    return compiled


_compiled = _stamped(_compiled)
"""

PROBED = '''

def _known(precaution):
    """The probe takes seconds; the parent of all processes has made it already."""

    def known(probe=bfloat16_fault):
        return ({}, os.environ["PIXTREE_BFLOAT16_FAULT"] or None) if probe is bfloat16_fault else precaution(probe)

    return known


precaution = _known(precaution)
'''


def make(source: Path, folder: Path) -> Path:
    """Copy the package into `folder`/src with the hook in it; an older copy is replaced."""
    copy = folder / "src"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "pixtree_mutant.py").write_text(HOOK, encoding="utf-8")
    _edit(
        copy / "pixtree" / "__init__.py", "\nfrom importlib", lambda old: old.replace("\nfrom", "\nimport pixtree_mutant\nfrom", 1)
    )
    _edit(copy / "pixtree" / "runtime" / "jit.py", "\ndef _compiled(", lambda old: old + STAMPS)
    _edit(copy / "pixtree" / "runtime" / "bfloat16.py", "\ndef precaution(", lambda old: old + PROBED)
    return copy


def _edit(path: Path, needed: str, change: Callable[[str], str]) -> None:
    old = path.read_text(encoding="utf-8")
    if needed not in old:
        raise ValueError(f"expected {needed!r} in {path}, found none; adapt benchmarks/mutation/overlay.py to it")
    path.write_text(change(old), encoding="utf-8")


def environment(copy: Path, cache: Path) -> dict[str, str]:
    """What every process of the tests needs to run in the copy."""
    return {
        "PYTHONPATH": os.pathsep.join((str(copy), os.environ.get("PYTHONPATH", ""))),
        "NUMBA_CACHE_DIR": str(cache),
        "OMP_NUM_THREADS": "1",
    }
