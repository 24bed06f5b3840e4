"""One value per PDE, the cases of it, and their exact solutions."""

from disol._terms import DOMAIN, FORCE, INITIAL, SOURCE, SUPPORT, TIMES, Term
from disol.problems.case import Case, draw
from disol.problems.problem import Problem, TransientProblem
from disol.problems.reading import read_case
from disol.problems.solution import Solution
from disol.problems.solve import solve_exact, system
from disol.problems.table import PROBLEMS

__all__ = [
    "DOMAIN",
    "FORCE",
    "INITIAL",
    "PROBLEMS",
    "SOURCE",
    "SUPPORT",
    "TIMES",
    "Case",
    "Problem",
    "Solution",
    "Term",
    "TransientProblem",
    "draw",
    "read_case",
    "solve_exact",
    "system",
]
