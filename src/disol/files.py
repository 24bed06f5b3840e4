"""Writing files whole or not at all."""

import errno
import glob
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Some file systems cannot sync folders, and some folders may be written to but not read.
CANNOT_TELL = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path`, and move it there once the block has ended without an error.

    What is at `path` is on the disk: a crash of the machine leaves the old file or the new one, too.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent)
    except OSError as error:
        raise ValueError(f"Cannot write {target}: {error.strerror or error}. Choose another path.") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            temporary.chmod(0o666 & ~current_umask())  # mkstemp makes files that only their owner can read
            os.fsync(file.fileno())
        temporary.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise ValueError(
            f"Cannot write {target}: {error.strerror or error}. Free some space or choose another path."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def drop_unfinished(path: str | Path) -> None:
    """Remove what a process that was killed while it wrote `path` whole has left beside it; no other may write it."""
    target = Path(path)
    for left in target.parent.glob(f".{glob.escape(target.stem)}-????????{glob.escape(target.suffix)}"):
        left.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can tell."""
    if os.name != "posix":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in CANNOT_TELL:
            raise


def current_umask() -> int:
    """Return the permissions that new files are not given."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
