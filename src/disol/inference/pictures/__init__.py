"""Pictures of solutions, beside the exact ones where these are known."""

from disol.inference.pictures.animation import animate
from disol.inference.pictures.comparison import Comparison, compare, percent
from disol.inference.pictures.draw import draw_solution

__all__ = ["Comparison", "animate", "compare", "draw_solution", "percent"]
