"""The solution of a case, exact or predicted, and everything that can be computed from it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from disol._arrays import Array, is_tensor, to_numpy
from disol.cases.case import Case
from disol.errors import DisolError
from disol.fem.cut_system import CutSolution
from disol.fem.pixel_field import PixelField
from disol.grid import node_means
from disol.problems.normalisation import Normalisation
from disol.problems.problem import Problem
from disol.solutions import quantities
from disol.solutions.boundary_values import BoundaryValues, recover

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Total(NamedTuple):
    """A total flux or force: its source, where it acts, and its value, a number or a force [2], with times for each."""

    what: str
    where: str
    value: float | Float[np.ndarray, "..."]


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """The solution of one case, or of a batch.

    The arrays of a batch start with a batch axis; those of a transient problem have a time axis before the fields.

    field            physical values per pixel, the mean of the pixel's four nodes; 0 outside the domain
    amplitude        max |U| (one per component if the conventions scale components separately); for a transient problem
                     from 0 to 20 s, initial field included, whatever times are asked for; for its prediction over 0 s,
                     the first frame and the times asked for, since no others are predicted
    nodes            nodal values of an exact solution, 0 where a node is held or not part of the domain
    device           where it was computed
    rounding_error   of an exact solution: estimate of the largest nodal error, relative to the largest nodal value at
                     any time; one for each case of a batch
    cut              of an exact solution on the true boundary: its system, and its function on cut elements at each
                     time; one for each case of a batch

    Derived quantities, `gradient`, `flux`, `stress`, ..., are computed on demand. x runs to the right and y downwards.
    Lengths are those of the case.
    """

    case: Case
    field: Float[Array, "*batch_time field height width"]
    amplitude: float | Float[Array, "..."]
    nodes: Float[Array, "*batch_time field rows columns"] | None = None
    device: str = "cpu"
    rounding_error: float | Float[Array, " batch"] | None = None
    cut: CutSolution | tuple[CutSolution, ...] | None = None

    @property
    def problem(self) -> Problem:
        """The PDE."""
        return self.case.problem

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the components."""
        return self.problem.fields

    @property
    def domain(self) -> Bool[np.ndarray, "*batch height width"]:
        """Where the equation holds."""
        return self.case.domain

    @property
    def times(self) -> tuple[float, ...] | None:
        """Seconds of the frames of a transient problem."""
        return self.case.times

    @property
    def normalisation(self) -> Normalisation:
        """How the field splits into pattern and amplitude."""
        return self.problem.normalisation(self.case.conventions)

    @cached_property
    def pattern(self) -> Float[np.ndarray, "*batch_time field height width"]:
        """The field scaled by its amplitude, as networks learn it."""
        return self.normalisation.to_pattern(self.field, np.asarray(self.amplitude), self.domain)

    @property
    def is_batch(self) -> bool:
        """Tell whether it holds several cases."""
        return self.case.is_batch

    def __len__(self) -> int:
        if not self.is_batch:
            raise TypeError("This is the solution of one case, not of a batch.")
        return len(self.case)

    def __bool__(self) -> bool:
        """Return True: a solution is never falsy, whatever `len` says."""
        return True

    def __getitem__(self, which: int | slice) -> "Solution":
        """Return one case of a batch, or some of them as a batch."""
        case = self.case[which]
        amplitude = np.asarray(self.amplitude)[which]
        error = None if self.rounding_error is None else np.asarray(self.rounding_error)[which]
        return replace(
            self,
            case=case,
            field=self.field[which],
            amplitude=amplitude if np.ndim(amplitude) else float(amplitude),
            nodes=None if self.nodes is None else self.nodes[which],
            rounding_error=error if error is None or np.ndim(error) else float(error),
            cut=self.cut[which] if isinstance(self.cut, tuple) else None,
        )

    def to_numpy(self) -> "Solution":
        """Return the solution with its arrays copied from the device."""
        amplitude = to_numpy(self.amplitude)
        return replace(
            self,
            field=to_numpy(self.field),
            amplitude=amplitude if amplitude.ndim else float(amplitude),
            nodes=None if self.nodes is None else to_numpy(self.nodes),
            rounding_error=to_numpy(self.rounding_error) if is_tensor(self.rounding_error) else self.rounding_error,
        )

    def __iter__(self) -> Iterator["Solution"]:
        return (self[number] for number in range(len(self)))

    def __repr__(self) -> str:
        sizes = np.atleast_1d(self.amplitude)
        shown = ", ".join(f"{size:.4g}" for size in sizes[:3]) + (", ..." if len(sizes) > 3 else "")
        return f"Solution(max |U| = {shown}, field {self.field.shape}, of {self.case})"

    @cached_property
    def discrete(self) -> tuple[quantities.DiscreteField, ...]:
        """The finite element functions of each case at each time; nodes of a prediction are means of their pixels."""
        if isinstance(self.cut, tuple):
            return tuple(field for own in self.cut for field in own.fields)
        if self.cut is not None:
            return self.cut.fields
        field = np.asarray(self.field)
        inside = np.broadcast_to(self._inside(field.ndim), field.shape)
        nodes = node_means(field, inside) if self.nodes is None else self.nodes
        masks = inside[..., 0, :, :].reshape(-1, *field.shape[-2:])
        return tuple(starmap(PixelField, zip(masks, nodes.reshape(-1, *nodes.shape[-3:]), strict=True)))

    def _inside(self, axes: int) -> Bool[np.ndarray, "..."]:
        """Return the domain with `axes` axes, inserting axes of length 1 after the batch axis."""
        *batch, height, width = self.domain.shape
        return self.domain.reshape(*batch, *[1] * (axes - self.domain.ndim), height, width)

    def at(self, points: Any) -> Float[np.ndarray, "*batch_time field point"]:
        """Evaluate at points [point, 2] of x and y; NaN outside the domain, whose boundary belongs to it."""
        if isinstance(self.cut, tuple):
            return np.stack([own.at(points) for own in self])
        x, y = quantities.read_points(self.case, points)
        found = np.stack([each.at(x, y) for each in self.discrete])
        return found.reshape(*self.field.shape[:-2], len(x))

    @cached_property
    def gradient(self) -> Float[np.ndarray, "*batch_time field 2 height width"]:
        """∂U/∂x and ∂U/∂y of each field at pixel centres; 0 outside the domain."""
        if isinstance(self.cut, tuple):
            return np.stack([own.gradient for own in self])
        *lead, height, width = self.field.shape
        found = quantities.gradients(self.case, self.discrete).reshape(*lead, 2, height, width)
        return found * self._inside(found.ndim)

    @property
    def flux(self) -> Float[np.ndarray, "*batch_time 2 height width"]:
        """−κ ∇U at pixel centres, along x and y, for problems with one unknown."""
        if isinstance(self.cut, tuple):
            return np.stack([own.flux for own in self])
        return quantities.flux(self.case, self.gradient)

    @property
    def strain(self) -> Float[np.ndarray, "*batch_time 3 height width"]:
        """ε_xx, ε_yy and ε_xy at pixel centres, for displacements."""
        return quantities.strain(self.case, self.gradient)

    @property
    def stress(self) -> Float[np.ndarray, "*batch_time 3 height width"]:
        """σ_xx, σ_yy and σ_xy at pixel centres, for displacements, in plane strain or stress by the conventions."""
        if isinstance(self.cut, tuple):
            return np.stack([own.stress for own in self])
        return quantities.stress(self.case, self.gradient)

    @property
    def von_mises(self) -> Float[np.ndarray, "*batch_time height width"]:
        """Von Mises stress at pixel centres; in plane strain it includes σ_zz = ν (σ_xx + σ_yy)."""
        if isinstance(self.cut, tuple):
            return np.stack([own.von_mises for own in self])
        return quantities.von_mises(self.case, self.stress)

    def boundary(self) -> BoundaryValues:
        """Return U, the flux or stress and the traction on the true boundary itself, piece by piece."""
        self._require_one("Values on the boundary are")
        return recover(self.case, None if isinstance(self.cut, tuple) else self.cut)

    @property
    def max_displacement(self) -> float | Float[np.ndarray, " batch"]:
        """The largest |U| at pixel centres, for displacements."""
        quantities.require_displacements(self.case, "displacement")
        sizes = np.sqrt((self.field**2).sum(axis=-3))
        largest = sizes.reshape(len(self) if self.is_batch else 1, -1).max(axis=1)
        return largest if self.is_batch else float(largest[0])

    @property
    def compliance(self) -> float | Float[np.ndarray, "*batch_time"]:
        """The work of the loads, ∫ t · U over the loaded boundary + ∫ f · U, at each time."""
        return self._each(lambda totals: totals.work())

    @property
    def energy(self) -> float | Float[np.ndarray, "*batch_time"]:
        """½ a(U, U) = ½ ∫ C ∇U : ∇U + r U², for elasticity the strain energy, at each time."""
        return self._each(lambda totals: totals.energy())

    def total_flux(self, part: str) -> float | Float[np.ndarray, "..."]:
        """Return the total flux into the domain through a part of the boundary, or the force [2] on it, at each time.

        part   "left", "outer", "hole1", "outer:0.1-0.35", "near:0.2,0.7", ...: see `disol.geometry.named_parts`

        On the true boundary it is the total that balances the discrete problem, on pixels the sum of A u − b over the
        nodes of the pixels along the part.
        """
        return self._each(lambda totals: totals.through(part))

    def reactions(self) -> dict[str, float | Float[np.ndarray, "..."]]:
        """Return the total flux in through each support, or the force it exerts, by keys like "dirichlet on left"."""
        self._require_one("Reactions are")
        return {
            f"{each.argument} on {each.part}": self._value(each.values)
            for each in self._totals.conditions()
            if each.holds
        }

    def totals(self) -> list[Total]:
        """Return the totals of sources and of every support and loaded part of the boundary, and their sum.

        The last row, the sum, is 0 to rounding on the true boundary and on pixels; for a prediction it is an error.
        """
        self._require_one("Totals are")
        rows = import_module("disol.solutions.totals").rows(self._totals)
        return [Total(what, where, self._value(values)) for what, where, values in rows]

    @property
    def _totals(self) -> Any:
        totals = import_module("disol.solutions.totals")
        if self.cut is not None:
            return totals.CutTotals(self.case, self.cut)
        if self.case.conventions.true_boundary:
            raise DisolError(
                "Totals, work and energy of a case on its true boundary are those of its exact solution, one case at a "
                "time. Use the solution that solve_exact returns."
            )
        return totals.PixelTotals(self.case, self.discrete)

    def _each(self, total: Callable[[Any], Float[np.ndarray, "frame *component"]]) -> Any:
        """Return a total of one case, or of each case of a batch."""
        if self.is_batch:
            return np.stack([each._each(total) for each in self])
        return self._value(total(self._totals))

    def _value(self, values: Float[np.ndarray, "frame *component"]) -> float | Float[np.ndarray, "..."]:
        """Drop axes of length 1: the time axis of a steady problem, the component axis of a single unknown."""
        kept = values[..., 0] if values.ndim == 2 and values.shape[1] == 1 else values
        found = kept if self.times is not None else kept[0]
        return found if np.ndim(found) else float(found)

    def _require_one(self, what: str) -> None:
        if self.is_batch:
            raise DisolError(f"{what} for one case, got a batch of {len(self)}. Use one of them, as in solution[0].")

    def estimate_distance(self) -> float:
        """Estimate the relative L2 distance of one case on its true boundary to the solution of the PDE.

        The case is solved again on a grid twice as fine, which takes about four times as long. For a mask, the domain
        of the PDE is its staircase.
        """
        return import_module("disol.solutions.true_boundary").estimate_distance(self)

    def plot(self, what: str | None = None) -> "Figure":
        """Plot the data of the case and the solution; the figure belongs to pyplot, so that notebooks show it.

        what   plot this instead: "flux", "strain", "stress" or "von_mises"
        """
        return self._draw(managed=True) if what is None else import_module("disol.viz").plot_quantity(self, what)

    def _draw(self, managed: bool) -> "Figure":
        return import_module("disol.viz").plot_solution(self, managed=managed)

    def _repr_html_(self) -> str:
        return import_module("disol.viz").as_html(self)

    def save(self, path: str | Path) -> Path:
        """Save as `.npz` (arrays by name), `.vtu` (for ParaView), `.pvd` (a series of `.vtu` files) or `.png`."""
        return import_module("disol.solutions.saving").save(path, self, partial(self._draw, managed=False))

    @property
    def derived(self) -> dict[str, Float[np.ndarray, "..."]]:
        """What the problem derives from the gradient, by name: flux, or stress and von Mises stress, or nothing."""
        problem = self.problem
        if problem.has_form and len(self.fields) == 1:
            return {"flux": self.flux}
        if problem.has_form and problem.out_of_plane(self.case.conventions, {}) is not None:
            return {"stress": self.stress, "von_mises": self.von_mises}
        return {}

    def arrays(self) -> dict[str, Any]:
        """Return everything it holds as arrays by name; texts as string arrays, no times as an empty array."""
        case = self.case
        found = {"field": self.field, "pattern": self.pattern, "amplitude": np.asarray(self.amplitude)}
        nodes = {} if self.nodes is None else {"nodes": self.nodes}
        drawn = {} if case.seed is None else {"seed": case.seed, "index": case.index, "shift": case.shift or ""}
        described = {
            "inputs": case.inputs,
            "domain": case.domain,
            "channels": np.array(case.channels),
            "fields": np.array(self.fields),
            "problem": np.array(self.problem.name),
            "conventions": np.array(case.conventions.name),
            "times": np.array(self.times or (), dtype=float),
        }
        derived = {"gradient": self.gradient, **self.derived}
        if not case.is_batch:  # of pixel centres, in the coordinates of the drawing
            centres = [axis.reshape(-1) for axis in case.grid.pixel_centres()]
            points = [case.to_drawing(np.stack([axis, axis], axis=1)) for axis in centres]
            described |= {name: points[place][:, place] for place, name in enumerate("xy")}
        return described | drawn | found | nodes | derived | case.coefficient_values()
