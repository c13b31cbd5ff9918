"""Machine code on disk: numba's own files with a checksum, so that damaged files are made again instead of being run."""

import hashlib
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator

from pixtree.messages import warn_once
from pixtree.runtime.announcer import REMEDY

PACKAGE = Path(__file__).parents[1]
# Machine code is inlined across the files of these folders; a test checks that nothing is compiled elsewhere.
FOLDERS = {"kernels": ("kernels", "runtime"), "vector": ("vector", "kernels", "runtime")}


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


def file_name(function: Callable[..., Any]) -> str:
    """The name of the files of a function, without suffix, in the form that numba has."""
    code, (major, minor) = function.__code__, sys.version_info[:2]
    name = f"{Path(code.co_filename).stem}.{function.__qualname__}-{code.co_firstlineno}".replace("<", "").replace(">", "")
    return f"{name}.py{major}{minor}{getattr(sys, 'abiflags', '')}"


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
        self._cache_file = CheckedFiles(self._cache_path, file_name(function), stamp)

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
            if "triton" in path.relative_to(PACKAGE).with_suffix("").parts:
                continue  # another backend, whose kernels no compiled function can call
            digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
