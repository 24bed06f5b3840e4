"""The public surface: lazy names, and a package that starts without torch."""

import subprocess
import sys

import pytest

import disol


def test_drawing_and_solving_do_not_import_torch():
    program = (
        "import sys, disol; assert 'numpy' not in sys.modules\n"
        "disol.solve_exact(disol.draw('poisson', resolution=16))\n"
        "assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_public_names_are_listed_and_importable():
    for name in disol.PUBLIC_NAMES:
        assert name in dir(disol)
        assert getattr(disol, name) is not None


def test_subpackages_need_no_import_of_their_own():
    program = (
        "import sys, disol; assert disol.problems.draw is disol.draw and 'torch' not in sys.modules\n"
        "assert callable(disol.models.import_published)\n"
        "for name in disol.SUBPACKAGES: assert getattr(disol, name).__name__ == 'disol.' + name and name in dir(disol)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(AttributeError, match=r"draw.*solve_exact"):
        disol.solve  # noqa: B018
