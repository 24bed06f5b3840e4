"""Functions of x and y written as text, such as `sin(6*x)*y`: parsed into a tree of known pieces, never executed."""

import ast
import operator
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from disol.grid import Grid

Array = Float[np.ndarray, "..."]

LONGEST = 500  # characters
DEEPEST = 100  # nested pieces; each further term of a sum is one

CONSTANTS = {"pi": np.pi, "e": np.e}
FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    **{
        name: (1, getattr(np, name))
        for name in ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh")
    },
    **{name: (1, getattr(np, name)) for name in ("exp", "log", "sqrt", "abs", "sign", "floor")},
    **{name: (2, getattr(np, name)) for name in ("minimum", "maximum", "hypot", "arctan2")},
}
OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
ALLOWED = f"numbers, x, y, {', '.join(CONSTANTS)}, + - * / **, and {', '.join(FUNCTIONS)}"

# Fields that have a name. `wave` is of the kind that models are trained on.
NAMED_FIELDS = {
    "zero": "0",
    "constant": "1",
    "ramp": "x",
    "wave": "0.5 + 0.5*sin(2*pi*(0.7*x + 0.4*y))",
    "ripples": "0.5 + 0.5*sin(2*pi*(3*x + 1.5*y))*cos(2*pi*2.5*y)",
    "gaussian": "exp(-12*((x - 0.5)**2 + (y - 0.5)**2))",
    "spots": "exp(-80*((x - 0.3)**2 + (y - 0.4)**2)) + exp(-80*((x - 0.7)**2 + (y - 0.6)**2))",
}


@dataclass(frozen=True)
class Expression:
    """A function f(x, y) of arrays; x runs to the right and y downwards, both from 0 to 1."""

    text: str
    tree: ast.expr

    def __call__(self, x: Array, y: Array) -> Array:
        """Evaluate at arrays of points that broadcast against each other."""
        with np.errstate(all="ignore"):  # values that are not finite are reported by whoever uses them
            values = evaluate(self.tree, {"x": np.asarray(x, float), "y": np.asarray(y, float)})
        return np.array(np.broadcast_to(values, np.broadcast_shapes(np.shape(x), np.shape(y))))

    def require_finite(self, domain: Bool[np.ndarray, "height width"]) -> None:
        """Raise an error that names a pixel of the domain where the value is not finite."""
        x, y = (np.broadcast_to(axis, domain.shape) for axis in Grid(*domain.shape).pixel_centres())
        wrong = domain & ~np.isfinite(self(x, y))
        if wrong.any():
            raise ValueError(
                f"The expression {self.text!r} is not finite at x = {x[wrong][0]:.3g}, y = {y[wrong][0]:.3g}, a point "
                "of the domain. Change it so that it is finite on the whole domain."
            )


def read_expression(text: str) -> Expression:
    """Read an expression in x and y, or the name of a field in `NAMED_FIELDS`."""
    written = NAMED_FIELDS.get(text.strip(), text).strip()
    if not written or len(written) > LONGEST:
        raise ValueError(
            f"An expression has 1 to {LONGEST} characters, got {len(written)}. Write a formula in x and y."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # a doubtful piece is refused below
            tree = ast.parse(written, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "it is nested too deeply"
        raise ValueError(f"Cannot read the expression {written!r}: {reason}. Use {ALLOWED}.") from None
    check(tree, written)
    return Expression(written, tree)


def check(node: ast.AST, text: str, depth: int = 0) -> None:
    """Require that a tree is made of allowed pieces only."""
    if depth > DEEPEST:
        raise ValueError(f"The expression {text!r} is nested more than {DEEPEST} deep. Write a simpler one.")
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            require_float(value, text)
            pieces: list[ast.expr] = []
        case ast.Name(id=name) if name in ("x", "y", *CONSTANTS):
            pieces = []
        case ast.BinOp(left, kind, right) if type(kind) in OPERATORS:
            pieces = [left, right]
        case ast.UnaryOp(kind, operand) if type(kind) in OPERATORS:
            pieces = [operand]
        case ast.Call(ast.Name(id=name), pieces, []) if name in FUNCTIONS:
            wanted = FUNCTIONS[name][0]
            if len(pieces) != wanted:
                raise ValueError(
                    f"{name} takes {wanted} values, got {len(pieces)} in {ast.unparse(node)!r}. Change it."
                )
        case ast.BinOp(op=ast.BitXor()):
            raise ValueError(f"{ast.unparse(node)!r} uses ^, which is not a power here. Write ** instead.")
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is not allowed in the expression {text!r}. Use {ALLOWED}.")
    for piece in pieces:
        check(piece, text, depth + 1)


def require_float(value: int | float, text: str) -> None:
    """Require that a written number has a size that floats can hold."""
    if not abs(value) <= sys.float_info.max:
        raise ValueError(f"A number in the expression {text[:40]!r} is too large. Use numbers below 1e308.")


def evaluate(node: ast.expr, names: dict[str, Array]) -> Any:
    """Return the value of a checked tree; NumPy floats throughout, so that huge powers become infinite at once."""
    match node:
        case ast.Constant(value=value):
            return np.float64(value)  # type: ignore[arg-type]
        case ast.Name(id=name):
            return names[name] if name in names else np.float64(CONSTANTS[name])
        case ast.BinOp(left, kind, right):
            return OPERATORS[type(kind)](evaluate(left, names), evaluate(right, names))
        case ast.UnaryOp(kind, operand):
            return OPERATORS[type(kind)](evaluate(operand, names))
        case ast.Call(ast.Name(id=name), pieces):
            return FUNCTIONS[name][1](*(evaluate(piece, names) for piece in pieces))
    raise TypeError(f"unchecked piece {ast.dump(node)}")  # `check` lets no other kind through
