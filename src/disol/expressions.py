"""Functions of x and y written as formulas, which may come from strangers: only what is listed here is evaluated."""

import ast
import operator
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from disol.errors import DisolError
from disol.grid import Grid

Points = Float[np.ndarray, "..."]

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
    **{"min": (2, np.minimum), "max": (2, np.maximum), "where": (3, np.where)},
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
COMPARISONS: dict[type[ast.cmpop], Callable[..., Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
ALLOWED = f"numbers, x, y, {', '.join(CONSTANTS)}, + - * / **, < <= > >=, and {', '.join(FUNCTIONS)}"

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
    """A function f(x, y) of arrays; x runs to the right and y downwards, both from 0 to 1.

    A comparison is 1 where it holds and 0 elsewhere; `where(c, a, b)` is a where c is not 0, and b elsewhere.

    is_named   one of `NAMED_FIELDS`, which is defined in the unit square whatever coordinates a drawing has
    """

    text: str
    tree: ast.expr
    is_named: bool = False

    def __call__(self, x: Points, y: Points) -> Points:
        """Evaluate at arrays of points that broadcast against each other."""
        with np.errstate(all="ignore"):  # values that are not finite are reported by whoever uses them
            values = _evaluate(self.tree, {"x": np.asarray(x, float), "y": np.asarray(y, float)})
        return np.array(np.broadcast_to(values, np.broadcast_shapes(np.shape(x), np.shape(y))))

    def require_finite(self, domain: Bool[np.ndarray, "height width"]) -> None:
        """Raise an error that names a pixel of the domain where the value is not finite."""
        x, y = (np.broadcast_to(axis, domain.shape) for axis in Grid(*domain.shape).pixel_centres())
        wrong = domain & ~np.isfinite(self(x, y))
        if wrong.any():
            raise DisolError(
                f"The expression {self.text!r} is not finite at x = {x[wrong][0]:.3g}, y = {y[wrong][0]:.3g}, a point "
                "of the domain. Make it finite on the whole domain."
            )


def read_expression(text: str) -> Expression:
    """Read an expression in x and y, or the name of a field in `NAMED_FIELDS`."""
    written = NAMED_FIELDS.get(text.strip(), text).strip()
    if not written or len(written) > LONGEST:
        raise DisolError(
            f"An expression has 1 to {LONGEST} characters, got {len(written)}. Write a formula in x and y."
        )
    if written.isidentifier() and not iskeyword(written) and written not in ("x", "y", *CONSTANTS, *FUNCTIONS):
        raise DisolError(f"There is no field {written!r}. Use {', '.join(NAMED_FIELDS)}, or a formula in x and y.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # dubious syntax is refused below
            tree = ast.parse(written, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "it is nested too deeply"
        raise DisolError(f"Cannot read the expression {written!r}: {reason}. Use {ALLOWED}.") from None
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST + 2):  # names and operators have child nodes of their own
        level = [piece for node in level for piece in ast.iter_child_nodes(node)]
    if level:  # refused before anything that recurses, with one call per level, sees the tree
        raise DisolError(f"The expression {written!r} is nested more than {DEEPEST} deep. Write a simpler one.")
    _check(tree, written)
    return Expression(written, tree, text.strip() in NAMED_FIELDS)


def _check(node: ast.AST, text: str) -> None:
    """Require that a tree consists of allowed nodes only."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            if not abs(value) <= sys.float_info.max:
                raise DisolError(f"A number in the expression {text[:40]!r} is too large. Use numbers below 1e308.")
            pieces: list[ast.expr] = []
        case ast.Name(id=name) if name in ("x", "y", *CONSTANTS):
            pieces = []
        case ast.BinOp(left, kind, right) if type(kind) in OPERATORS:
            pieces = [left, right]
        case ast.UnaryOp(kind, operand) if type(kind) in OPERATORS:
            pieces = [operand]
        case ast.Compare(left, kinds, rights) if all(type(kind) in COMPARISONS for kind in kinds):
            pieces = [left, *rights]
        case ast.Call(ast.Name(id=name), pieces, []) if name in FUNCTIONS:
            wanted = FUNCTIONS[name][0]
            if len(pieces) != wanted:
                raise DisolError(f"{name} takes {wanted} values, got {len(pieces)} in {ast.unparse(node)!r}.")
        case ast.BinOp(op=ast.BitXor()):
            raise DisolError(f"{ast.unparse(node)!r} uses ^, which is not a power here. Write ** instead.")
        case ast.BoolOp() | ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
            raise DisolError(
                f"{ast.unparse(node)!r} joins conditions. Multiply them for both, as in (x > 0.2)*(y < 0.5), or take "
                "their maximum for either."
            )
        case _:
            raise DisolError(f"{ast.unparse(node)!r} is not allowed in the expression {text!r}. Use {ALLOWED}.")
    for piece in pieces:
        _check(piece, text)


def _evaluate(node: ast.expr, names: dict[str, Points]) -> Any:
    """Evaluate a checked tree, with NumPy floats throughout so that huge powers become infinite at once."""
    match node:
        case ast.Constant(value=value):
            return np.float64(value)  # type: ignore[arg-type]
        case ast.Name(id=name):
            return names[name] if name in names else np.float64(CONSTANTS[name])
        case ast.BinOp(left, kind, right):
            return OPERATORS[type(kind)](_evaluate(left, names), _evaluate(right, names))
        case ast.UnaryOp(kind, operand):
            return OPERATORS[type(kind)](_evaluate(operand, names))
        case ast.Compare(first, kinds, others):
            left, holds = _evaluate(first, names), np.True_
            for comparison, other in zip(kinds, others, strict=True):
                right = _evaluate(other, names)
                left, holds = right, np.logical_and(holds, COMPARISONS[type(comparison)](left, right))
            return holds.astype(float)
        case ast.Call(ast.Name(id=name), pieces):
            return FUNCTIONS[name][1](*(_evaluate(piece, names) for piece in pieces))
    raise TypeError(f"unchecked piece {ast.dump(node)}")  # `_check` lets no other kind through
