"""Formulas in x and y: what they mean, and what they refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import disol
from disol.errors import DisolError
from disol.expressions import DEEPEST, LONGEST, NAMED_FIELDS, read_expression

X, Y = np.meshgrid(np.linspace(0.05, 0.95, 7), np.linspace(0.1, 0.9, 5))


def bump(x, y):
    return (x - 0.5) ** 2 + (y - 0.5) ** 2


def hyperbolic(x, y):
    return np.tanh(np.pi * x) + np.log(np.e + y) + np.sqrt(np.abs(x - y))


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("sin(6*x)*y + exp(-20*((x-0.5)**2+(y-0.5)**2))", lambda x, y: np.sin(6 * x) * y + np.exp(-20 * bump(x, y))),
        ("-x**2", lambda x, y: -(x**2)),
        ("2**-x / +y", lambda x, y: 2**-x / y),
        ("maximum(x, y) - minimum(x, 0.3)", lambda x, y: np.maximum(x, y) - np.minimum(x, 0.3)),
        ("tanh(pi*x) + log(e + y) + sqrt(abs(x - y))", hyperbolic),
        ("3", lambda x, y: 3 + 0 * x),
        ("where(x > 0.5, 10, 1)", lambda x, y: np.where(x > 0.5, 10, 1)),
        ("5*(x >= 0.2)*(y <= 0.5) - (x < y)", lambda x, y: 5 * ((x >= 0.2) & (y <= 0.5)) - (x < y).astype(float)),
        ("where(0.2 < x < y + 0.1 < 0.9, x, -y)", lambda x, y: np.where((x > 0.2) & (x < y + 0.1) & (y < 0.8), x, -y)),
        ("where(x - 0.05, 1/(x - 0.05), 7)", lambda x, y: np.r_[7, 1 / (X[0, 1:] - 0.05)] + 0 * x),
        ("max(min(x, y), 0.3) + (2 > 1)", lambda x, y: np.maximum(np.minimum(x, y), 0.3) + 1),
    ],
)
def test_an_expression_means_what_it_says(text, function):
    values = read_expression(text)(X, Y)
    assert values.shape == X.shape
    assert values == pytest.approx(function(X, Y), rel=1e-14)


def test_points_broadcast_like_those_of_a_grid():
    expression = read_expression("x + 10*y")
    assert expression(X[:1], Y[:, :1]) == pytest.approx(expression(X, Y))


@pytest.mark.parametrize("name", NAMED_FIELDS)
def test_a_named_field_is_finite_and_not_negative(name):
    values = read_expression(name)(X, Y)
    assert np.isfinite(values).all()
    assert (values >= 0).all()


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("__import__('os').system('true')", "__import__('os').system('true')"),
        ("x.real", "x.real"),
        ("z + 1", "'z'"),
        ("open(x)", "'open(x)'"),
        ("sin(x)(y)", "'sin(x)(y)'"),
        ("[x]", "'[x]'"),
        ("lambda: x", "'lambda: x'"),
        ("x if y else 1", "'x if y else 1'"),
        ("x == y", "'x == y'"),
        ("x < y != 1", "'x < y != 1'"),
        ("x in y", "'x in y'"),
        ("not x < y", "'not x < y'"),
        ("True", "'True'"),
        ("1j", "'1j'"),
        ("'x'", "x"),
        ("f'{x}'", "f'{x}'"),
        ("x // y", "'x // y'"),
        ("x @ y", "'x @ y'"),
        ("sin", "'sin'"),
        ("sin(x, out=y)", "'sin(x, out=y)'"),
        ("sin(*x)", "'*x'"),
        ("(x := 3)", "'(x := 3)'"),
    ],
)
def test_what_is_not_arithmetic_is_refused_by_name(text, piece):
    with pytest.raises(ValueError, match="not allowed") as caught:
        read_expression(text)
    assert piece in str(caught.value)


def test_a_wrong_power_sign_is_explained():
    with pytest.raises(ValueError, match=r"'x \^ 2'.*Write \*\*"):
        read_expression("3*(x^2)")


@pytest.mark.parametrize(
    "text", ["x > 0.2 and y < 0.5", "(x > 0.2) & (y < 0.5)", "(x > 0.2) | y", "x < 0.2 or y < 0.5"]
)
def test_how_to_join_conditions_is_told(text):
    with pytest.raises(DisolError, match=r"joins conditions. Multiply them for both, as in \(x > 0.2\)\*\(y < 0.5\)"):
        read_expression(text)


@pytest.mark.parametrize("text", ["", "   ", "x +", "sin(x", "x y", "x\0", "import os", "x; y", "1" * (LONGEST + 1)])
def test_text_that_is_no_formula_is_an_error(text):
    with pytest.raises(ValueError, match="expression"):
        read_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "-" * 450 + "x",
        "(" * 220 + "x" + ")" * 220,
        "+".join(["x"] * (DEEPEST + 5)),
        "~" * 480 + "x",
        "not " * 120 + "x",
        "^".join(["x"] * 240),
        "x" + "[x" * 160 + "]" * 160,
        "x" + "(a=x" * 95 + ")" * 95,
        "x" + ".x" * 240,
    ],
)
def test_deep_nesting_is_an_error(text):
    with pytest.raises(ValueError, match="nested"):
        read_expression(text)


@pytest.mark.parametrize("text", ["lambda:" * 70 + "x", "await " * 80 + "x", "[" * 240 + "]" * 240, "f(" * 240])
def test_what_is_deeply_nested_and_wrong_is_one_line(text):
    with pytest.raises(DisolError, match="expression"):
        read_expression(text)


@pytest.mark.parametrize("text", ["-" * DEEPEST + "x", "-" * (DEEPEST + 1) + "x", "+".join(["x"] * (DEEPEST + 2))])
def test_the_deepest_expression_is_read_and_evaluated(text):
    if text.count("x") + text.count("-") > DEEPEST + 1:
        with pytest.raises(DisolError, match=f"nested more than {DEEPEST} deep"):
            read_expression(text)
    else:
        assert read_expression(text)(X, Y) == pytest.approx(X)


@pytest.mark.parametrize("text", ["1e999", "1" * 400])
def test_a_number_that_no_float_holds_is_an_error(text):
    with pytest.raises(ValueError, match="too large"):
        read_expression(text)


@pytest.mark.parametrize("text", ["sin(x, y)", "maximum(x)", "exp()", "where(x > y)"])
def test_functions_count_what_they_are_given(text):
    with pytest.raises(ValueError, match=r"takes [123] values"):
        read_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "1/(x - x)",
        "9**9**9**9",
        "99**" * 20 + "99",
        "exp(exp(exp(99)))",
        "log(-x)",
        "(x - 2)**0.5",
        "where(x > 0, 1/0, 1)",
    ],
)
def test_a_value_that_is_not_finite_is_an_error_that_names_a_point(text):
    domain = np.zeros((8, 8), dtype=bool)
    domain[2, 5] = True
    expression = read_expression(text)
    with pytest.raises(ValueError, match=r"x = 0.688, y = 0.312"):
        expression.require_finite(domain)


def test_only_the_domain_must_be_finite():
    domain = np.ones((8, 8), dtype=bool)
    domain[:, 0] = False
    read_expression("1/(x - 0.0625)").require_finite(domain)


def test_an_expression_is_a_source():
    domain = np.ones((16, 16))
    held = np.zeros((16, 16))
    held[0] = 1
    written = disol.solve_exact("poisson", domain=domain, dirichlet=held, source=read_expression("sin(6*x)*y"))
    coded = disol.solve_exact("poisson", domain=domain, dirichlet=held, source=lambda x, y: np.sin(6 * x) * y)
    assert (written.field == coded.field).all()


def test_layers_and_patches_are_formulas():
    domain, x = np.ones((16, 16)), (np.arange(16) + 0.5) / 16
    data = {"domain": domain, "dirichlet": {"left": 0, "right": "where(y < 0.5, 1, 2)"}}
    written = disol.solve_exact("poisson", **data, diffusion="where(x < 0.5, 1, 10)", source="(x > 0.25)*(y > 0.5)")
    layers = np.where(x < 0.5, 1.0, 10.0) * domain
    coded = disol.solve_exact(
        "poisson", **data, diffusion=layers, source=lambda x, y: ((x > 0.25) & (y > 0.5)).astype(float)
    )
    assert (written.field == coded.field).all()


@given(text=st.text(max_size=40) | st.text(alphabet="xy+-*/().0123456789sincoe^ ,<>=", max_size=40))
def test_any_text_is_a_formula_or_one_clear_error(text):
    try:
        expression = read_expression(text)
    except ValueError:
        return
    assert expression(X, Y).shape == X.shape
