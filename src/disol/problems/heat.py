"""Transient heat conduction: one unknown that starts from an initial field and follows a source."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Float32

from disol.channels import ChannelLayout
from disol.fem import Element, System, backward_euler, consistent_load, forms
from disol.fields import at_nodes, at_pixels, draw_field
from disol.geometry import Raster
from disol.grid import nodes_touching, pixel_means
from disol.problems import checks
from disol.problems.checks import Unchecked
from disol.problems.conventions import Conventions
from disol.problems.distribution import Distribution
from disol.problems.problem import Exact, Markers, Problem, Sketch, Streams, Terms, normalise
from disol.problems.scalar import free_nodes

FRAME = 2.0  # seconds between stored frames
TRAINED_UNTIL = 20.0  # seconds; amplitudes and the time channel are measured against it


@dataclass(frozen=True)
class HeatProblem(Problem):
    """U_t = s (ΔU + g f), U(0) = U₀; U = 0 on Dirichlet pixels, ∂U/∂n = 0 on every other boundary.

    time_scale        s, diffusion times per second
    source_strength   g
    steps_per_frame   backward Euler steps in each frame of 2 s

    Read literally (s = g = 1 on the unit square) every case is steady after a few seconds; the defaults spread
    the transient over 50 s and let source and initial field weigh the same at 20 s.
    """

    time_scale: float = 0.01
    source_strength: float = 3.0
    steps_per_frame: int = 1

    channels: ClassVar = ChannelLayout("domain", "dirichlet", "source", "initial", "time")
    fields: ClassVar = ("u",)
    terms: ClassVar = ("domain", "dirichlet", "source", "initial", "times")
    optional_terms: ClassVar = ("times",)
    takes_batches: ClassVar = True
    parameters: ClassVar = {
        "time_scale": checks.positive_number,
        "source_strength": checks.number,
        "steps_per_frame": checks.count,
    }
    default_times: ClassVar = tuple(FRAME * np.arange(1, round(TRAINED_UNTIL / FRAME) + 1))

    @property
    def step(self) -> float:
        """Seconds in one backward Euler step."""
        return FRAME / self.steps_per_frame

    @property
    def trained_steps(self) -> int:
        """Number of steps up to 20 s, over which the amplitude is taken."""
        return round(TRAINED_UNTIL / self.step)

    def step_numbers(self, times: Sequence[float]) -> list[int]:
        """Return after how many steps each time is reached."""
        return [round(time / self.step) for time in times]

    def needed_steps(self, times: Sequence[float]) -> list[int]:
        """List the steps to take for some times: to each of them, and all that the amplitude is taken over."""
        return sorted({*range(self.trained_steps + 1), *self.step_numbers(times)})

    def draw(self, streams: Streams, raster: Raster, distribution: Distribution, conventions: Conventions) -> Sketch:
        """Draw Dirichlet segments, a source, an initial field and a frame to ask for."""
        require_paper(conventions)
        drawn = {name: draw_field(streams(name), distribution.fields) for name in ("source", "initial")}
        frame = streams("time").integers(len(self.default_times))
        return {
            "dirichlet": Markers(distribution.segments.draw(streams("dirichlet"), raster.geometry)),
            **{name: field.scaled_to_unit(at_pixels(field, raster.mask)[raster.mask]) for name, field in drawn.items()},
            "times": (float(self.default_times[frame]),),
        }

    def encode(self, terms: Terms, conventions: Conventions) -> Float32[np.ndarray, "*batch channel height width"]:
        """Stack domain, Dirichlet pixels, source, initial field and the first time asked for, over 20 s."""
        require_paper(conventions)
        domain = terms["domain"]
        time = np.full(domain.shape, terms["times"][0] / TRAINED_UNTIL)
        sampled = [at_pixels(terms[name], domain) for name in ("source", "initial")]
        return self.stack([domain, terms["dirichlet"], *sampled, time])

    def check(self, terms: Terms) -> Terms:
        """Read domain, Dirichlet pixels, source, initial field and times."""
        domain = checks.domain_array(terms["domain"])
        dirichlet = checks.marker_array("dirichlet", terms["dirichlet"], domain, on_every_part=True)
        free_nodes(domain, dirichlet)
        return {
            "domain": domain,
            "dirichlet": dirichlet,
            "source": checks.source_term("source", terms["source"], domain),
            "initial": checks.source_term("initial", terms["initial"], domain),
            "times": self.check_times(terms.get("times", self.default_times)),
        }

    def check_times(self, times: Sequence[float] | Unchecked) -> tuple[float, ...]:
        """Read times that backward Euler meets: multiples of the step from 0 on."""
        values = np.atleast_1d(checks.as_array("times", times))
        if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iuf":
            given = repr(times) if values.ndim == 1 else f"shape {values.shape}"
            raise ValueError(f"times must be a list of numbers, got {given}. Pass seconds, such as [2, 8, 14, 20].")
        if not np.isfinite(values).all() or (values < 0).any():
            raise ValueError(f"times must be finite and not negative, got {times!r}. Pass seconds from 0 on.")
        steps = values / self.step
        if np.abs(steps - np.round(steps)).max() > 1e-9 * max(1.0, steps.max()):
            raise ValueError(
                f"times must be multiples of the time step, {self.step:g} s, got {times!r}. "
                "Round them, or raise steps_per_frame."
            )
        return tuple(float(value) for value in values)

    def element_matrix(self, element: Element, conventions: Conventions) -> Float[np.ndarray, "4 4"]:
        """∫ Nᵢ Nⱼ + δ s ∇Nᵢ · ∇Nⱼ, with δ the time step."""
        require_paper(conventions)
        return forms.mass(element) + self.step * self.time_scale * forms.diffusion(element)

    def system(self, terms: Terms, conventions: Conventions, element: Element) -> System:
        """(M + δ s K) uⁿ⁺¹ = M uⁿ + δ s g b: its matrix and its constant load."""
        domain = terms["domain"]
        load = consistent_load(element, forms.galerkin_test(element), domain, terms["source"])
        return System(
            domain,
            self.element_matrix(element, conventions),
            free_nodes(domain, terms["dirichlet"])[..., None, :, :],
            self.step * self.time_scale * self.source_strength * load[..., None, :, :],
        )

    def initial_nodes(self, terms: Terms) -> Float[np.ndarray, "*batch 1 rows columns"]:
        """U₀ at the nodes, 0 where they are pinned."""
        domain = terms["domain"]
        active = nodes_touching(domain)
        nodes = at_nodes(terms["initial"], domain, active) * ~nodes_touching(terms["dirichlet"])
        return nodes[..., None, :, :]

    def solve(self, terms: Terms, conventions: Conventions, element: Element) -> Exact:
        """Step a case through the times asked for; its amplitude is max |U| from 0 to 20 s."""
        domain, times = terms["domain"], terms["times"]
        asked, trained = self.step_numbers(times), self.trained_steps
        frames: dict[int, Float[np.ndarray, "1 rows columns"]] = {}
        amplitude = 0.0
        evolution = backward_euler(
            self.system(terms, conventions, element),
            forms.mass(element),
            self.initial_nodes(terms),
            max(trained, *asked),
        )
        for step, nodes in enumerate(evolution):
            if step <= trained:
                amplitude = max(amplitude, float(np.abs(pixel_means(nodes)[0, domain]).max()))
            if step in asked:
                frames[step] = nodes
        nodes = np.stack([frames[step] for step in asked])
        field = pixel_means(nodes) * domain
        return Exact(self.name, domain, field, *normalise(field, domain, amplitude), nodes, times)


def require_paper(conventions: Conventions) -> None:
    """Refuse conventions that no released heat data could confirm."""
    if conventions.name != "paper":
        raise ValueError(
            f"heat knows only the conventions 'paper', got {conventions.name!r}: no released heat data could be "
            "checked. Leave conventions at 'paper'."
        )


HEAT = HeatProblem("heat", "∂U/∂t = s (ΔU + g f)", resolution=128, num_cases=10_000)
