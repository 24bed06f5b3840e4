"""Small files of cases, made once."""

from pathlib import Path

import pytest

from disol.data import generate

SIDE = 20  # not a multiple of 8, so that packed rows end in unused bits


@pytest.fixture(scope="session")
def poisson_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("poisson") / "cases.h5"
    generate("poisson", 10, path, seed=3, resolution=SIDE, workers=0)
    return path


@pytest.fixture(scope="session")
def elasticity_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elasticity") / "cases.h5"
    generate("elasticity", 6, path, seed=3, conventions="published", resolution=SIDE, workers=0)
    return path


@pytest.fixture(scope="session")
def heat_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("heat") / "cases.h5"
    generate("heat", 5, path, seed=3, resolution=SIDE, workers=0)
    return path
