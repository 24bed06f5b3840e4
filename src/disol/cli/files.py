"""Where `disol solve` writes: folders and files, checked before anything is solved."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from disol.cli.report import FILES, PREVIEW_FILE, STRESS_FILE, TRUE_FILES
from disol.errors import DisolError

if TYPE_CHECKING:
    from disol.cases import Case

DEFAULT_FOLDER = Path("solution")
WRITTEN = (*FILES, *TRUE_FILES, STRESS_FILE, PREVIEW_FILE)
SAVED = (".vtu", ".pvd", ".npz", ".png")  # endings of --save


def check_files(animation: Path | None, save: list[Path], overwrite: bool) -> None:
    """Require files of known formats that do not exist yet."""
    if animation is not None and animation.suffix.lower() != ".gif":
        raise DisolError(f"--animate must end in .gif, got {str(animation)!r}.")
    for path in save:
        if path.suffix.lower() not in SAVED:
            raise DisolError(f"--save must end in {', '.join(SAVED)}, got {str(path)!r}.")
    for option, file in (("--animate", animation), *(("--save", path) for path in save)):
        if file is not None and file.exists() and not overwrite:
            raise DisolError(f"{file} exists already. Choose another {option}, or give --overwrite.")


def check_targets(save: list[Path], case: "Case", folder: Path) -> None:
    """Require files that the solution of a case can be saved to, before it is solved."""
    from disol.solutions.saving import check_target, folder_of_series

    for path in save:
        check_target(path, case)
        if path.suffix.lower() == ".pvd" and folder_of_series(path).resolve() == folder.resolve():
            raise DisolError(f"The files of {path} go into {folder}, which is --out. Choose another --save.")


def require_writable(folder: Path) -> None:
    """Require a folder that exists or can be made, before anything is solved."""
    nearest = next(each for each in (folder, *folder.absolute().parents) if os.path.exists(each))
    if not nearest.is_dir():
        raise DisolError(f"{nearest} is a file, not a folder. Choose another --out.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise DisolError(f"Cannot write into {nearest}. Choose another --out, or ask for permission to write there.")


def choose_folder(out: Path | None, overwrite: bool) -> Path:
    """Return a folder that holds no solution yet: the one asked for, or the first of solution, solution-2, ..."""
    if out is None:
        number = 1
        while (folder := DEFAULT_FOLDER if number == 1 else Path(f"{DEFAULT_FOLDER}-{number}")).exists():
            number += 1
        require_writable(folder)
        return folder
    require_writable(out)
    if not overwrite and any((out / name).exists() for name in WRITTEN):
        raise DisolError(f"{out} holds a solution already. Choose another --out, or give --overwrite.")
    return out


@contextmanager
def taken(folder: Path, is_new: bool) -> Iterator[Path]:
    """Make a new folder, or the next one if another command has made it meanwhile; remove it if nothing is in it."""
    while is_new:
        try:
            folder.mkdir()
            break
        except FileExistsError:
            folder = choose_folder(None, overwrite=False)
    try:
        yield folder
    finally:
        with suppress(OSError):  # it holds a solution
            if is_new:
                folder.rmdir()
