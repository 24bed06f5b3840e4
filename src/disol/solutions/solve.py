"""Exact solutions, in the sense of the discrete system: one case by NumPy and SciPy, batches on any device."""

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from importlib import import_module
from typing import Any, TypeVar, Unpack

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from disol import _checks as checks
from disol._arrays import Array, copy_to_host, is_tensor, to_device
from disol.cases.case import Case, naming_the_case
from disol.cases.given import CaseData, CoefficientLike, FieldLike, Pixels
from disol.errors import DisolError
from disol.fem import ELEMENTS, LinearSystem, System
from disol.fem.cut_system import CutSolution, CutSystem
from disol.fem.rounding import naming_case, report
from disol.fem.solve import one_thread
from disol.grid import pixel_means
from disol.problems.conventions import Conventions
from disol.problems.problem import Frames, Problem
from disol.problems.table import find, find_conventions, find_problem
from disol.solutions import true_boundary
from disol.solutions.solution import Solution

Nodes = Float[Array, "*batch frame component rows columns"]
Item = TypeVar("Item")
Result = TypeVar("Result")

# Up to this size the CPU has solved a batch before a GPU has launched all its kernels. Measured beside an H200, one
# case on the CPU and on the GPU: 15 and 31 ms for 2,000 unknowns, 66 and 57 for 8,000; with ten time steps 119 and 150.
FEW_UNKNOWNS = {"steady": 5_000, "transient": 10_000}
COEFFICIENTS = {name for name, kind in CaseData.__annotations__.items() if kind == CoefficientLike}
DEVICES = "/dev/nvidia[0-9]*"  # device files of the driver
COPIES = 8  # of all frames, on the device and on the host: terms, nodes, fields, and temporaries


def solve_exact(
    problem: str | Problem | Case | list[Case] | tuple[Case, ...],
    *,
    domain: Pixels | None = None,
    dirichlet: Pixels | None = None,
    dirichlet_values: ArrayLike | None = None,
    source: FieldLike | None = None,
    initial: FieldLike | None = None,
    fix_x: Pixels | None = None,
    fix_x_values: ArrayLike | None = None,
    fix_y: Pixels | None = None,
    fix_y_values: ArrayLike | None = None,
    force_x: Pixels | None = None,
    force_y: Pixels | None = None,
    flux: Mapping[str, Any] | str | None = None,
    convection: Mapping[str, Any] | str | None = None,
    size: float | None = None,
    plane: str | None = None,
    times: ArrayLike | None = None,
    diffusion: CoefficientLike | None = None,
    velocity: CoefficientLike | None = None,
    reaction: CoefficientLike | None = None,
    conductivity: CoefficientLike | None = None,
    density: CoefficientLike | None = None,
    capacity: CoefficientLike | None = None,
    young: CoefficientLike | None = None,
    poisson_ratio: CoefficientLike | None = None,
    body_force: CoefficientLike | None = None,
    time_scale: float | None = None,
    source_strength: float | None = None,
    steps_per_frame: int | None = None,
    time_step: float | None = None,
    conventions: str | Conventions | None = None,
    element: str = "q1",
    device: str = "auto",
    keep_factors: bool = False,
    **own: Any,
) -> Solution:
    """Solve a case, or a batch of them, exactly in the sense of its discrete system.

    problem       a case, a list of cases, or the name of a problem together with its data by name:
                  `domain`, `dirichlet`, `source` (Poisson, advection-diffusion),
                  `domain`, `fix_x`, `fix_y`, `force_x`, `force_y` (elasticity),
                  `domain`, `dirichlet`, `source`, `initial` and `times`, by default every 2 s up to 20 s (heat)
    conventions   "physical" (default): on the true boundary, for a mask the outer sides of its pixels, with forces per
                  length; "paper" or "published": on pixels, "paper" being the default for a problem without a form; a
                  case has its own conventions
    element       "q1"; on pixels also "p1"
    device        "auto" (default): a GPU, if there is one, for large batches on pixels, otherwise all CPU cores; "cpu";
                  on pixels also "cuda" or "cuda:NUMBER"
    keep_factors  keep the factors of one case on its true boundary for `disol.solve_adjoint`: 7 to 30 MB on a 128 grid
    own           terms and numbers of a problem of your own

    Masks and markers are arrays of 0 and 1, [height, width], or [batch, height, width] for a batch. A source is an
    array with one value per pixel, a function f(x, y) of NumPy arrays, x to the right and y downwards, or a list of
    functions, one for each case; it is used as given. The numbers of the equation can be given, too. Under "physical",
    `diffusion`, `velocity`, `reaction` (Poisson, advection-diffusion), `conductivity`, `density`, `capacity` (heat),
    `young` and `poisson_ratio` may be arrays or functions; conductivities may be symmetric tensors [2, 2, height,
    width].

    Under "physical", supports and forces may also map parts of the boundary to numbers, formulas or functions,
    as in dirichlet={"left": 20, "right": "80 + 5*y"} or the text "left=20,right=80+5*y"; `flux` maps parts to the flux
    into the domain, κ ∂U/∂n, and `convection` to (h, U_out), κ ∂U/∂n = h (U_out − U). `dirichlet_values` and the like
    are the values of marked pixels, one per pixel. `size` is the height of the grid in your unit of length, which x, y,
    fluxes and results then use; `time_step` is that of heat in seconds, by default 2; `plane` is "strain" or "stress",
    `body_force` (along x, along y). Data that is not given is then 0.

    Pixels are square and the grid is one unit high. On the true boundary, solutions are second-order accurate where
    they are smooth; on pixels, where the boundary follows pixel edges, first-order with respect to the smooth domain.
    """
    find("element", element, ELEMENTS)
    names = (*CaseData.__annotations__, *own)
    here = locals() | own
    given = {name: here[name] for name in names if here[name] is not None}
    posed = Case.stack(problem) if isinstance(problem, list | tuple) else problem
    is_left_open, gpu = isinstance(device, str) and device == "auto", None
    if _is_on_pixels(posed, conventions):
        gpu = None if is_left_open and not _may_be_batch(posed, given) else find_gpu(device)
    else:
        require_cpu(device)
    case = as_case(posed, conventions, given, gpu)
    return solve_case(case, gpu, element, at_any_size=not is_left_open, keep_factors=keep_factors)


def _is_on_pixels(problem: str | Problem | Case, conventions: str | Conventions | None) -> bool:
    """Tell whether a case, which has its own conventions, or a problem is to be solved on pixels."""
    if isinstance(problem, Case):
        return not problem.conventions.true_boundary
    return not find_conventions(conventions, find_problem(problem)).true_boundary


def _may_be_batch(problem: object, given: Mapping[str, Any]) -> bool:
    """Tell whether it is worth looking for a GPU, which may import torch: single cases are solved without one."""
    if isinstance(problem, Case) and problem.is_batch:
        return True
    terms = [value for name, value in given.items() if name not in COEFFICIENTS]
    lists = [value for value in terms if isinstance(value, list | tuple)]
    has_entries = any(value and not checks.is_number(value[0]) for value in lists)  # not times
    return has_entries or any(getattr(value, "ndim", None) == 3 for value in terms)


def system(
    problem: str | Problem | Case,
    *,
    conventions: str | Conventions | None = None,
    element: str = "q1",
    **data: Unpack[CaseData],
) -> LinearSystem | CutSystem:
    """Assemble the system A u = b of one case; the arguments are those of `solve_exact`."""
    find("element", element, ELEMENTS)
    case = as_case(problem, conventions, {**data})
    if case.is_batch:
        raise DisolError(f"A system is for one case, got a batch of {len(case)}. Pass one of them.")
    if case.conventions.true_boundary:
        _require_q1(element)
        return true_boundary.cut_system(case)
    return LinearSystem(case.system(element))


def _require_q1(element: str) -> None:
    if element != "q1":
        raise DisolError(
            f'Elements cut at the true boundary are q1, got {element!r}. Pass conventions="paper" for others.'
        )


def as_case(
    problem: str | Problem | Case | list[Case] | tuple[Case, ...],
    conventions: str | Conventions | None,
    given: dict[str, Any],
    gpu: Any = None,
) -> Case:
    """Return a case, a batch of cases, or a case from the user's data; data of batches is checked on `gpu`, if any."""
    posed = Case.stack(problem) if isinstance(problem, list | tuple) else problem
    if isinstance(posed, Case) and not given:
        posed.require_conventions(conventions)
        return posed
    return Case.from_arrays(posed, conventions=conventions, device=gpu, **given)


def find_gpu(device: str) -> Any:
    """Return the GPU that "cuda", "cuda:NUMBER" or "auto" means; None for a CPU.

    torch takes seconds to import, so "auto" looks for a driver first.
    """
    devices = import_module("disol._devices")
    devices.check_device(device)
    if device == "cpu" or (device == "auto" and "torch" not in sys.modules and not glob(DEVICES)):
        return None
    found = devices.find_device(device)
    return found if found.type == "cuda" else None


def require_cpu(device: str) -> None:
    """Refuse a GPU for cases on their true boundary, whose elements are cut one by one; needs no torch."""
    import_module("disol._devices").check_device(device)
    if device not in ("auto", "cpu"):
        raise DisolError(
            f'Cases on their true boundary are solved on a CPU, got device {device!r}. Pass device="cpu", or '
            'conventions="paper" for pixels.'
        )


def solve_case(
    case: Case, gpu: Any = None, element: str = "q1", *, at_any_size: bool = False, keep_factors: bool = False
) -> Solution:
    """Solve a checked case on the CPU, or on the GPU if it is large enough to be faster there or `at_any_size`."""
    if keep_factors and (case.is_batch or not case.conventions.true_boundary):
        raise DisolError(
            f'Factors are kept for one case on a true boundary only, got {case}. Pass one with conventions="physical".'
        )
    if case.conventions.true_boundary:
        _require_q1(element)
        return solve_true(case, keep_factors)
    with naming_the_case(case, lambda own: own.system(element)):
        if gpu is None or not (at_any_size or is_worth_a_gpu(case)):
            return solve_here(case, element)
        if not case.is_batch:
            return solve_there(case, gpu, element).to_numpy()
        pieces = (solve_there(piece, gpu, element) for piece in case.pieces(cases_at_once(case, gpu)))
        names = ("field", "amplitude", "nodes", "rounding_error")
        gathered = gather(len(case), ({name: getattr(piece, name) for name in names} for piece in pieces))
    field, amplitude, nodes, errors = (gathered[name] for name in names)
    return Solution(case, field, amplitude, nodes, str(gpu), errors)


def gather(count: int, pieces: Iterable[Mapping[str, Array]]) -> dict[str, np.ndarray]:
    """Copy the arrays of the pieces of a batch, found on a device, into arrays of the whole of it."""
    whole: dict[str, np.ndarray] = {}
    start = 0
    for piece in pieces:
        for name, values in piece.items():
            if name not in whole:
                whole[name] = np.empty((count, *values.shape[1:]))
            # Copied straight into place: joining pieces later would write everything twice.
            copy_to_host(values, whole[name][start : start + len(values)])
        start += len(values)
    return whole


def is_worth_a_gpu(case: Case) -> bool:
    """Tell whether a GPU solves a case, or a batch, faster than a CPU."""
    few = FEW_UNKNOWNS["steady" if case.times is None else "transient"]
    return int(case.domain.sum()) * len(case.problem.fields) > few


def cases_at_once(case: Case, gpu: Any) -> int:
    """Return how many cases fit into GPU and host memory; the solver splits them further if its factors do not fit."""
    memory = import_module("disol.solvers.memory")
    frames = case.problem.frames(case.times)
    height, width = case.grid.pixels
    values = (height + 1) * (width + 1) * len(case.problem.fields) * len(frames.steps or (0,))
    needed = COPIES * 8 * values
    host = int(memory.USABLE * memory.free_bytes_of_host()) // needed
    return max(1, min(memory.cases_at_once(needed, gpu), host))


def solve_here(case: Case, element: str = "q1") -> Solution:
    """Solve with the sparse direct solver, the cases of a batch on all cores."""
    systems, frames = case.system(element), case.problem.frames(case.times)
    if not case.is_batch:
        nodes, error = systems.solve_and_estimate(frames.steps)
        report(error)
        return from_nodes(case, nodes, error, frames)

    def solve(number: int) -> tuple[Nodes, float]:
        with naming_case(case._first + number):
            return systems[number].solve_and_estimate(frames.steps)

    with one_thread():
        found = _in_threads(solve, range(len(case)))
    errors = np.array([error for _, error in found])
    report(errors, case._first)
    return from_nodes(case, np.stack([nodes for nodes, _ in found]), errors, frames)


def solve_true(case: Case, keep_factors: bool = False) -> Solution:
    """Solve on true boundaries, the cases of a batch on all cores; warn if solutions are less accurate than usual."""
    cautions: dict[str, list[int]] = {}
    for number, own in enumerate(case if case.is_batch else (case,), start=case._first):
        for caution in own.problem.cautions(own.domain, own.coefficient_values()):
            cautions.setdefault(caution, []).append(number)
    for caution, (first, *others) in cautions.items():
        also = f" and {len(others)} more" if others else ""
        warnings.warn(f"Case {first}{also}: {caution}" if case.is_batch else caution, UserWarning, stacklevel=4)
    if not case.is_batch:
        solution = true_boundary.solve_case(case, keep_factors)
        assert solution.rounding_error is not None
        report(solution.rounding_error)
        return solution

    def solve(number: int) -> Solution:
        with naming_case(case._first + number):
            return true_boundary.solve_case(case[number])

    with one_thread():
        found = _in_threads(solve, range(len(case)))
    errors = np.array([each.rounding_error for each in found])
    report(errors, case._first)
    field, amplitude = np.stack([each.field for each in found]), np.stack([each.amplitude for each in found])
    cut = tuple(each.cut for each in found if isinstance(each.cut, CutSolution))
    return Solution(case, field, amplitude, rounding_error=errors, cut=cut)


def solve_there(case: Case, gpu: Any, element: str = "q1") -> Solution:
    """Solve with the batched direct solver; the solution stays on the GPU."""
    solve_systems = import_module("disol.solvers").solve_systems
    frames = case.problem.frames(case.times)
    if not case.is_batch:
        found = solve_systems(System.stack([case.system(element)]), frames.steps, gpu, first_case=None)
        error = float(found.rounding_error[0])
        return from_nodes(case, found.frames[0], error, frames, to_device(case.domain, gpu))
    placed = case.on(gpu)
    found = solve_systems(placed.system(element), frames.steps, gpu, first_case=case._first)
    domain = placed.domain if is_tensor(placed.domain) else to_device(case.domain, gpu)
    return from_nodes(case, found.frames, found.rounding_error, frames, domain)


def from_nodes(
    case: Case,
    nodes: Nodes,
    rounding_error: float | Float[Array, " batch"],
    frames: Frames,
    domain: Bool[Array, "*batch height width"] | None = None,
) -> Solution:
    """Make the solution of a case from the nodal values of its frames, on their device."""
    inside = case.domain if domain is None else domain
    field, amplitude = to_fields(case.problem, case.conventions, nodes, frames, inside)
    device = str(nodes.device) if is_tensor(nodes) else "cpu"
    found = Solution(case, field, amplitude, frames.pick(nodes), device, rounding_error)
    return found if is_tensor(nodes) else found.to_numpy()


def to_fields(
    problem: Problem, conventions: Conventions, nodes: Nodes, frames: Frames, domain: Bool[Array, "*batch height width"]
) -> tuple[Float[Array, "*batch_time field height width"], Float[Array, "..."]]:
    """Average nodal values over the pixels of the domain; return the frames asked for, and the amplitude."""
    *batch, height, width = domain.shape
    fields = pixel_means(nodes) * domain.reshape(*batch, 1, 1, height, width)
    amplitude = problem.normalisation(conventions).amplitude(fields[..., : frames.counted, :, :, :], domain)
    return frames.pick(fields), amplitude


def _in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call a function on every item, on all cores or as many as OMP_NUM_THREADS says: SuperLU releases the GIL."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted, _, _ = os.environ.get("OMP_NUM_THREADS", "").partition(",")  # further numbers are for nested threads
    threads = min(int(wanted) if wanted.strip().isdigit() else cores, len(items))
    if threads <= 1:
        return [function(item) for item in items]
    executor = ThreadPoolExecutor(threads)
    try:
        return list(executor.map(function, items))
    finally:
        executor.shutdown(cancel_futures=True)
