"""Physical sizes: results do not depend on the unit of length, and are those of closed forms in it."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import disol
from disol.geometry.curve import eroded
from disol.geometry.frame import Frame

SIDE = 32


def plate() -> np.ndarray:
    domain = np.zeros((SIDE, SIDE))
    domain[8:24, 4:28] = 1
    domain[13:18, 12:20] = 0
    return domain


def agree(one: np.ndarray, other: np.ndarray) -> bool:
    return float(np.abs(one - other).max() / np.abs(other).max()) < 1e-12


def test_temperatures_are_the_same_in_metres_and_millimetres() -> None:
    # W/m becomes W/mm, per area and per length likewise.
    metres: dict[str, Any] = {
        "size": 0.2,
        "conductivity": 45.0,
        "source": lambda x, y: 1e4 * (1 + x / 0.2),
        "flux": {"right": 5e3},
        "convection": {"bottom": (30.0, 15.0)},
        "dirichlet": {"left": lambda x, y: 20 + 100 * y},
        "reaction": 200.0,
    }
    millimetres: dict[str, Any] = {
        "size": 200.0,
        "conductivity": 45.0,
        "source": lambda x, y: 1e-2 * (1 + x / 200),
        "flux": {"right": 5.0},
        "convection": {"bottom": (0.03, 15.0)},
        "dirichlet": {"left": "20 + 0.1*y"},
        "reaction": 2e-4,
    }
    fields = [
        disol.solve_exact("poisson", domain=plate(), conventions="physical", **data).field
        for data in (metres, millimetres)
    ]
    assert agree(*fields)


L_SHAPE = np.array([[0.1, 0.2], [0.5, 0.2], [0.5, 0.35], [0.25, 0.35], [0.25, 0.6], [0.1, 0.6]])  # in metres


@pytest.mark.parametrize("upwards", [False, True])
def test_a_drawing_is_the_same_in_metres_that_fit_in_the_unit_square_and_in_millimetres(upwards: bool) -> None:
    def drawn(unit: float) -> disol.Case:
        ring = (unit * L_SHAPE).tolist()
        return disol.read_case(
            "poisson",
            {"type": "Polygon", "coordinates": [ring]} if upwards else {"outer": ring},
            resolution=SIDE,
            coordinates="drawing",
            dirichlet={"left": 20, "right": lambda x, y: 80 + 50 * y / unit},
            flux={"bottom": 5 / unit},
            source=3 / unit**2,
        )

    metres, millimetres = (disol.solve_exact(drawn(unit)) for unit in (1.0, 1e3))
    assert agree(metres.field, millimetres.field)
    assert metres.at([[0.2, 0.4]]) == pytest.approx(millimetres.at([[200.0, 400.0]]), rel=1e-12)
    assert millimetres.case.length == pytest.approx(1e3 * metres.case.length)


def test_a_polygon_in_the_unit_square_stays_there_unless_told_otherwise_and_says_so() -> None:
    given: dict[str, Any] = {"geometry": {"outer": L_SHAPE.tolist()}, "resolution": SIDE, "dirichlet": "left=1"}
    asked, unasked = (disol.read_case("poisson", **given, coordinates=each) for each in ("grid", None))
    assert asked.frame == unasked.frame == Frame()
    assert (asked.domain == unasked.domain).all()
    assert asked.notes == ()
    assert "was left where it is" in unasked.notes[0]
    assert "give coordinates='drawing'" in unasked.notes[0]
    fitted = disol.read_case("poisson", **given, coordinates="drawing")
    assert fitted.domain.sum() > 3 * asked.domain.sum()
    assert "moved and scaled" in fitted.notes[0]


@pytest.mark.parametrize(
    ("geometry", "coordinates", "message"),
    [
        (
            {"outer": (9 * L_SHAPE).tolist()},
            "grid",
            "leaves the unit square, which the grid covers",
        ),
        ({"outer": L_SHAPE.tolist()}, "metres", "coordinates must be 'drawing' or 'grid', got 'metres'"),
        ("star", "drawing", "coordinates are for polygons, got star. Leave out coordinates"),
    ],
)
def test_coordinates_that_cannot_be_are_one_clear_error(geometry: Any, coordinates: str, message: str) -> None:
    with pytest.raises(disol.DisolError, match=message):
        disol.read_case("poisson", geometry, coordinates=coordinates)


def test_displacements_are_in_the_unit_of_the_drawing() -> None:
    held: dict[str, Any] = {"fix_x": {"left": 0}, "fix_y": {"left": 0}, "domain": plate(), "conventions": "physical"}
    # N/m² and N/mm², and a weight per volume.
    metres = disol.solve_exact(
        "elasticity", **held, size=0.2, young=210e9, force_y={"right": 2e6}, body_force=(0.0, 77e3)
    )
    millimetres = disol.solve_exact(
        "elasticity", **held, size=200.0, young=210e3, force_y={"right": 2.0}, body_force=(0.0, 77e-6)
    )
    assert agree(1e3 * metres.field, millimetres.field)


def test_heat_in_units_is_that_of_its_diffusivity() -> None:
    # A bar, insulated but for its left end: exp(−a t (π/2l)²) sin(π x/2l), a = κ / (ρ c).
    domain = np.zeros((SIDE, SIDE))
    domain[12:20, :] = 1
    length, diffusivity = 0.1, 45.0 / (7850 * 460)
    wave = np.pi / 2 / length
    found = disol.solve_exact(
        "heat",
        domain=domain,
        size=length,
        conductivity=45.0,
        density=7850.0,
        capacity=460.0,
        dirichlet={"left": 0},
        initial=lambda x, y: np.sin(wave * x),
        times=[60.0],
        conventions="physical",
    )
    x = length * (np.arange(SIDE) + 0.5) / SIDE
    assert found.field[0, 0, 15] == pytest.approx(np.exp(-diffusivity * 60 * wave**2) * np.sin(wave * x), rel=1e-3)


def test_heat_is_in_units_in_a_grid_of_any_size() -> None:
    given: dict[str, Any] = {"domain": plate(), "dirichlet": {"left": 0}, "source": 1.0, "initial": 2.0, "times": [2.0]}
    one, near = (disol.solve_exact("heat", **given, size=size) for size in (1.0, 1.0 + 1e-9))
    assert one.field == pytest.approx(near.field, abs=1e-8)


def test_times_of_a_drawing_are_a_list_or_a_text() -> None:
    listed, written = (
        disol.read_case("heat", "star", resolution=16, dirichlet={"left": 1}, source="1", initial="0", times=times)
        for times in ([2, 6], "2,6")
    )
    assert listed.times == written.times == (2.0, 6.0)
    with pytest.raises(disol.DisolError, match="times are seconds from 0 to 10000"):
        disol.read_case("heat", "star", resolution=16, dirichlet={"left": 1}, times=[20000, 2])


def test_heat_that_flows_in_warms_an_insulated_body_by_what_it_can_hold() -> None:
    domain = np.ones((SIDE, SIDE))
    given: dict[str, Any] = {"domain": domain, "size": 0.1, "initial": 20, "conventions": "physical", "times": [200.0]}
    found = disol.solve_exact("heat", **given, conductivity=400.0, density=8900.0, capacity=385.0, flux={"left": 1e4})
    warmed = 1e4 * 0.1 * 200 / (8900 * 385 * 0.1**2)
    assert found.field.mean() - 20 == pytest.approx(warmed, rel=1e-6)
    cooled = disol.solve_exact(
        "heat",
        **(given | {"times": [4000.0]}),
        conductivity=400.0,
        density=890.0,
        capacity=385.0,
        convection={"outer": (500, 5)},
    )
    assert cooled.field == pytest.approx(np.full((1, 1, SIDE, SIDE), 5.0), abs=1e-3)


def test_a_step_of_ones_own_reaches_other_times() -> None:
    domain = np.ones((16, 16))
    given: dict[str, Any] = {"domain": domain, "conductivity": 1.0, "initial": "sin(pi*x)", "dirichlet": "left,right"}
    found = disol.solve_exact("heat", **given, times=[0.01, 0.05], time_step=0.001)
    damped = np.exp(-(np.pi**2) * np.array([0.01, 0.05]))
    assert found.field[:, 0, 8, 7] / np.sin(np.pi * 7.5 / 16) == pytest.approx(damped, rel=0.01)
    assert found.amplitude == pytest.approx(np.sin(np.pi * 7.5 / 16))  # at the start
    day = disol.solve_exact("heat", **given, density=1e6, times=[86400.0], time_step=3600.0)
    assert day.field[0, 0, 8, 7] / np.sin(np.pi * 7.5 / 16) == pytest.approx(np.exp(-(np.pi**2) * 0.0864), rel=0.01)
    with pytest.raises(disol.DisolError, match=r"times must be multiples of the time step, 0\.01 s"):
        disol.solve_exact("heat", **given, times=[0.015], time_step=0.01)
    with pytest.raises(disol.DisolError, match="poisson has no time steps"):
        disol.solve_exact("poisson", domain=domain, dirichlet={"left": 1}, time_step=1.0)


def test_values_of_pixels_are_those_of_a_function_along_their_sides() -> None:
    domain, marked = plate(), np.zeros((SIDE, SIDE))
    marked[8:24, 4] = 1
    values = np.zeros((SIDE, SIDE))
    values[8:16, 4], values[16:24, 4] = 20.0, 80.0
    by_pixel = disol.solve_exact(
        "poisson", domain=domain, dirichlet=marked, dirichlet_values=values, source=1.0, conventions="physical"
    )
    by_part = disol.solve_exact(
        "poisson",
        domain=domain,
        dirichlet={"left": lambda x, y: np.where(y < 0.5, 20.0, 80.0)},
        source="1",
        conventions="physical",
    )
    assert agree(by_pixel.field, by_part.field)
    assert by_pixel.case.stated[0].part == "marked pixels"


def test_plane_stress_is_softer_than_plane_strain_by_the_known_factor() -> None:
    # Uniaxial tension: E in plane stress, E / (1 − ν²) in plane strain.
    bar = np.zeros((SIDE, SIDE))
    bar[12:20, 4:28] = 1
    held: dict[str, Any] = {"fix_x": {"left": 0}, "fix_y": {"near:0.5,0.7": 0}, "force_x": {"right": 1.0}}
    held |= {"domain": bar, "poisson_ratio": 0.25, "young": 10.0, "conventions": "physical"}
    stress, strain = (disol.solve_exact("elasticity", **held, plane=plane).field[0] for plane in ("stress", "strain"))
    x = (np.arange(4, 28) - 4 + 0.5) / SIDE
    assert stress[15, 4:28] == pytest.approx(x / 10, rel=1e-9)
    assert strain[15, 4:28] == pytest.approx(x * (1 - 0.25**2) / 10, rel=1e-9)


def test_conditions_are_stated_on_the_curves_of_a_drawn_case() -> None:
    case = disol.draw("poisson", 3, resolution=SIDE, conventions="physical")
    warm = disol.solve_exact(case, dirichlet={"outer": 7}, source=0)
    assert warm.case.boundary == "true"
    assert warm.field[0][case.domain] == pytest.approx(np.full(int(case.domain.sum()), 7.0))
    edge, marked = case.domain & ~eroded(case.domain), warm.case.channel("dirichlet") == 1
    assert (marked & edge).sum() > 0.95 * edge.sum()
    again = disol.solve_exact(warm.case, dirichlet={"outer": 8})
    assert again.field[0][case.domain] == pytest.approx(np.full(int(case.domain.sum()), 8.0))


@pytest.mark.parametrize("unit", [1e-18, 1e-9, 1e9])
def test_a_drawing_whose_y_points_upwards_is_the_same_in_every_unit(unit: float) -> None:
    corners = np.array([[0.0, 0.0], [4.0, 1.0], [3.0, 5.0], [-1.0, 3.0]])
    fields = [
        disol.solve_exact(
            disol.read_case(
                "poisson",
                {"type": "Polygon", "coordinates": [(scale * corners).tolist()]},
                resolution=16,
                dirichlet={"outer": lambda x, y, scale=scale: x / scale + 2 * y / scale},
                source=0.0,
            )
        ).field
        for scale in (10.0, unit)
    ]
    assert agree(fields[1], fields[0])


def test_coordinates_of_a_drawing_come_back_from_the_grid() -> None:
    frame = Frame((3.0, 50.0), 20.0, upwards=True)
    points = np.random.default_rng(0).uniform(size=(7, 2))
    assert frame.to_grid(frame.to_drawing(points)) == pytest.approx(points)
    assert frame.to_drawing(np.array([0.5, 1.0])) == pytest.approx([13.0, 30.0])
    assert frame.on_grid(lambda x, y: x + y)(0.5, 1.0) == pytest.approx(43.0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"size": 0}, "size must be positive"),
        ({"size": "3 mm"}, "size must be a number"),
        ({"size": 1e80}, "size must lie in"),
        ({"plane": "stress"}, "poisson has no plane"),
        ({"conductivity": 1.0, "diffusion": 1.0}, "conductivity and diffusion are the same"),
        ({"flux": "right"}, "flux on 'right' has no value"),
        ({"convection": "right=5"}, "as text H:OUTSIDE"),
        ({"flux": {"left": 3}}, "share a piece"),
        ({"dirichlet_values": np.ones((3, 3))}, "dirichlet_values must have the domain's shape"),
        ({"source": float("nan")}, "source must be finite"),
        ({"body_force": (0, 1)}, "has no 'body_force'"),
        ({"domain": [[1, 1], [1]], "source": None}, "domain must be one array"),
    ],
)
def test_what_is_no_unit_or_no_part_is_told_in_a_line(data: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"domain": plate(), "dirichlet": {"left": 0}, "source": 1.0, "conventions": "physical"}
    with pytest.raises(disol.DisolError, match=message) as caught:
        disol.solve_exact("poisson", **(given | data))
    assert "\n" not in str(caught.value)


def test_a_plane_of_no_kind_is_told_in_a_line() -> None:
    for plane in ("shear", 3, np.ones((2, 3))):
        with pytest.raises(disol.DisolError, match="plane must be 'strain' or 'stress'"):
            disol.Case.from_arrays("elasticity", domain=plate(), fix_x={"left": 0}, fix_y={"left": 0}, plane=plane)


SQUARE: dict[str, Any] = {"outer": [[0, 0], [100, 0], [100, 100], [0, 100]]}  # in millimetres


def test_a_step_of_ones_own_decides_which_times_a_drawing_can_be_asked_for() -> None:
    material = {"conductivity": 0.05, "density": 1e-5, "capacity": 500.0, "initial": 20, "resolution": 16}
    early = disol.read_case("heat", SQUARE, **material, dirichlet="left=20", times=[0.1, 0.3], time_step=0.1)
    assert early.times == (0.1, 0.3)
    # A week: the temperature falls linearly from 100 to 20 + q / h at the right end.
    late = disol.solve_exact(
        disol.read_case(
            "heat", SQUARE, **material, dirichlet="left=100", convection="right=0.01:20", times=604800, time_step="3600"
        )
    )
    assert late.total_flux("left") == pytest.approx([100 * 80 / (100 / 0.05 + 1 / 0.01)])
    for step, time in ((0.1, 0.25), (10, 15)):
        with pytest.raises(disol.DisolError, match=f"multiples of the time step, {step} s, got"):
            disol.read_case("heat", SQUARE, **material, times=[time], time_step=step)
    with pytest.raises(disol.DisolError, match="at most 100,000 time steps of 1 s"):
        disol.read_case("heat", SQUARE, **material, times=[1e6], time_step=1)


def test_fields_with_a_name_have_their_shape_in_every_unit() -> None:
    given: dict[str, Any] = {"coordinates": "drawing", "resolution": SIDE, "dirichlet": "left"}
    fields = []
    for unit in (0.01, 1.0, 1000.0):
        outline = {"outer": (unit * np.array(SQUARE["outer"])).tolist()}
        warm = disol.read_case("heat", outline, **given, source="spots", initial="gaussian")
        fields.append([warm.channel("source"), warm.channel("initial")])
    assert np.max(fields[0]) > 0.9
    assert agree(np.array(fields[1]), np.array(fields[0]))
    assert agree(np.array(fields[2]), np.array(fields[0]))


def test_a_case_that_is_driven_has_no_loads_and_supports_that_nobody_gave() -> None:
    material = {"conductivity": 0.05, "density": 1e-5, "capacity": 500.0, "resolution": 16, "times": [20]}
    # Insulated all around, a body warms by what flows in, over what it can hold.
    heated = disol.solve_exact(disol.read_case("heat", SQUARE, **material, source=1e-3, initial=20))
    assert heated.at([[50, 50], [3, 98]]) == pytest.approx(np.full((1, 1, 2), 20 + 1e-3 * 20 / 5e-3))
    filled = disol.solve_exact(disol.read_case("heat", SQUARE, **material, flux="outer=0.01", initial=20))
    assert [each.what for each in filled.totals()] == ["source", "storage", "flux", "balance"]
    # Pulled by a prescribed displacement alone, ν = 0: uniform stress E u / l.
    pulled = disol.solve_exact(
        disol.read_case(
            "elasticity", SQUARE, fix_x="left,right=0.1", fix_y="top", young=1e3, poisson_ratio=0.0, resolution=16
        )
    )
    assert pulled.stress[0][pulled.domain] == pytest.approx(1.0)
    assert {what for what, _, _ in pulled.totals()} == {"fix_x", "fix_y", "balance"}


def test_errors_tell_places_in_the_coordinates_of_the_drawing() -> None:
    with pytest.raises(disol.DisolError, match=r"around x = 50, y = 50 is not held against translation") as caught:
        disol.solve_exact(disol.read_case("elasticity", SQUARE, fix_x="left", force_x="right"))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    touching = SQUARE | {"holes": [[[80, 20], [100, 40], [80, 60]]]}
    with pytest.raises(disol.DisolError, match=r"cross or touch near x = 100, y = 40"):
        disol.solve_exact(disol.read_case("poisson", touching, dirichlet="left"))


def test_a_file_of_arrays_has_the_coordinates_of_its_pixels(tmp_path: Path) -> None:
    for upwards in (False, True):
        ring = SQUARE["outer"]
        case = disol.read_case(
            "poisson",
            {"type": "Polygon", "coordinates": [ring]} if upwards else {"outer": ring},
            dirichlet="outer=x + 3*y",
            resolution=16,
        )
        with np.load(disol.solve_exact(case).save(tmp_path / "plane.npz")) as file:
            x, y = np.meshgrid(file["x"], file["y"])
            assert file["field"][0][file["domain"]] == pytest.approx((x + 3 * y)[file["domain"]])
