"""Writing files whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path`, and move it there once the block has ended without an error."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent)
    except OSError as error:
        raise ValueError(f"Cannot write {target}: {error.strerror}. Choose another --out.") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~current_umask())  # mkstemp makes files that only their owner can read
        temporary.replace(target)
    except OSError as error:
        raise ValueError(
            f"Cannot write {target}: {error.strerror}. Free some space or choose another --out."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def current_umask() -> int:
    """Return the permissions that new files are not given."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
