"""Machine code inside the package: wheels for one platform contain it, so that a first call does not wait for a compiler.

It is compiled for a level of CPUs (x86-64-v3: AVX2 and what came with it) instead of one CPU, and is used only where the sources,
Python, numba and llvmlite are exactly those of the build. Where it does not fit, kernels are compiled as usual. Only pixtree's own
kernels look here; numba itself is not changed.
"""

import json
import platform
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import llvmlite
import numba
from numba.core.caching import FunctionCache, NullCache
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target

from pixtree.runtime.machine_code import FOLDERS, CheckedFiles, MachineCode, file_name, fingerprint

FOLDER = Path(__file__).parent / "shipped_code"  # never in the repository; nothing can name another one
MANIFEST = "manifest.json"
ANNOTATIONS = 5  # the place of the types of all variables, as a text, among the fields that follow the machine code
# By architecture: LLVM's name for the level of CPUs, and its features.
LEVELS = {
    "x86_64": ("x86-64-v3", "avx,avx2,bmi,bmi2,cx16,f16c,fma,lzcnt,movbe,popcnt,sahf,sse3,sse4.1,sse4.2,ssse3,xsave"),
    "aarch64": ("generic", "neon"),
}


class Target(NamedTuple):
    """What numba compiles for: a system, a CPU, and features on top of those of the CPU."""

    triple: str
    cpu: str
    features: str = ""

    def magic_tuple(self) -> tuple[str, ...]:
        """The form in which numba's keys have it."""
        return tuple(self)


class ShippedFirst(FunctionCache):
    """The shipped machine code of a function where it fits, and otherwise what `own` keeps for this machine."""

    def __init__(self, function: Callable[..., Any], stamp: str, own: MachineCode | NullCache) -> None:
        self._py_func, self.own = function, own  # numba's constructor would look for a folder to write to
        self._shipped_files = CheckedFiles(str(FOLDER / function.__module__), file_name(function), stamp)

    @property
    def cache_path(self) -> str | None:
        """The folder of this machine."""
        return self.own.cache_path  # type: ignore[no-any-return]

    def enable(self) -> None:
        """Keep what is compiled."""
        self.own.enable()

    def disable(self) -> None:
        """Keep nothing."""
        self.own.disable()

    def flush(self) -> None:
        """Forget what was compiled here."""
        self.own.flush()

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        """The machine code of a signature, or None where it must be compiled."""
        target_context.refresh()
        target, _ = usable()
        data = target and self._shipped_files.load(self._index_key(sig, target))
        found = CompileResult._rebuild(target_context, *data) if data else self.own.load_overload(sig, target_context)
        return cast(CompileResult | None, found)

    def save_overload(self, sig: Any, data: CompileResult) -> None:
        """Keep what was compiled, in the folder of this machine."""
        self.own.save_overload(sig, data)


@cache
def usable() -> tuple[Target | None, str]:
    """The target of the shipped machine code (None: it is not used), and why it is not used."""
    try:
        built = json.loads((FOLDER / MANIFEST).read_text(encoding="utf-8"))
        target = Target(*built["target"])
    except FileNotFoundError:
        return None, "none in this installation; wheels for a platform have it"
    except (OSError, ValueError, KeyError, TypeError):
        return None, f"{MANIFEST} is damaged"
    for name, here in _surroundings().items():
        if built.get(name) != here:
            return None, f"built for {name} {built.get(name)}, and this is {here}"
    triple, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    if triple != target.triple:
        return None, f"built for {target.triple}, and this is {triple}"
    lacking = [name for name in LEVELS[platform.machine()][1].split(",") if f"+{name}" not in features.split(",")]
    if lacking:
        return None, f"built for {target.cpu}, and numba compiles for {cpu} without {', '.join(lacking)}"
    return target, ""


def _surroundings() -> dict[str, str]:
    """What must be equal where machine code is compiled and where it is loaded."""
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    versions = {"Python": python, "numba": numba.__version__, "llvmlite": llvmlite.__version__}
    return versions | {f"sources of {name}": fingerprint(name)[:16] for name in FOLDERS}


def building(folder: Path) -> dict[str, str]:
    """Environment variables with which processes compile for the CPUs of wheels, into a folder."""
    if platform.machine() not in LEVELS:
        raise ValueError(f"machine code ships for {' and '.join(LEVELS)}, got {platform.machine()}; build the pure wheel only")
    names = {"NUMBA_CACHE_DIR": str(folder), "NUMBA_CPU_NAME": LEVELS[platform.machine()][0], "NUMBA_CPU_FEATURES": ""}
    # Machine code that calls Intel's vector library would end a process that does not have it.
    return names | {"NUMBA_DISABLE_INTEL_SVML": "1"}


def pack(folder: Path) -> int:
    """Write what a wheel ships: the machine code that this process, with the variables of `building`, has loaded; how many kernels.

    A process that finds everything compiled loads only the kernels that Python calls, not those that are part of them.
    """
    codegen = cpu_target.target_context.codegen()
    count = 0
    for dispatcher in loaded_kernels():
        function, own = dispatcher.py_func, dispatcher._cache.own
        files = CheckedFiles(str(folder / function.__module__), file_name(function), own._cache_file._source_stamp)
        for signature in dispatcher.stats.cache_hits:
            key = own._index_key(signature, codegen)
            code, *rest = own._cache_file.load(key)
            rest[ANNOTATIONS] = ""  # for people who debug numba; a quarter of the size, with paths of the building machine
            (folder / function.__module__).mkdir(parents=True, exist_ok=True)
            files.save(key, (code, *rest))
            count += 1
    text = json.dumps({**_surroundings(), "target": codegen.magic_tuple()}, indent=1)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")
    return count


def loaded_kernels() -> list[Any]:
    """The kernels of all modules of pixtree that are loaded."""
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("pixtree.")]
    values: dict[int, Any] = {
        id(value): value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)
    }
    return [value for value in values.values() if isinstance(value._cache, ShippedFirst)]
