"""Machine code on disk: numba's files with a checksum, so that damaged ones are made again instead of being run."""

import hashlib
import io
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba.core import config
from numba.core.caching import FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator

REMEDY = "set NUMBA_CACHE_DIR to a folder that can be written"
logger = logging.getLogger(__name__)
_said: set[str] = set()


def say_once(message: str) -> None:
    """Log a message, unless this process has logged it before; without any set-up of logging it goes to stderr."""
    if message not in _said:
        _said.add(message)
        logger.warning("pixtree: %s", message)


class CheckedFiles(IndexDataCacheFile):
    """The index and the data files of one function, each with a checksum at its end; what fails it counts as missing."""

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
    locator._cache_path = str(Path(config.CACHE_DIR) / folder)
    return str(locator.get_cache_path())


class MachineCode(FunctionCache):
    """The machine code of a function on disk, valid for one `stamp`; a disk that cannot keep it costs time only."""

    def __init__(self, function: Callable[..., Any], stamp: str) -> None:
        super().__init__(function)
        if isinstance(self._impl.locator, UserProvidedCacheLocator):
            self._cache_path = _share(self._impl.locator, Path(f"pixtree-{stamp[:16]}", function.__module__))
        # The stamp covers the contents of the sources, so their times of change, which numba looks at, no longer matter.
        self._cache_file = CheckedFiles(self._cache_path, self._impl.filename_base, stamp)

    @contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or type(error).__name__
            say_once(f"its compiled kernels cannot be kept on disk ({reason}), so every process compiles them; {REMEDY}")


def folder_fault() -> tuple[str | None, str | None]:
    """The folder that keeps the machine code, and why nothing can be written there; both None without and with all well."""
    try:
        code = MachineCode(say_once, "")
        code._impl.locator.ensure_cache_path()
    except RuntimeError:
        return None, "no folder can be written"
    except OSError as error:
        return code._cache_path, error.strerror or type(error).__name__
    return code._cache_path, None
