"""The cheap GELU against the exact one, and where it is used."""

import subprocess
import sys

import pytest
import torch
from torch.nn import functional

from disol.nn import precision
from disol.nn.activation import CUT, GELU, polynomial_gelu

X = torch.linspace(-8, 8, 100_001, dtype=torch.float64)


def test_cheap_gelu_is_gelu():
    assert (polynomial_gelu(X.float()) - functional.gelu(X)).abs().max() < 2e-4


def test_cheap_gelu_passes_large_features_and_stops_very_negative_ones():
    large = torch.tensor([CUT, 10.0, 1e4])
    torch.testing.assert_close(polynomial_gelu(large), large, rtol=1e-6, atol=0)
    assert (polynomial_gelu(-large).abs() < 1e-6 * large).all()


def test_cheap_gelu_keeps_the_type_and_rounds_once():
    x = X.to(torch.bfloat16)
    torch.testing.assert_close(polynomial_gelu(x), polynomial_gelu(x.float()).to(torch.bfloat16), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("compiling", "bfloat16", "gradients", "is_cheap"),
    [(True, True, False, True), (True, True, True, False), (True, False, False, False), (False, True, False, False)],
)
def test_only_predictions_compiled_for_bfloat16_are_cheap(monkeypatch, compiling, bfloat16, gradients, is_cheap):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    monkeypatch.setattr(precision, "computes_in_bfloat16", lambda _: bfloat16)
    x = X.float()
    expected = polynomial_gelu(x) if is_cheap else functional.gelu(x)
    with torch.set_grad_enabled(gradients):
        torch.testing.assert_close(GELU()(x), expected, rtol=0, atol=0)


PROGRAM = """
import torch
from torch.nn import functional
from disol.nn import activation, precision

precision.computes_in_bfloat16 = lambda features: True
x = torch.linspace(-5, 5, 1001)
compiled = torch.compile(activation.GELU(), backend="aot_eager", fullgraph=True)
with torch.inference_mode():
    torch.testing.assert_close(compiled(x), activation.polynomial_gelu(x), rtol=0, atol=1e-6)
assert not torch.equal(activation.polynomial_gelu(x), functional.gelu(x))
x.requires_grad_()
torch.testing.assert_close(compiled(x), functional.gelu(x), rtol=0, atol=1e-6)
"""


def test_a_compiler_takes_the_cheap_gelu_for_predictions_and_the_exact_one_for_training():
    # In a process of its own: the checks of shapes cannot be part of a graph.
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True)
