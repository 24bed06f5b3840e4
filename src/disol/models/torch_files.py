"""Reading what `torch.save` wrote: tensors, plain containers, numbers and texts. No code in such a file is run.

torch's own reader for weights calls a few functions with whatever arguments a file gives: `bytearray(10**10)` takes all
memory. Here a file is checked before anything is built from it, and the result is never larger than the file.
"""

import io
import math
import pickle
import pickletools
import sys
import zipfile
from typing import Any, NamedTuple

import torch
from torch import Tensor

from disol.errors import listed

# The opcodes that torch writes; any other is refused.
_STEPS = {
    *("PROTO", "STOP", "MARK", "GLOBAL", "REDUCE", "BUILD", "BINPERSID"),
    *("NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE"),
    *("EMPTY_DICT", "SETITEM", "SETITEMS", "EMPTY_LIST", "APPEND", "APPENDS"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"),
}
_STORAGES = {
    "Float": torch.float32,
    "Double": torch.float64,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Long": torch.int64,
    "Int": torch.int32,
    "Short": torch.int16,
    "Char": torch.int8,
    "Byte": torch.uint8,
    "Bool": torch.bool,
    "ComplexFloat": torch.complex64,
    "ComplexDouble": torch.complex128,
}
_MOST_VALUES = 2**18  # in all containers; repeated ones count every time
_DEEPEST = 50  # levels of nested containers


class _Storage(NamedTuple):
    """Numbers of one kind in a record of the archive."""

    dtype: torch.dtype
    record: str
    length: int


class _View(NamedTuple):
    """A tensor, as a view of a storage."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


class _Dictionary(dict[Any, Any]):
    """Replacement of an `OrderedDict`, without torch's notes about the versions of layers."""

    def __setstate__(self, state: object) -> None:
        """Drop the notes."""


# The names that a file may use, and their replacements. Numbers of the newest dtypes are in storages of bytes.
_KNOWN: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): _Dictionary,
    ("torch", "Size"): tuple,
    ("torch._utils", "_rebuild_tensor_v2"): lambda *saved: _View._make([*saved[:4], saved[0].dtype]),
    ("torch._utils", "_rebuild_tensor_v3"): lambda *saved: _View._make([*saved[:4], saved[6]]),
    ("torch._utils", "_rebuild_parameter"): lambda *saved: saved[0],
    ("torch.storage", "UntypedStorage"): torch.uint8,
    **{("torch", f"{name}Storage"): dtype for name, dtype in _STORAGES.items()},
    **{("torch", name): dtype for name, dtype in vars(torch).items() if isinstance(dtype, torch.dtype)},
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return the replacement of a name, if it is among the few that are known."""
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"{module}.{name} is no tensor")
        return _KNOWN[module, name]

    def persistent_load(self, saved: Any) -> _Storage:
        """Return where the numbers of a tensor are."""
        _, dtype, record, _, length = saved
        return _Storage(dtype, f"data/{record}", length)


def read_torch_file(content: bytes) -> Any:
    """Return what a file of `torch.save` holds, tensors on the CPU; an `UnpicklingError` says why it cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _Reader(archive, len(content)).read()
    except Exception as error:  # damaged archives and pickles raise errors of many kinds
        raise pickle.UnpicklingError(listed([str(error).partition("\n")[0] or type(error).__name__])) from error


class _Reader:
    """An archive of torch, and what has been read from it."""

    def __init__(self, archive: zipfile.ZipFile, num_bytes: int) -> None:
        records = archive.infolist()
        is_packed = any(record.compress_type != zipfile.ZIP_STORED for record in records)
        if is_packed or sum(record.file_size for record in records) > num_bytes:
            raise zipfile.BadZipFile("its records are larger than the file")
        (pickled,) = [record.filename for record in records if record.filename.endswith("/data.pkl")]
        self.archive = archive
        self.root = pickled.removesuffix("data.pkl")
        self.storages: dict[_Storage, Tensor] = {}
        self.num_values = 0

    def read(self) -> Any:
        """Check the pickle, then make what it describes."""
        names = set(self.archive.namelist())
        if f"{self.root}byteorder" in names and self._record("byteorder").decode() != sys.byteorder:
            raise pickle.UnpicklingError("it was written in another byte order")
        pickled = self._record("data.pkl")
        for step, argument, _ in pickletools.genops(pickled):
            # Python's memo table is as long as the largest index into it.
            if step.name not in _STEPS or (step.name == "LONG_BINPUT" and int(argument or 0) > len(pickled)):
                raise pickle.UnpicklingError(f"torch writes no such {step.name}")
        return self._make(_Unpickler(io.BytesIO(pickled)).load(), depth=0)

    def _record(self, name: str) -> bytes:
        return self.archive.read(self.root + name)

    def _make(self, value: Any, depth: int) -> Any:
        """Copy containers, with views replaced by tensors."""
        self.num_values += 1
        if self.num_values > _MOST_VALUES or depth > _DEEPEST:
            raise pickle.UnpicklingError("it holds too many values")
        if isinstance(value, _View):
            return self._tensor(value)
        if isinstance(value, dict):
            return {self._make(key, depth + 1): self._make(item, depth + 1) for key, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)(self._make(item, depth + 1) for item in value)
        if value is None or type(value) in (bool, int, float, str):
            return value
        raise pickle.UnpicklingError(f"a {type(value).__name__} is no tensor, number or text")

    def _tensor(self, view: _View) -> Tensor:
        """Make the tensor of a view, which may share its numbers with others but must not repeat them."""
        storage = view.storage
        if storage not in self.storages:
            record = bytearray(self._record(storage.record))
            if storage.length * storage.dtype.itemsize != len(record):
                raise pickle.UnpicklingError(f"{storage.record} does not have the size of its tensors")
            empty = torch.empty(0, dtype=storage.dtype)
            self.storages[storage] = torch.frombuffer(record, dtype=storage.dtype) if record else empty
        numbers = self.storages[storage].view(view.dtype)
        if math.prod(view.size) > len(numbers):
            raise pickle.UnpicklingError("a tensor repeats its numbers")
        return numbers.as_strided(view.size, view.stride, view.offset)
