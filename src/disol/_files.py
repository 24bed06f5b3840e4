"""Regular files that are read, files that are written whole or not at all, and files of a folder that change together.

New files of a folder are written into a hidden folder, which gets the name `incoming` once it is complete. That one
step is the change; the files move up into their places afterwards, and as long as `incoming` exists it is read first.
After a crash at any moment all files are old or all are new.
"""

import errno
import glob
import mmap
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from disol.errors import DisolError, shown

try:
    import fcntl
except ImportError:  # of Windows
    fcntl = None  # type: ignore[assignment]

# Some file systems cannot sync folders, and some folders may be written to but not read.
CANNOT_TELL = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)
INCOMING = "incoming"
UNFINISHED = ".unfinished-"
_UNFINISHED_FILE = "-unfinished-"
NOT_SUPPORTED = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL)  # by this file system


def as_path(name: str, value: object) -> Path:
    """Read a path, which the system may still refuse."""
    if not isinstance(value, str | Path):
        raise DisolError(f"{name} must be a path, got {shown(value)}.")
    return Path(value)


def read_regular(path: str | Path, most_bytes: int) -> bytes:
    """Read a regular file of at most `most_bytes`; whatever else has that name is refused unread."""
    with os.fdopen(_open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most_bytes:
            raise DisolError(f"Cannot read {path}: it has {size:,} bytes, at most {most_bytes:,} were expected.")
        try:
            return file.read(size)
        except OSError as error:
            raise DisolError(f"Cannot read {path}: {error.strerror}. Check the disk.") from error


def map_regular(path: str | Path) -> memoryview:
    """Map a regular file to memory; only what is accessed is read."""
    descriptor = _open_regular(path)
    try:
        if os.fstat(descriptor).st_size == 0:  # cannot be mapped
            return memoryview(b"")
        return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise DisolError(f"Cannot read {path}: {error.strerror}. Check the disk.") from error
    finally:
        os.close(descriptor)


def require_regular(path: str | Path) -> None:
    """Require a regular file that may be read, before a library opens it by itself."""
    os.close(_open_regular(path))


def _open_regular(path: str | Path) -> int:
    """Open a regular file and return its descriptor; reading a pipe would block, a device might never end."""
    try:
        # Without O_NONBLOCK, opening a pipe waits for somebody who writes into it.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:  # a ValueError if the path holds a null byte
        raise DisolError(f"Cannot read {path}: {getattr(error, 'strerror', error)}. Check the path.") from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device"
        raise DisolError(f"Cannot read {path}: it is {kind}, not a regular file. Check the path.")
    return descriptor


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and move the file to `path` once the block has ended without an error.

    It is synced to disk first, so that even a crash of the machine leaves the old file or the new one.
    """
    target = Path(path)
    with ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir() and not target.is_symlink():  # checked before what goes with it is written
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            temporary = stack.enter_context(temporary_beside(target))
        except (OSError, ValueError, RecursionError) as error:  # of a null byte, of thousands of folders to make
            reason = getattr(error, "strerror", None) or error
            raise DisolError(f"Cannot write {target}: {reason}. Choose another path.") from error
        try:
            yield temporary
            sync_file(temporary)
            temporary.replace(target)
            sync_folder(target.parent)
        except OSError as error:
            raise DisolError(
                f"Cannot write {target}: {error.strerror or error}. Free some space or choose another path."
            ) from error


def require_room(folder: Path, ending: str) -> None:
    """Require that a folder is not there yet, or holds nothing but files of an ending."""
    try:
        is_free = not folder.exists() or (folder.is_dir() and all(file.suffix == ending for file in folder.iterdir()))
    except OSError as error:
        raise DisolError(f"Cannot write to {folder}: {error.strerror or error}. Choose another path.") from error
    if not is_free:
        raise DisolError(f"{folder} exists and holds more than {ending} files. Choose another name.")


@contextmanager
def folder_written_whole(folder: Path, ending: str) -> Iterator[Path]:
    """Yield a temporary folder beside `folder`, and move it there once the block has ended without an error.

    An existing folder is replaced if it holds nothing but files of that ending.
    """
    require_room(folder, ending)
    try:
        temporary = _new_folder(folder.parent, f".{folder.name[:50]}{_UNFINISHED_FILE}")
    except OSError as error:
        raise DisolError(f"Cannot write to {folder}: {error.strerror or error}. Choose another path.") from error
    try:
        yield temporary
        replaced = temporary.with_name(f"{temporary.name}-replaced")
        if folder.exists():
            folder.rename(replaced)
        temporary.rename(folder)
        shutil.rmtree(replaced, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def temporary_beside(target: Path) -> Iterator[Path]:
    """Yield an empty file beside `target`, and remove it at the end, unless it was moved; killed runs' files go, too.

    Where there are locks, the file is locked as long as its writer lives; elsewhere, an open file could not be moved.
    """
    drop_unfinished(target)
    prefix, suffix = _name_unfinished(target)
    while True:
        name = target.parent / f"{prefix}{_new_name()}{suffix}"
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666)
        except FileExistsError:
            continue
        if try_lock(descriptor) and os.fstat(descriptor).st_nlink:
            break
        os.close(descriptor)  # another process removed it before it was locked
    if fcntl is None:
        os.close(descriptor)
    try:
        yield name
    finally:
        name.unlink(missing_ok=True)
        if fcntl is not None:
            os.close(descriptor)


def drop_unfinished(path: str | Path) -> None:
    """Remove what processes that were killed while they wrote `path` have left beside it."""
    target = Path(path)
    prefix, suffix = map(glob.escape, _name_unfinished(target))
    for left in target.parent.glob(f"{prefix}????????{suffix}"):
        with suppress(OSError):
            descriptor = os.open(left, os.O_RDWR | getattr(os, "O_NONBLOCK", 0))
            try:
                if try_lock(descriptor):
                    left.unlink(missing_ok=True)
            finally:
                os.close(descriptor)


def _name_unfinished(target: Path) -> tuple[str, str]:
    """Return prefix and suffix of temporary files beside a target; beside a temporary file they are the same."""
    stem = target.stem.removeprefix(".").partition(_UNFINISHED_FILE)[0]
    return f".{stem[:50]}{_UNFINISHED_FILE}", target.suffix


def _new_name() -> str:
    """Return eight random letters: the functions of `tempfile` make files that only their owner can read.

    To give them the usual permissions one must know the umask, which can be read only by changing it for all threads.
    """
    return os.urandom(4).hex()


def _new_folder(parent: Path, prefix: str) -> Path:
    """Make a folder with a new name that begins with a prefix."""
    while True:
        folder = parent / f"{prefix}{_new_name()}"
        with suppress(FileExistsError):
            folder.mkdir()
            return folder


def try_lock(descriptor: int) -> bool:
    """Lock an open file for this process alone until it is closed, even by a kill; always true without locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise
    return True


def sync_file(path: Path) -> None:
    """Wait until a file is on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


@contextmanager
def claimed(lock: Path) -> Iterator[None]:
    """Hold a lock file: its folder is in use by this process alone. The file is removed at the end."""
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        except OSError as error:
            raise DisolError(f"Cannot write {lock}: {error.strerror}. Choose another folder.") from error
        try:
            if not try_lock(descriptor):
                raise DisolError(
                    f"{lock.parent} is in use by another process. Wait until it has finished, or choose another path."
                )
            # Its last holder may have removed it after it was opened here: then it keeps nobody out.
            if os.path.exists(lock) and os.path.samestat(os.stat(lock), os.fstat(descriptor)):
                try:
                    yield
                finally:
                    lock.unlink(missing_ok=True)
                return
        finally:
            os.close(descriptor)


def write_together(
    folder: Path, contents: Mapping[str, bytes], dropped: Collection[str] = (), kept: Collection[str] = ()
) -> None:
    """Write files of a folder and remove the `dropped` ones, all at once. A folder has one writer at a time.

    kept   other files that change together with these; an earlier change of them may be unfinished
    """
    names = {*contents, *dropped, *kept}
    make_folder(folder)
    try:
        move_up(folder, names)
        for left in folder.glob(f"{UNFINISHED}*"):
            shutil.rmtree(left)
        unfinished = _new_folder(folder, UNFINISHED)
        for name, content in contents.items():
            write_durably(unfinished / name, content)
        sync_folder(unfinished)
        unfinished.rename(folder / INCOMING)
        sync_folder(folder)
        for name in dropped:
            (folder / name).unlink(missing_ok=True)
        move_up(folder, names)
    except OSError as error:
        raise DisolError(
            f"Cannot write to {folder}: {error.strerror or error}. Free some space or choose another folder."
        ) from error


def make_folder(folder: Path) -> None:
    """Make a folder, unless it is there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # a ValueError if the path holds a null byte
        reason = getattr(error, "strerror", None) or error
        raise DisolError(f"Cannot write to {folder}: {reason}. Choose another folder.") from error


def move_up(folder: Path, names: Collection[str]) -> None:
    """Finish a change: move new files into their places, if nothing but regular files of these names is there."""
    incoming = folder / INCOMING
    if not os.path.lexists(incoming):
        return
    require_folder(incoming)
    files = sorted(incoming.iterdir())
    for file in files:
        if file.name not in names or not stat.S_ISREG(file.lstat().st_mode):
            raise DisolError(f"{file} cannot have been left there by an interrupted change. Remove {incoming}.")
    for file in files:
        file.replace(folder / file.name)
    incoming.rmdir()


def read_current(folder: Path, name: str, most_bytes: int) -> bytes:
    """Read one file of a folder, the new one if a change has not been finished."""
    require_folder(folder / INCOMING)
    try:
        return read_regular(folder / INCOMING / name, most_bytes)
    except DisolError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
    return read_regular(folder / name, most_bytes)


def require_folder(path: Path) -> None:
    """Require a folder or nothing: through a link, files would be written outside of the folder that the link is in."""
    try:
        mode = path.lstat().st_mode  # once, since another process may remove the folder in between
    except (OSError, ValueError):  # a ValueError if the path holds a null byte
        return
    if not stat.S_ISDIR(mode):
        kind = "a link" if stat.S_ISLNK(mode) else "not one"
        raise DisolError(f"{path} must be a folder, but is {kind}. Remove it.")


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


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
