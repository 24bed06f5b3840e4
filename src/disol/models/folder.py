"""Files of a folder that change together: after a crash at any moment all are old or all are new.

New files are written into a hidden folder, which gets the name `incoming` once it is complete. That one step is the
change; the files move up into their places afterwards, and as long as `incoming` exists it is read first.
"""

import os
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from disol.files import current_umask, sync_folder

INCOMING = "incoming"
UNFINISHED = ".unfinished-"


def write_together(folder: Path, contents: Mapping[str, bytes], dropped: Collection[str] = ()) -> None:
    """Write files of a folder and remove the `dropped` ones, all at once. A folder has one writer at a time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        move_up(folder)
        for left in folder.glob(f"{UNFINISHED}*"):
            shutil.rmtree(left)
        unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder))
        unfinished.chmod(0o777 & ~current_umask())  # mkdtemp makes folders that only their owner can read
        for name, content in contents.items():
            write_durably(unfinished / name, content)
        sync_folder(unfinished)
        unfinished.rename(folder / INCOMING)
        sync_folder(folder)
        for name in dropped:
            (folder / name).unlink(missing_ok=True)
        move_up(folder)
    except OSError as error:
        raise ValueError(
            f"Cannot write to {folder}: {error.strerror or error}. Free some space or choose another folder."
        ) from error


def move_up(folder: Path) -> None:
    """Finish a change: move new files into their places."""
    incoming = folder / INCOMING
    if incoming.is_dir():
        for file in sorted(incoming.iterdir()):
            file.replace(folder / file.name)
        incoming.rmdir()


def read_current(folder: Path, name: str) -> bytes:
    """Read one file of a folder, the new one if a change has not been finished."""
    try:
        return (folder / INCOMING / name).read_bytes()
    except FileNotFoundError:
        return (folder / name).read_bytes()


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
