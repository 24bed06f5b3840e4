"""One value per PDE: its channels, and how a case of it is drawn, discretised, solved and normalised."""

from disol.problems.case import Case, draw
from disol.problems.exact import Posed, pose, solve_exact
from disol.problems.problem import Exact, Problem
from disol.problems.table import PROBLEMS

__all__ = ["PROBLEMS", "Case", "Exact", "Posed", "Problem", "draw", "pose", "solve_exact"]
