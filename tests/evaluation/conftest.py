"""Small files of cases, made once."""

from pathlib import Path

import pytest

from disol.data import generate

SIDE = 16


def make(folder: Path, problem: str, cases: int, name: str = "cases", **settings: object) -> Path:
    path = folder / f"{name}.h5"
    generate(problem, cases, path, seed=3, workers=0, device="cpu", **{"resolution": SIDE} | settings)
    return path


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One small file of each kind of problem."""
    folder = tmp_path_factory.mktemp("files")
    return {
        "poisson": make(folder, "poisson", 7, "poisson"),
        "shapes": make(folder, "poisson", 8, "shapes", shift="shapes"),
        "fine": make(folder, "poisson", 2, "fine", resolution=24),
        "advection-diffusion-high": make(folder, "advection-diffusion-high", 3, "advection"),
        "elasticity": make(folder, "elasticity", 4, "elasticity"),
        "published": make(folder, "elasticity", 4, "published", conventions="published"),
        "heat": make(folder, "heat", 3, "heat"),
    }
