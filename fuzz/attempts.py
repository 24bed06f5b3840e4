"""What a generator makes, and what generators are made of: hostile values, mutated bytes, files on disk."""

import os
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

Value = TypeVar("Value")


class WrongAnswer(Exception):  # noqa: N818  a verdict, not an error of this program
    """What was returned is not what an oracle, a relation or a promise says."""


@dataclass(frozen=True)
class Attempt:
    """One input: what is called, in words, and the call, which may raise `WrongAnswer`."""

    text: str
    run: Callable[[], object]


# From (random numbers, an empty folder) to an attempt; the same numbers make the same attempt.
Generator = Callable[[np.random.Generator, Path], Attempt]


def pick(rng: np.random.Generator, choices: Sequence[Value]) -> Value:
    """Choose one of several."""
    return choices[int(rng.integers(len(choices)))]


def chance(rng: np.random.Generator, share: float) -> bool:
    """Decide something that happens in a share of the cases."""
    return bool(rng.random() < share)


def magnitude(rng: np.random.Generator, ordinary: float = 0.7) -> float:
    """Draw a positive factor: 1 mostly, else of any size that a double has."""
    if chance(rng, ordinary):
        return 1.0
    return float(10.0 ** rng.uniform(-9, 9) if chance(rng, 0.5) else 10.0 ** rng.uniform(-320, 308))


def short(value: object, most: int = 120) -> str:
    """Describe a value in few characters."""
    if isinstance(value, np.ndarray):
        said = f"array({value.dtype}, {value.shape})"
    elif isinstance(value, dict):
        said = ", ".join(f"{name}={short(own, 40)}" for name, own in value.items())
    elif callable(value) and hasattr(value, "__name__"):  # whose own text tells where in memory it is
        said = f"{type(value).__name__} {value.__name__}"
    else:
        try:
            said = f"{type(value).__name__} {value!r}" if not isinstance(value, str | int | float) else repr(value)
        except Exception:  # integers that are too long to print, among others
            said = type(value).__name__
    return said if len(said) <= most else f"{said[: most - 12]}... ({len(said)})"


class Odd:
    """An object of no known kind."""

    def __repr__(self) -> str:
        return "Odd()"

    def __len__(self) -> int:
        return 2

    def __getitem__(self, key: object) -> object:
        raise KeyError(key)


def hostile_text(rng: np.random.Generator) -> str:
    """Draw a text that nobody expects."""
    kind = rng.integers(9)
    if kind == 0:
        return ""
    if kind == 1:
        return pick(rng, string.ascii_lowercase) * int(10 ** rng.uniform(2, 5))
    if kind == 2:
        return "".join(pick(rng, string.printable) for _ in range(rng.integers(1, 40)))
    if kind == 3:
        return "".join(chr(int(code)) for code in rng.integers(1, 0x2FFF, size=rng.integers(1, 20)))
    if kind == 4:
        return pick(rng, ["../../etc/passwd", "/dev/zero", "/dev/null", "/", ".", "..", "~", "a/b\0c", "\udc80"])
    if kind == 5:
        return pick(
            rng, ["nan", "inf", "-inf", "1e999", "-0", "0x10", "1_000", "None", "True", "{}", "[]", "%s", "{0}"]
        )
    if kind == 6:
        return "9" * int(10 ** rng.uniform(1, 4.7))
    if kind == 7:
        return pick(rng, ["[red]", "[/]", "[link=x]", "\x1b[31m", "\r\n", "a\nb", "\t", "\u202e"]) + "text"
    return pick(rng, ["poisson", "heat", "elasticity", "paper", "published", "q1", "cpu", "star+hole", "all", "broad"])


def hostile_number(rng: np.random.Generator) -> Any:
    """Draw a number that is seldom right."""
    return pick(
        rng,
        [
            *(0, -1, 1, 2, 3, 7, 15, 16, 17, 10**6, 2**31, 2**63, -(2**63), 10**20, 10**400, 9 * 10**4400),
            *(0.0, -0.0, 0.5, 1.5, 1e-320, 1e-12, 1e15, 1e308, -1e308, float("nan"), float("inf"), -float("inf")),
            *(True, False, 1j, np.float32(1e30), np.float16(0.1), np.longdouble("1e4000"), np.int8(-3), np.bool_(True)),
            *(np.array(3), np.array([2.0]), np.uint64(2**64 - 1), np.datetime64("2020-01-01"), np.float64("nan")),
        ],
    )


def hostile_array(rng: np.random.Generator, shape: tuple[int, ...] | None = None) -> Any:
    """Draw an array, or what looks like one, that is seldom right."""
    if shape is None:
        sizes = [int(rng.integers(0, 9)) for _ in range(rng.integers(0, 5))]
        shape = tuple(sizes)
    kind = pick(rng, ["?", "i1", "u1", "i8", "u8", "f2", "f4", "f8", "g", ">f8", "c16", "U3", "S2", "O", "M8[s]", "V8"])
    plain = rng.integers(-1, 3, size=shape)
    if kind == "O":
        array: Any = plain.astype(object)
    elif kind in ("M8[s]", "V8"):
        array = plain.astype("i8").view(kind) if plain.ndim else np.zeros(shape, kind)
    else:
        array = plain.astype(kind)
    if array.dtype.kind == "f" and array.size and chance(rng, 0.5):
        array.reshape(-1)[rng.integers(array.size)] = pick(rng, [np.nan, np.inf, -np.inf, 0.5, 1e30, 1e-30])
    way = rng.integers(9)
    if way == 0:
        return array.tolist()
    if way == 1:
        return np.ma.masked_array(array, rng.random(shape) < 0.3)
    if way == 2:
        return np.asfortranarray(array)
    if way == 3 and array.ndim:
        return array[::-1]
    if way == 4:
        array.flags.writeable = False
    if way == 5 and array.dtype.kind in "iuf?" and array.dtype.isnative and array.dtype.itemsize <= 8:
        import torch

        if array.dtype not in (np.uint64,):
            tensor = torch.as_tensor(array)
            return tensor.requires_grad_() if tensor.is_floating_point() and chance(rng, 0.2) else tensor
    if way == 6:
        return [array.tolist(), [1, [2]]]
    return array


def anything(rng: np.random.Generator) -> Any:
    """Draw a value of any kind."""
    kind = rng.integers(8)
    if kind < 2:
        return hostile_number(rng)
    if kind < 4:
        return hostile_array(rng)
    if kind == 4:
        return hostile_text(rng)
    if kind == 5:
        return [hostile_number(rng) for _ in range(rng.integers(0, 4))]
    if kind == 6:
        return {hostile_text(rng)[:20]: hostile_number(rng) for _ in range(rng.integers(0, 3))}
    return pick(rng, [None, Odd(), b"bytes", {1, 2}, range(3), print, len, Ellipsis, object, iter([1.0]), Path("x")])


def mutated(rng: np.random.Generator, content: bytes) -> bytes:
    """Damage a few places of a file."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        if not data:
            break
        place, size = int(rng.integers(len(data))), int(2 ** rng.uniform(0, 8))
        kind = rng.integers(8)
        if kind <= 2:
            data[place] ^= 1 << int(rng.integers(8))
        elif kind == 3:
            data[place : place + 8] = pick(
                rng, [b"\xff" * 8, b"\x00" * 8, b"\x7f" + b"\xff" * 7, b"\x80" + b"\x00" * 7]
            )
        elif kind == 4:
            data[place : place + size] = rng.bytes(min(size, len(data) - place))
        elif kind == 5:
            del data[place : place + size]
        elif kind == 6:
            data[place:place] = data[place : place + size] or b"\0"
        else:
            del data[place:]
    return bytes(data)


def odd_file(rng: np.random.Generator, path: Path, content: bytes, elsewhere: Path) -> str:
    """Put something in the place of a file that is no plain file with its content; say what."""
    kind = pick(
        rng, ["nothing", "folder", "fifo", "link to itself", "/dev/zero", "/dev/null", "link", "empty", "device"]
    )
    if path.is_dir() and not path.is_symlink():
        return "a folder as it was"
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link to itself":
        path.symlink_to(path)
    elif kind in ("/dev/zero", "/dev/null"):
        path.symlink_to(kind)
    elif kind == "device":
        path.symlink_to(pick(rng, ["/dev/random", "/dev/tty", "/proc/self/mem", "/proc/self/environ", "/dev/stdin"]))
    elif kind == "link":
        target = elsewhere / path.name
        target.write_bytes(content)
        path.symlink_to(target)
    elif kind == "empty":
        path.touch()
    return kind
