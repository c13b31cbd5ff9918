"""Compilation of kernels: without the GIL, with IEEE arithmetic, kept on disk; the first compilation is announced.

The machine code on disk is numba's, with a checksum, so that damaged files are made again instead of being run.
"""

import hashlib
import io
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config, event
from numba.core.caching import FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator

Kernel = Callable[..., Any]
PACKAGE = Path(__file__).parents[1]
# Machine code is inlined across the files of these folders; a test checks that nothing is compiled elsewhere.
FOLDERS = {"kernels": ("kernels", "runtime"), "vector": ("vector", "kernels", "runtime")}
ONCE = "compiling its kernels for this machine, once (about half a minute) ..."
EVERY_TIME = "compiling its kernels (about half a minute), in every process, since no folder can keep them"
REMEDY = "set NUMBA_CACHE_DIR to a folder that can be written"
logger = logging.getLogger(__name__)
_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Log a message, unless this process has logged it before; without any set-up of logging it goes to stderr."""
    if message not in _warned:
        _warned.add(message)
        logger.warning("pixtree: %s", message)


class CheckedFiles(IndexDataCacheFile):
    """The index and the data files of one function, each with a checksum at its end; a file that fails it counts as missing."""

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        with super()._open_for_write(filepath) as file:
            yield content
            # pickle stops at its own end, so that numba reads such a file as it reads its own
            file.write(content.getvalue() + hashlib.sha256(content.getvalue()).digest())

    def save(self, key: Any, data: Any) -> None:
        """Store the machine code of one signature under a name that follows from its key.

        Numba counts its files instead, so two processes that compile different signatures at once may both take the same number,
        and the index of one then points at the machine code of the other.
        """
        name = f"{self._index_name.removesuffix('.nbi')}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})

    def _load_index(self) -> dict[Any, str]:
        return super()._load_index() if _is_whole(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        if not _is_whole(self._data_path(name)):
            raise OSError(f"the machine code in {name} is damaged")  # as if it were missing: numba compiles and writes it again
        return super()._load_data(name)


def _is_whole(path: str) -> bool:
    size = hashlib.sha256().digest_size
    try:
        content = Path(path).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content[:-size]).digest() == content[-size:]


def _share(locator: UserProvidedCacheLocator, folder: Path) -> str:
    """Have NUMBA_CACHE_DIR keep machine code in a folder named by content, so that copies of the same sources share it."""
    locator._cache_path = str(Path(locator.get_cache_path()).parent / folder)  # numba names its folders by the paths of the sources
    return str(locator.get_cache_path())


class MachineCode(FunctionCache):
    """The machine code that numba keeps of a function, valid for one `stamp`; a full disk costs time, not the result."""

    def __init__(self, function: Callable[..., Any], stamp: str) -> None:
        super().__init__(function)
        if isinstance(self._impl.locator, UserProvidedCacheLocator):
            self._cache_path = _share(self._impl.locator, Path(f"pixtree-{stamp[:16]}", function.__module__))
        # The stamp covers the contents of the sources, so their modification times, which numba looks at, do not matter.
        self._cache_file = CheckedFiles(self._cache_path, self._impl.filename_base, stamp)

    @contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or type(error).__name__
            warn_once(f"its compiled kernels cannot be kept on disk ({reason}), so every process compiles them; {REMEDY}")


def folder_fault() -> tuple[str | None, str | None]:
    """The folder that keeps the machine code (None: there is none), and why it cannot be written (None: it can)."""
    try:
        code = FunctionCache(warn_once)
        code._impl.locator.ensure_cache_path()
    except RuntimeError:
        return None, "no folder can be written"
    except OSError as error:
        return code._cache_path, error.strerror or type(error).__name__
    return code._cache_path, None


@cache
def fingerprint(folder: str) -> str:
    """A hash of every source that the machine code of a folder may inline: numba itself looks at the caller's file only."""
    digest = hashlib.sha256()
    for name in FOLDERS[folder]:
        for path in sorted((PACKAGE / name).rglob("*.py")):
            digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _compiled(function: Kernel, **options: Any) -> Kernel:
    """The function compiled without the GIL, with IEEE arithmetic, and kept on disk until any kernel's source changes."""
    if getattr(config, "DISABLE_JIT", 0):  # kernels rely on LLVM's vectors, and interpreted they would take hours
        raise ImportError(
            'the compiled kernels need numba\'s compiler, got NUMBA_DISABLE_JIT=1; unset it, or segment with backend="torch"'
        )
    # No fastmath and no contraction: trees must be equal to the reference bit for bit. Nobody calls a kernel through a C pointer.
    usual: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    compiled: Any = numba.njit(**usual, **options)(function)
    try:
        compiled._cache = MachineCode(function, fingerprint(function.__module__.split(".")[1]))
    except RuntimeError:  # no folder to keep machine code in, as in a read-only container
        _Announcer.is_kept = False
    return compiled  # type: ignore[no-any-return]


def kernel(function: Kernel) -> Kernel:
    """Compile a function; its machine code is kept on disk for later processes."""
    return _compiled(function)


def inlined(function: Kernel) -> Kernel:
    """Compile a small function into its callers."""
    return _compiled(function, forceinline=True)


# Sums in any order, products fused into them: both vectorise. Infinities and NaN are kept.
_TOLERANT = {"contract", "reassoc", "nsz"}


def tolerant(function: Kernel) -> Kernel:
    """Compile a function of learned values, which decide nothing: its last digits may differ between machines."""
    return _compiled(function, fastmath=_TOLERANT)


def tolerant_inlined(function: Kernel) -> Kernel:
    """Compile such a function into its callers."""
    return _compiled(function, fastmath=_TOLERANT, forceinline=True)


class _Announcer(event.Listener):
    """Announces once per process that a first call waits for compilation."""

    is_kept = True  # whether a later process will find the machine code

    def on_start(self, event: Any) -> None:
        """Announce the first compilation of a pixtree kernel."""
        if _is_ours(event):
            warn_once(ONCE if self.is_kept else f"{EVERY_TIME}; {REMEDY}")

    def on_end(self, event: Any) -> None:
        """Nothing to announce: the caller's result follows."""


def _is_ours(event: Any) -> bool:
    dispatcher = (event.data or {}).get("dispatcher")
    module = getattr(getattr(dispatcher, "py_func", None), "__module__", "")
    return str(module).startswith("pixtree.")


event.register("numba:compile", _Announcer())
