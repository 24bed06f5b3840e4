"""Room on the disk, one writer per file, and operating system errors in one line."""

import errno
import fcntl
import os
import shutil
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_ACCESS = (errno.EACCES, errno.EPERM, errno.EROFS)
NOT_SUPPORTED = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL)


def explain(error: OSError, path: Path) -> ValueError:
    """Say in one line what the operating system objects to, and what to do."""
    if error.errno in NO_ROOM:
        return ValueError(f"{path} cannot grow: no room on the disk or over a quota. Free space and resume.")
    if error.errno in NO_ACCESS:
        return ValueError(f"{path} cannot be written: {error.strerror}. Choose a folder that you may write to.")
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EEXIST):
        return ValueError(
            f"{path} needs a folder, and {path.parent} is none and cannot become one. Choose another path."
        )
    return ValueError(f"{path} cannot be used: {error.strerror or error}. Check the disk and the path.")


def require_room(path: Path, size: int) -> None:
    """Require that the disk can hold a file of `size` bytes, what it takes already included."""
    taken = path.stat().st_blocks * 512 if path.exists() else 0
    free = shutil.disk_usage(path.parent).free
    if size - taken > free:
        raise ValueError(
            f"{path} needs {readable(size - taken)}, but {readable(free)} are free. "
            "Free space, choose another folder, or ask for fewer cases."
        )


def readable(size: int) -> str:
    """Write a number of bytes in the unit that shows its digits."""
    thousands = min((len(str(size)) - 1) // 3, len(UNITS) - 1)
    return f"{size / 1000**thousands:.1f} {UNITS[thousands]}"


def reserve(descriptor: int, size: int) -> None:
    """Claim the blocks of a file, where the file system can."""
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise


def claim(descriptor: int, path: Path) -> None:
    """Become the only writer of a file until its descriptor closes; the kernel ends the claim of a killed process."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(
            f"{path} is in use by another process. Wait until it has finished, or choose another path."
        ) from None
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise


def write_at(descriptor: int, offset: int, array: Shaped[np.ndarray, "..."]) -> None:
    """Write the bytes of an array at a place in a file."""
    remaining = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    while len(remaining):
        written = os.pwrite(descriptor, remaining, offset)
        remaining, offset = remaining[written:], offset + written
