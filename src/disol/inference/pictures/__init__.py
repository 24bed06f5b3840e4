"""Pictures of solutions, beside the exact ones."""

from disol.inference.pictures.animation import animate
from disol.inference.pictures.comparison import amplitude_error, largest, percent
from disol.inference.pictures.draw import draw_solution

__all__ = ["amplitude_error", "animate", "draw_solution", "largest", "percent"]
