"""Coordinates of a drawing, and those of the grid that it is solved on.

The grid is one unit high, x to the right and y downwards. A drawing in millimetres, or one whose y points upwards, has
its own coordinates: X = X₀ + L x and Y = Y₀ ± L y. The user's points and formulas are in these.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Signature, signature
from typing import Any

import numpy as np
from jaxtyping import Float

from disol.errors import PlacedError

Points = Float[np.ndarray, "*point 2"]


@dataclass(frozen=True)
class Frame:
    """Where the grid lies in a drawing.

    origin    coordinates, in the drawing, of the top left corner of the grid
    length    L, the height of the grid in units of the drawing
    upwards   y of the drawing points upwards
    """

    origin: tuple[float, float] = (0.0, 0.0)
    length: float = 1.0
    upwards: bool = False

    @property
    def is_grid(self) -> bool:
        """Tell whether the coordinates are those of the grid itself."""
        return self == Frame()

    @property
    def is_fitted(self) -> bool:
        """Tell whether the drawing was moved or scaled to fit the grid."""
        return self.length != 1 or self.origin != (0.0, 1.0 if self.upwards else 0.0)

    def to_drawing(self, points: Points) -> Points:
        """Map points from grid coordinates to those of the drawing."""
        return points if self.is_grid else np.array(self.origin) + self._steps * points

    def to_grid(self, points: Points) -> Points:
        """Map points from the coordinates of the drawing to those of the grid."""
        return points if self.is_grid else (points - np.array(self.origin)) / self._steps

    @property
    def _steps(self) -> Float[np.ndarray, "2"]:
        return np.array([self.length, -self.length if self.upwards else self.length])

    @contextmanager
    def in_drawing(self) -> Iterator[None]:
        """Report the places of errors in coordinates of the drawing."""
        try:
            yield
        except PlacedError as error:
            x, y = self.to_drawing(np.array([error.x, error.y])).tolist()
            raise PlacedError(error.template, x, y) from None

    def on_grid(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Turn a function of x and y in the drawing, or of x, y and the normal, into one in grid coordinates."""
        if self.is_grid:
            return function
        return OnGrid(function, self)


@dataclass(frozen=True)
class OnGrid:
    """A function in drawing coordinates, called with grid points and normals. Unlike a closure it can be pickled."""

    function: Callable[..., Any]
    frame: Frame

    @property
    def __signature__(self) -> Signature:
        return signature(self.function)

    def __call__(self, x: Any, y: Any, *normal: Any) -> Any:
        """Evaluate at points of the grid."""
        (x0, y0), (across, down) = self.frame.origin, self.frame._steps
        return self.function(x0 + across * np.asarray(x), y0 + down * np.asarray(y), *normal)
