"""The structure of an HDF5 file as `layout` writes it.

It is read without the HDF5 library, which hangs or crashes on damaged files, and written into memory, because the
library crashes on a full disk, too.

The reader understands what the library writes for libver="earliest" (HDF5 File Format Specification, version 3.0):
groups of hard links, contiguous datasets, and attributes that are whole numbers, truth values or texts. It refuses all
else: links to elsewhere, filters, virtual datasets. It counts the bytes it reads, so that neither loops nor false sizes
can exhaust time or memory.
"""

import io
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from disol.errors import DisolError

Value = Any  # int, bool, str or a tuple of str
Messages = list[tuple[int, bytes]]

_MOST_BYTES = 2**20  # of structure; that of a file of cases takes some 20 kB
_LONGEST_NAME = 256
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_DATASPACE, _DATATYPE, _LAYOUT, _ATTRIBUTE, _CONTINUATION, _SYMBOL_TABLE = 0x01, 0x03, 0x08, 0x0C, 0x10, 0x11
_SKIPPED = (0x00, 0x04, 0x05, 0x0E, 0x12)  # padding, fill values, modification times
_UNKNOWN = {0x02: "links of another kind", 0x07: "data in other files", 0x0B: "filters, as for compression"}
_TEXT, _TRUTH = "text", "truth"
_TYPES = {
    bytes.fromhex("10000000 01000000 00000800"): "|u1",
    bytes.fromhex("10000000 04000000 00002000"): "<u4",
    bytes.fromhex("10000000 08000000 00004000"): "<u8",
    bytes.fromhex("10080000 08000000 00004000"): "<i8",
    bytes.fromhex("11201f00 04000000 00002000 17080017 7f000000"): "<f4",
    bytes.fromhex("11203f00 08000000 00004000 340b0034 ff030000"): "<f8",
    bytes.fromhex("19010100 10000000 10000000 01000000 00000800"): _TEXT,  # UTF-8, kept in a global heap
    bytes.fromhex("18020000 01000000 10080000 01000000 00000800") + b"FALSE\0\0\0TRUE\0\0\0\0\0\1": _TRUTH,
}


class Draft(io.RawIOBase):
    """A file in memory for the HDF5 library to write, without the gaps that it leaves: no disk can refuse it."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[tuple[int, bytes]] = []
        self.size = self._place = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place counted from the beginning, or to the end."""
        self._place = offset + (self.size if whence == os.SEEK_END else 0)
        return self._place

    def tell(self) -> int:
        """Return the place."""
        return self._place

    def write(self, content: Any) -> int:
        """Write bytes at the place."""
        self.pieces.append((self._place, bytes(content)))
        self._place += len(content)
        self.size = max(self.size, self._place)
        return len(content)

    def readinto(self, buffer: Any) -> int:
        """Read bytes as they were last written."""
        for start, piece in self.pieces:
            first, last = max(start, self._place), min(start + len(piece), self._place + len(buffer))
            if first < last:
                buffer[first - self._place : last - self._place] = piece[first - start : last - start]
        return len(buffer)

    def truncate(self, size: int | None = None) -> int:
        """Set where the file ends."""
        self.size = self._place if size is None else size
        return self.size


@dataclass(frozen=True)
class Dataset:
    """An array that is contiguous in the file.

    dtype    as NumPy writes it
    offset   place of its first byte in the file
    """

    dtype: str
    shape: tuple[int, ...]
    offset: int
    attributes: dict[str, Value]


def read_structure(path: Path, content: memoryview) -> tuple[dict[str, Value], dict[str, Dataset]]:
    """Return the attributes of a file and its datasets, by name: those of a group as GROUP/NAME."""
    if content[: len(_SIGNATURE)] != _SIGNATURE:
        raise DisolError(f"{path} is not an HDF5 file. Pass a file made by generate.")
    try:
        return _Reader(content).read()
    except (_DamageError, struct.error, UnicodeDecodeError) as error:
        reason = error if isinstance(error, _DamageError) else "its structure is broken"
        raise DisolError(
            f"{path} is truncated or damaged, or was not written by generate: {reason}. Copy it again from its source, "
            "or generate it anew."
        ) from error


class _DamageError(Exception):
    """What is wrong with a file."""


class _Reader:
    """Reads the structure of a file from its superblock on; names in docstrings are those of the specification."""

    def __init__(self, content: memoryview) -> None:
        self.content, self.left = content, _MOST_BYTES
        self.heaps: dict[int, dict[int, bytes]] = {}

    def read(self) -> tuple[dict[str, Value], dict[str, Dataset]]:
        versions, base, end, root = struct.unpack("<8s8xQ8xQ16xQ", self.at(8, 64))
        if versions != bytes([0, 0, 0, 0, 0, 8, 8, 0]) or base:
            raise _DamageError("it is of another version of HDF5")
        if end > len(self.content):
            raise _DamageError(f"it has {len(self.content):,} of {end:,} bytes")
        messages = self.read_messages(root)
        datasets, groups = {}, [("", messages)]
        for prefix, group in groups:
            for name, address in self.read_links(group):
                content = self.read_messages(address)
                if _SYMBOL_TABLE not in dict(content):
                    datasets[prefix + name] = self.read_dataset(prefix + name, content)
                elif prefix.count("/") < 2:
                    groups.append((f"{prefix}{name}/", content))
                else:
                    raise _DamageError("it has groups in groups in groups")
        return self.read_attributes(messages), datasets

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise _DamageError(f"its structure takes more than {_MOST_BYTES:,} bytes")

    def at(self, offset: int, size: int) -> bytes:
        self.spend(size + 1)
        if offset + size > len(self.content):
            raise _DamageError("a part of its structure is missing")
        return bytes(self.content[offset : offset + size])

    def read_messages(self, address: int) -> Messages:
        """Read an object header: the messages that make up a group or a dataset."""
        version, size = struct.unpack("<B7xI4x", self.at(address, 16))
        if version != 1:
            raise _DamageError("an object is missing")
        messages, blocks = [], [(address + 16, size)]
        for start, length in blocks:
            block, place = self.at(start, length), 0
            while place < length:
                kind, size, flags = struct.unpack_from("<HHB3x", block, place)
                body = block[place + 8 : place + 8 + size]
                place += 8 + size
                if kind == _CONTINUATION:
                    blocks.append(struct.unpack("<QQ", body))
                elif kind in (_DATASPACE, _DATATYPE, _LAYOUT, _ATTRIBUTE, _SYMBOL_TABLE) and not flags & 2:
                    messages.append((kind, body))
                elif kind not in _SKIPPED:
                    raise _DamageError(f"it has {_UNKNOWN.get(kind, f'messages of type {kind:#04x}')}")
        return messages

    def read_links(self, group: Messages) -> Iterator[tuple[str, int]]:
        """Yield names and addresses of the members of a group: B-tree, symbol table nodes, names in a local heap."""
        tree, heap = struct.unpack("<QQ", dict(group).get(_SYMBOL_TABLE, b""))
        signature, size, start = struct.unpack("<8sQ8xQ", self.at(heap, 32))
        if signature != b"HEAP\0\0\0\0":
            raise _DamageError("the names of a group are missing")
        names, trees = self.at(start, size), [tree]
        for address in trees:
            signature, level, count = struct.unpack("<5sBH", self.at(address, 8))
            if signature != b"TREE\0":
                raise _DamageError("the list of a group is missing")
            children = [child for _, child in struct.iter_unpack("<QQ", self.at(address + 24, 16 * count))]
            trees += children if level else []
            for child in [] if level else children:
                signature, count = struct.unpack("<6sH", self.at(child, 8))
                if signature != b"SNOD\1\0":
                    raise _DamageError("a part of a group is missing")
                for place, target, cached in struct.iter_unpack("<QQI20x", self.at(child + 8, 40 * count)):
                    name = names[place : place + _LONGEST_NAME].partition(b"\0")[0].decode()
                    if cached > 1:
                        raise _DamageError(f"{name!r} is a link to elsewhere")
                    yield name, target

    def read_dataset(self, name: str, messages: Messages) -> Dataset:
        parts = dict(messages)
        if not parts.keys() >= {_DATASPACE, _DATATYPE, _LAYOUT}:
            raise _DamageError(f"{name!r} is neither a dataset nor a group")
        version, kind, offset = struct.unpack_from("<BBQ", parts[_LAYOUT])
        if (version, kind) != (3, 1):
            raise _DamageError(f"{name!r} is in pieces, compressed or elsewhere")
        shape = _read_shape(parts[_DATASPACE])
        return Dataset(_read_type(name, parts[_DATATYPE]), shape, offset, self.read_attributes(messages))

    def read_attributes(self, messages: Messages) -> dict[str, Value]:
        attributes: dict[str, Value] = {}
        for body in (body for kind, body in messages if kind == _ATTRIBUTE):
            version, *sizes = struct.unpack_from("<HHHH", body)
            if version != 1:
                raise _DamageError("an attribute is of another version of HDF5")
            parts, place = [], 8
            for size in sizes:  # of its name, its datatype and its dataspace, each padded
                parts.append(body[place : place + size])
                place += -(-size // 8) * 8
            name, shape, content = parts[0].removesuffix(b"\0").decode(), _read_shape(parts[2]), body[place:]
            dtype = _read_type(name, parts[1])
            if dtype == _TEXT and len(shape) < 2:
                count = prod(shape)
                texts = tuple(self.read_text(*fields) for fields in struct.iter_unpack("<IQI", content[: 16 * count]))
                if len(texts) != count:
                    raise _DamageError(f"the attribute {name!r} is too short")
                attributes[name] = texts if shape else texts[0]
            elif dtype in (_TRUTH, "<i8", "<u8") and not shape:
                (number,) = struct.unpack_from({_TRUTH: "<?", "<i8": "<q", "<u8": "<Q"}[dtype], content)
                attributes[name] = number
            else:
                raise _DamageError(f"the attribute {name!r} is no whole number, truth value or text")
        return attributes

    def read_text(self, length: int, address: int, number: int) -> str:
        """Read a text by its number in a global heap."""
        if length == 0:
            return ""
        self.spend(length)
        if address not in self.heaps:
            signature, size = struct.unpack("<8sQ", self.at(address, 16))
            if signature != b"GCOL\1\0\0\0":
                raise _DamageError("texts are missing")
            heap, place, texts = self.at(address, size), 16, self.heaps.setdefault(address, {})
            while place + 16 <= size:
                index, stored = struct.unpack_from("<H6xQ", heap, place)
                if index == 0:  # the rest is free
                    break
                texts[index] = heap[place + 16 : place + 16 + stored]
                place += 16 + -(-stored // 8) * 8
        text = self.heaps[address].get(number, b"")
        if len(text) != length:
            raise _DamageError("a text is missing")
        return text.decode()


def _read_type(name: str, content: bytes) -> str:
    for written, dtype in _TYPES.items():
        if content.startswith(written):
            return dtype
    raise _DamageError(f"{name!r} is of another type")


def _read_shape(content: bytes) -> tuple[int, ...]:
    version, axes = struct.unpack_from("<BB", content)
    if version != 1:
        raise _DamageError("an array has no shape")
    return struct.unpack_from(f"<8x{axes}Q", content)
