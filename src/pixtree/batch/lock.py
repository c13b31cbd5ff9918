"""The lock on a destination: one run at a time, or the shards of one, and the second is told who the first is."""

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path


@contextmanager
def holding(folder: Path, shard: tuple[int, int]) -> Iterator[None]:
    """Hold a destination. The shards of a run share it, but no two runs do the same shard.

    The system releases the lock of a process that ends, however it ends. Windows and file systems without locks have none.
    """
    whole = shard[1] == 1
    with ExitStack() as stack:
        stack.enter_context(_locked(folder / "lock", shared=not whole))
        if not whole:
            stack.enter_context(_locked(folder / f"lock-{shard[0]}-{shard[1]}", shared=False))
            for other in folder.glob("lock-*"):  # runs that count other shards would do the same parts
                if other.name.rpartition("-")[2] != str(shard[1]):
                    with _locked(other, shared=False):
                        pass
        yield


@contextmanager
def _locked(path: Path, shared: bool) -> Iterator[None]:
    file = _taken(path, shared)
    try:
        yield
    finally:
        if file is not None:
            _release(path, file, shared)


def _taken(path: Path, shared: bool) -> int | None:
    """Lock a file; None where files cannot be locked."""
    if sys.platform == "win32":
        return None
    import fcntl

    while True:
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if not path.exists() or path.stat().st_ino != os.fstat(file).st_ino:
                os.close(file)  # its owner has removed it since
                continue
        except BlockingIOError:
            holder = os.pread(file, 200, 0).decode("utf-8", "replace")
            os.close(file)
            raise BlockingIOError(
                f"one run at a time writes to '{path.parent.parent}', which {holder or 'another process'} does; "
                "wait for it, stop it, or choose another folder"
            ) from None
        except OSError:
            os.close(file)
            return None
        with suppress(OSError):  # a full disk: the lock holds without the name of its holder
            os.ftruncate(file, 0)
            os.write(file, f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%F %T')}".encode())
        return file


def _release(path: Path, file: int, shared: bool) -> None:
    """Remove the file while it is still locked; a shared one stays until the last of its holders is done."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        if shared:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except OSError:  # somebody else still holds it, and will remove it
        pass
    finally:
        os.close(file)
