"""A physical solution: what was asked, and what a model answered."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Shaped

from disol.channels import ChannelLayout
from disol.files import written_whole
from disol.inference.vtk import write_vtu
from disol.problems.checks import Unchecked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What starts with a batch axis.
PER_CASE = ("inputs", "domain", "pattern", "amplitude", "field", "exact", "error", "solved_on")


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution of one case, or of a batch of them, whose arrays then start with a batch axis.

    inputs      the channels of the terms as they were given; of a transient problem at the first time
    pattern     the field as networks learn it: field / amplitude or, where each field has its own amplitude,
                ½ + ½ field / amplitude on the domain
    amplitude   max |exact| (one per field where the conventions scale fields separately); of a transient problem from
                0 to 20 s, initial field included, whatever times are asked for
    field       the prediction in physical units, 0 outside the domain: the multiple of what the network predicts that
                is nearest to the exact solution, in each frame. Of a source that changes sign it is the nearest sum of
                two multiples. Its maximum may differ from the amplitude.
    exact       the solution of the discrete system
    error       relative L2 distance of the field from it; of a transient problem over its times together
    solved_on   the device that found the exact solution
    times       of a transient problem, whose pattern, field and solution have a time axis before that of the fields
    """

    problem: str
    conventions: str
    channels: ChannelLayout
    fields: tuple[str, ...]
    inputs: Float32[np.ndarray, "*batch channel height width"]
    domain: Bool[np.ndarray, "*batch height width"]
    pattern: Float[np.ndarray, "*batch_time field height width"]
    amplitude: float | Float[np.ndarray, "..."]
    field: Float[np.ndarray, "*batch_time field height width"]
    exact: Float[np.ndarray, "*batch_time field height width"]
    error: float | Float[np.ndarray, " batch"]
    solved_on: str | Shaped[np.ndarray, " batch"]
    times: tuple[float, ...] | None = None

    @property
    def is_batch(self) -> bool:
        """Tell whether it holds several cases."""
        return self.domain.ndim == 3

    def __len__(self) -> int:
        if not self.is_batch:
            raise TypeError("This solution is of one case, not of a batch. Use it as it is.")
        return len(self.domain)

    def __bool__(self) -> bool:
        """A solution counts as true, as other objects do; a batch if it has cases."""
        return not self.is_batch or len(self) > 0

    def __getitem__(self, case: int | slice | Unchecked) -> "Solution":
        """Return one case of a batch, or some of them as a batch."""
        num_cases = len(self)
        if not isinstance(case, slice | int | np.integer):
            raise TypeError(
                f"Cases are chosen by a number or a slice, got {case!r}. Write solution[0] or solution[:2]."
            )
        if not isinstance(case, slice) and not -num_cases <= case < num_cases:
            raise IndexError(f"This solution has cases 0 to {num_cases - 1}, got {case}. Choose one of these.")
        chosen: dict[str, Any] = {name: np.asarray(getattr(self, name))[case] for name in PER_CASE}
        return replace(self, **{name: value if value.ndim else value.item() for name, value in chosen.items()})

    def plot(self, with_exact: bool = True) -> "Figure":
        """Draw what is given and predicted and, unless told otherwise, the exact solution and the error."""
        from disol.inference.pictures import draw_solution  # noqa: PLC0415  matplotlib is slow to import

        return draw_solution(self, with_exact)

    def save(self, path: str | Path) -> Path:
        """Write it as `.npz` (its arrays by name) or `.vtu` (for ParaView, see `disol.inference.vtk`)."""
        target = Path(path)
        ending = target.suffix.lower()
        if ending not in (".npz", ".vtu"):
            raise ValueError(f"A solution is saved as .npz or .vtu, got {target.name!r}. Choose one of these endings.")
        if ending == ".vtu" and self.is_batch:
            raise ValueError(
                f"A .vtu file holds one case, got a batch of {len(self)}. Save solution[0], or the batch as .npz."
            )
        with written_whole(target) as temporary:
            if ending == ".npz":
                with temporary.open("wb") as file:  # of a path that does not end in .npz NumPy would make another
                    np.savez_compressed(file, **self.arrays())
            else:
                write_vtu(temporary, self.domain, self.cell_data())
        return target

    def arrays(self) -> dict[str, Any]:
        """Return all it holds as arrays by name; texts as arrays of text, no times as an empty array."""
        names = (*PER_CASE, "channels", "fields", "problem", "conventions")
        arrays = {name: np.asarray(getattr(self, name)) for name in names}
        return arrays | {"times": np.array(self.times or (), dtype=float)}

    def cell_data(self) -> dict[str, Float[np.ndarray, "height width"]]:
        """Return what a picture of one case shows, by name; a name that ends in "at 2 s" belongs to that time."""
        frames = {"": self.field}
        if self.times is not None:
            frames = {f" at {time:g} s": frame for time, frame in zip(self.times, self.field, strict=True)}
        data = {
            name + suffix: frame[place] for suffix, frame in frames.items() for place, name in enumerate(self.fields)
        }
        given = [name for name in self.channels if name not in ("domain", "time")]
        return data | {name: self.channels.select(self.inputs, name).astype(float) for name in given}
