"""The public surface: lazy names, and a package that starts without torch."""

import subprocess
import sys

import pytest

import disol


def test_drawing_and_solving_do_not_import_torch():
    program = (
        "import sys, disol; assert not {'numpy', 'torch'} & set(sys.modules)\n"
        "case = disol.draw('poisson', resolution=16)\n"
        "disol.solve_exact(case), disol.solve_exact([case, case], device='cpu')\n"
        "disol.system(case).residual, case.inputs\n"
        "disol.read_case('heat', 'star+hole', source='wave'), disol.Case.from_arrays(case, source=0 * case.domain)\n"
        "assert not {'torch', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_names_are_found_without_torch_until_a_network_is_needed():
    program = (
        "import sys, disol\n"
        "disol.load, disol.train, disol.evaluate, disol.generate, disol.MODELS, disol.create_model, disol.read_case\n"
        "assert disol.list_pretrained() and 'torch' not in sys.modules\n"
        "disol.Surrogate\n"
        "assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_public_names_are_few_listed_and_importable():
    assert len(disol.PUBLIC_NAMES) <= 25
    assert sorted(disol.__all__) == sorted(disol.PUBLIC_NAMES)
    for name in disol.PUBLIC_NAMES:
        assert name in dir(disol)
        assert getattr(disol, name) is not None


def test_subpackages_need_no_import_of_their_own():
    program = (
        "import sys, disol; assert disol.cases.draw is disol.draw and 'torch' not in sys.modules\n"
        "assert callable(disol.models.import_published)\n"
        "for name in disol.SUBPACKAGES: assert getattr(disol, name).__name__ == 'disol.' + name and name in dir(disol)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_is_imported_first_changes_no_public_name():
    program = (
        "import importlib, pkgutil, disol\n"
        "for package in disol.SUBPACKAGES:\n"
        "    path = getattr(disol, package).__path__\n"
        "    for module in pkgutil.iter_modules(path, f'disol.{package}.'):\n"
        "        if module.name.endswith(tuple(f'.{name}' for name in disol.PUBLIC_NAMES)):\n"
        "            importlib.import_module(module.name)\n"
        "for name in disol.PUBLIC_NAMES:\n"
        "    assert type(getattr(disol, name)).__name__ != 'module', name\n"
        "assert callable(disol.comparison.compare) and callable(disol.data.generate)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(AttributeError, match=r"disol has no 'solve'\. It has .*draw.*solve_exact"):
        disol.solve  # noqa: B018
