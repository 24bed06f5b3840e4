"""Trained models at work: load one, solve a case, get a physical solution."""

from disol.inference.loading import list_pretrained, load
from disol.inference.model import Model
from disol.inference.solution import Solution

__all__ = ["Model", "Solution", "list_pretrained", "load"]
