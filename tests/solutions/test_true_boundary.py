"""On their true boundary cases are solved to a fraction of the error of pixels, whatever describes them."""

import json

import numpy as np
import pytest
from PIL import Image

import disol
from disol import Case, DisolError
from disol.data import generate
from disol.solutions.true_boundary import cut_system, solve_finer

PHYSICAL = {"conventions": "physical"}


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize(("shift", "median", "worst"), [(None, 0.008, 0.02), ("all", 0.01, 0.03)])
def test_drawn_cases_are_near_the_solution_on_a_fine_grid_and_pixels_are_not(shift, median, worst):
    errors = []
    for index in range(5):
        case = disol.draw("poisson", 2, index, shift=shift, **PHYSICAL)
        pixels, reference = (
            disol.solve_exact(disol.draw("poisson", 2, index, shift=shift, conventions="paper")).field,
            solve_finer(case, 4)[0],
        )
        errors.append([relative(disol.solve_exact(case).field, reference), relative(pixels, reference)])
    true, pixel = np.array(errors).T
    assert np.median(true) < median
    assert true.max() < worst
    assert np.median(pixel) > 4 * np.median(true)


def tilted_strip(folder):
    """A strip of length ½ and width ¼, turned by 30 degrees; its left end is the range outer:0.8333-1 of its loop."""
    along, across = np.array([np.cos(np.pi / 6), np.sin(np.pi / 6)]), np.array([-np.sin(np.pi / 6), np.cos(np.pi / 6)])
    start = np.array([0.37, 0.19])
    corners = [start, start + along / 2, start + along / 2 + across / 4, start + across / 4]
    path = folder / "strip.json"
    path.write_text(json.dumps({"outer": [corner.tolist() for corner in corners]}))
    return path, along, start


def test_a_polygon_is_held_on_a_range_of_its_own_length(tmp_path):
    path, along, start = tilted_strip(tmp_path)
    terms = {"dirichlet": f"outer:{10 / 12}-1", "source": "1"}
    errors = {}
    for side in (32, 64, 128):
        case = disol.read_case("poisson", path, resolution=side, **terms, **PHYSICAL)
        assert case.boundary == "true"
        solution = disol.solve_exact(case)
        x, y = case.grid.pixel_centres()
        place = (x - start[0]) * along[0] + (y - start[1]) * along[1]
        errors[side] = relative(solution.field[0], (place / 2 - place**2 / 2) * case.domain)
        assert solution.estimate_distance() > errors[side] / 2
    assert errors[64] < 2e-3
    assert errors[32] / errors[64] > 3
    assert errors[64] / errors[128] > 3
    pixels = disol.solve_exact(disol.read_case("poisson", path, **terms, conventions="paper"))
    assert relative(pixels.field[0], solution.field[0, ::2, ::2][:64, :64]) > 0.03


def test_a_picture_is_traced_between_its_pixels(tmp_path):
    side, radius = 300, 0.31
    x, y = np.meshgrid((np.arange(side) + 0.5) / side, (np.arange(side) + 0.5) / side)
    r = np.hypot(x - 0.503, y - 0.4971)
    ink = np.clip(side * (radius - r) + 0.5, 0, 1)  # smooth over the pixels that the circle passes through
    rgb = np.stack([255 * (1 - ink)] * 3, axis=-1)
    left = (r > radius - 4 / side) & (x < 0.503) & (ink > 0.5)
    rgb[left] = 255, 0, 0
    Image.fromarray(rgb.astype(np.uint8)).save(tmp_path / "half.png")
    rgb[(r > radius - 4 / side) & (ink > 0.5)] = 255, 0, 0
    Image.fromarray(rgb.astype(np.uint8)).save(tmp_path / "disc.png")
    case = disol.read_case("poisson", tmp_path / "disc.png", source="1", **PHYSICAL)
    assert case.boundary == "true"
    x, y = case.grid.pixel_centres()
    exact = (radius**2 - (x - 0.503) ** 2 - (y - 0.4971) ** 2) / 4 * case.domain
    assert relative(disol.solve_exact(case).field[0], exact) < 5e-3
    pixels = disol.solve_exact(disol.read_case("poisson", tmp_path / "disc.png", source="1", conventions="paper"))
    assert relative(pixels.field[0], exact) > 0.05
    half = disol.read_case("poisson", tmp_path / "half.png", source="1", **PHYSICAL)
    ((segment,),) = (markers.segments for markers in half.sketch["dirichlet"])
    assert segment.length == pytest.approx(0.5, abs=0.02)
    loop = half.region.loops[0]
    assert loop.at(segment.start + segment.length / 2)[0] == pytest.approx(0.503 - radius, abs=0.01)
    assert half.notes == ()
    rgb[140:160, 140:160] = 255, 0, 0
    Image.fromarray(rgb.astype(np.uint8)).save(tmp_path / "inside.png")
    (note,) = disol.read_case("poisson", tmp_path / "inside.png", source="1", **PHYSICAL).notes
    assert "holds pixels, but nothing on a true boundary" in note
    written = disol.read_case("poisson", tmp_path / "disc.png", source="1", dirichlet="outer", **PHYSICAL)
    assert relative(disol.solve_exact(written).field[0], exact) < 5e-3


def test_a_picture_of_noise_is_not_traced(tmp_path):
    noise = np.random.default_rng(0).integers(0, 2, (800, 800), dtype=np.uint8) * 255
    noise[:, :300] = 0
    Image.fromarray(noise).save(tmp_path / "noise.png")
    with pytest.raises(DisolError, match=r"at most 200000 are traced\. Smooth the picture\."):
        disol.read_case("poisson", tmp_path / "noise.png", dirichlet="outer:0-0.1", **PHYSICAL)


def rectangle(side):
    domain = np.zeros((side, side))
    domain[side // 4 : 3 * side // 4, side // 8 : 7 * side // 8] = 1
    left, right = np.zeros((2, side, side))
    left[:, side // 8], right[:, 7 * side // 8 - 1] = domain[:, side // 8], domain[:, 7 * side // 8 - 1]
    return domain, left, right


def test_a_mask_is_held_at_the_outer_sides_of_its_pixels_to_second_order():
    errors = []
    for side in (32, 64, 128):
        domain, left, _ = rectangle(side)
        solution = disol.solve_exact("poisson", domain=domain, dirichlet=left, source=domain, **PHYSICAL)
        assert solution.case.boundary == "edges"
        place = (np.arange(side) + 0.5) / side - 1 / 8
        errors.append(relative(solution.field[0], (0.75 * place - place**2 / 2) * domain))
    assert errors[1] < 1e-3
    assert 1.85 < np.log2(errors[0] / errors[2]) / 2 < 2.15


def test_a_traction_is_a_force_per_length():
    domain, left, right = rectangle(32)
    bar = disol.solve_exact(
        "elasticity", domain=domain, fix_x=left, fix_y=left, force_x=right, force_y=0 * right, young=7.0,
        poisson_ratio=0.0, **PHYSICAL,
    )  # fmt: skip
    place = (np.arange(32) + 0.5) / 32 - 1 / 8
    assert bar.field[0] == pytest.approx(place / 7 * domain, abs=1e-9)
    assert np.abs(bar.field[1]).max() < 1e-9


def test_where_bilinear_elements_lock_is_told():
    def bar(depth, **numbers):
        body, end = np.zeros((2, 32, 32))
        body[8 : 8 + depth, 4:28], end[8 : 8 + depth, 27] = 1, 1
        held = np.roll(end, -23, axis=1)
        terms = {"domain": body, "fix_x": held, "fix_y": held, "force_x": 0 * end, "force_y": end}
        return disol.solve_exact("elasticity", **terms, **numbers, **PHYSICAL)

    bar(4)
    with pytest.warns(UserWarning, match="48 pixels of the domain are in walls thinner than 4 pixels") as caught:
        bar(2)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="Poisson's ratio is 0.48: displacements are less accurate"):
        bar(6, poisson_ratio=0.48)


def test_where_a_tensor_at_an_angle_to_the_grid_locks_is_told():
    domain, left, _ = rectangle(32)
    terms = {"domain": domain, "dirichlet": left, "source": domain, **PHYSICAL}
    turn = np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    slanted = turn @ np.diag([1.0, 2000.0]) @ turn.T
    disol.solve_exact("poisson", **terms, diffusion=np.diag([1.0, 2000.0]))
    disol.solve_exact("poisson", **terms, diffusion=turn @ np.diag([1.0, 20.0]) @ turn.T)
    with pytest.warns(UserWarning, match="diffusion is 2,000 times larger along one of its main axes") as caught:
        disol.solve_exact("poisson", **terms, diffusion=slanted)
    assert caught[0].filename == __file__
    varying = slanted[..., None, None] * np.ones((32, 32))
    with pytest.warns(UserWarning, match="conductivity is"):
        disol.solve_exact("heat", **terms, initial=domain, conductivity=varying, times=[1], time_step=1)


def test_heat_starts_at_its_initial_field_and_ends_at_the_steady_solution():
    domain, left, _ = rectangle(32)
    terms = {"domain": domain, "dirichlet": left, "source": domain}
    heat = disol.solve_exact("heat", **terms, initial=domain, times=[0, 40, 800], time_scale=0.1, **PHYSICAL)
    steady = disol.solve_exact("poisson", **terms, **PHYSICAL)
    assert np.array_equal(heat.field[0, 0], domain)
    assert relative(heat.field[2], 3 * steady.field) < 1e-3
    assert 0 < heat.estimate_distance() < 0.05


def test_the_distance_is_at_least_half_the_true_one():
    for problem, side in (("poisson", 32), ("advection-diffusion-high", 32), ("elasticity", 32)):
        for index in range(3):
            case = disol.draw(problem, 5, index, resolution=side, **PHYSICAL)
            solution = disol.solve_exact(case)
            true = relative(solution.field, solve_finer(case, 4)[0])
            assert 0.5 * true < solution.estimate_distance() < 12 * true


@pytest.mark.parametrize("diffusion", [2.0**-600, 2.0**600])
def test_units_change_sizes_and_nothing_else(diffusion):
    domain, left, _ = rectangle(32)
    usual, other = (
        disol.solve_exact("poisson", domain=domain, dirichlet=left, source=domain, diffusion=number, **PHYSICAL)
        for number in (1.0, diffusion)
    )
    assert relative(other.field * diffusion, usual.field) < 1e-12
    assert other.estimate_distance() == pytest.approx(usual.estimate_distance())
    with pytest.raises(DisolError, match="overflows"):
        disol.solve_exact("poisson", domain=domain, dirichlet=left, source=1e300 * domain, diffusion=1e-300, **PHYSICAL)


def test_the_system_of_a_case_shows_its_matrix():
    case = disol.draw("poisson", 2, 0, resolution=32, **PHYSICAL)
    system = disol.system(case)
    assert system.matrix.shape == (len(system.load), len(system.load))
    field = system.solve()
    assert np.abs(system.residual(field.values)).max() < 1e-12
    assert system.energy(field.values) == pytest.approx(0.5 * system.load @ field.values[:, 0])
    component, row, column = system.unknowns.T
    assert (component == 0).all()
    assert np.array_equal(system.to_vector(field.nodes()), field.values[:, 0])
    assert field.nodes()[0, row[5], column[5]] == field.values[5, 0]
    assert 0 < disol.solve_exact(case).rounding_error < 1e-10
    assert len(repr(system)) < 120
    assert abs(system.matrix - system.matrix.T).max() < 1e-12
    assert np.linalg.eigvalsh(system.matrix.toarray()).min() > 0


def test_what_true_boundaries_cannot_do_is_refused_in_one_line(tmp_path):
    case = disol.draw("poisson", 2, 0, resolution=32, **PHYSICAL)
    pixels = disol.solve_exact(disol.draw("poisson", 2, 0, resolution=32, conventions="paper"))
    attempts = {
        "are solved on a CPU, got device 'cuda'": lambda: disol.solve_exact([case, case], device="cuda"),
        "Conventions on pixels are paper and published": lambda: case.on_pixels("physical"),
        "are q1, got 'p1'": lambda: disol.solve_exact(case, element="p1"),
        "cut at the true boundary are q1": lambda: disol.system(case, element="p1"),
        "Use disol.system": case.system,
        "Files hold cases on pixels": lambda: generate("poisson", 2, tmp_path / "x.h5", **PHYSICAL),
        'Solve it with conventions="physical"': pixels.estimate_distance,
        "A region is for one case": lambda: cut_system(Case.stack([case, case])),
        "was drawn with conventions 'physical'": lambda: disol.solve_exact(case, conventions="paper"),
    }
    for message, attempt in attempts.items():
        with pytest.raises(DisolError, match=message) as raised:
            attempt()
        assert len(str(raised.value).splitlines()) == 1


def test_problems_are_on_their_true_boundary_unless_told_and_those_without_a_form_on_pixels():
    domain, left, _ = rectangle(32)
    terms = {"domain": domain, "dirichlet": left, "source": domain}
    assert disol.draw("poisson", resolution=32).boundary == "true"
    assert disol.read_case("poisson", "star", resolution=32).boundary == "true"
    assert Case.from_arrays("poisson", **terms).boundary == "edges"
    found = disol.solve_exact("poisson", **terms)
    assert np.array_equal(found.field, disol.solve_exact("poisson", **terms, **PHYSICAL).field)
    assert disol.system("poisson", **terms).residual(disol.system("poisson", **terms).solve().values).max() < 1e-12
    assert np.abs(found.field - disol.solve_exact("poisson", **terms, conventions="paper").field).max() > 1e-3

    class Doubled(type(disol.PROBLEMS["poisson"])):
        """Its element matrix is its own, and the form that it inherits is not."""

        def element_matrix(self, element, conventions):
            return 2 * super().element_matrix(element, conventions)

    own = Doubled("doubled", "−2 ΔU = f", resolution=32)
    assert disol.draw(own).boundary == "pixels"
    halved = disol.solve_exact(own, **terms).nodes
    assert halved == pytest.approx(disol.solve_exact("poisson", **terms, conventions="paper").nodes / 2)
    with pytest.raises(DisolError, match="doubled knows only the conventions 'paper', 'published', got 'physical'"):
        disol.draw(own, **PHYSICAL)


def test_numbers_beyond_doubles_are_refused_in_one_line():
    domain, left, _ = rectangle(32)
    terms = {"domain": domain, "dirichlet": left, "source": domain}
    heat = {**terms, "initial": domain}
    attempts = {
        "The solution underflows": ("poisson", {**terms, "diffusion": 1e300, "source": 1e-20 * domain}),
        "The solution overflows": ("poisson", {**terms, "diffusion": 1e-310}),
        "The system overflows": ("poisson", {**terms, "diffusion": 1.7e308, "velocity": (1e308, 1e308)}),
        "The load overflows": ("poisson", {"domain": domain, "dirichlet": {"left": 1e300}, "diffusion": 1e10}),
        "The load underflows": ("heat", {**heat, "time_scale": 1e-250, "source_strength": 1e-110}),
    }
    for message, (problem, data) in attempts.items():
        with pytest.raises(DisolError, match=message) as raised:
            disol.solve_exact(problem, **data)
        assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("value", [6e307, 1e308])
def test_values_that_overflow_on_their_way_through_a_polygon_are_not_called_singular(value):
    wall = {"outer": [[0, 0], [300, 0], [300, 200], [0, 200]]}
    for given in ({"dirichlet": {"left": value, "right": 0}}, {"dirichlet": {"left": 0}, "flux": {"right": value}}):
        with pytest.raises(DisolError, match=r"(load|solution) overflows"):
            disol.solve_exact(disol.read_case("poisson", wall, **given, **PHYSICAL))


def test_a_hole_inside_one_pixel_is_met_on_the_true_boundary_and_noted_on_pixels():
    side, corner = 0.002, 0.501
    corners = [[corner, corner], [corner + side, corner], [corner + side, corner + side], [corner, corner + side]]
    plate = {"outer": [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]], "holes": [corners]}
    case = disol.read_case("poisson", plate, dirichlet={"outer": 0}, flux={"hole1": 3}, **PHYSICAL)
    assert case.notes == ()
    assert disol.solve_exact(case).total_flux("outer") == pytest.approx(-3 * 4 * side)
    (note,) = disol.read_case("poisson", plate, conventions="paper").notes
    assert note.startswith("hole 1 of the outline is too small for this grid")


def test_heat_of_any_speed_is_solved():
    domain, left, _ = rectangle(16)
    terms = {"domain": domain, "dirichlet": left, "source": domain}
    steady = disol.solve_exact("poisson", **terms)
    for scale in (1e3, 1e290):
        heat = disol.solve_exact("heat", **terms, initial=0 * domain, times=[20], time_scale=scale)
        assert heat.field[0] == pytest.approx(3 * steady.field, rel=1e-9)
        assert heat.rounding_error < 1e-11


@pytest.mark.parametrize(("island", "at_least", "at_most"), [(1.0, 0.0, 1e-12), (1e10, 1e-6, 1e-3)])
def test_steps_of_time_are_no_further_off_than_they_say(island, at_least, at_most):
    domain, left = np.zeros((2, 10, 10))
    domain[1:-1, 1:-1], left[1:-1, 1], conductivity = 1, 1, np.ones((10, 10))
    conductivity[3:7, 3:7] = island
    terms = {"domain": domain, "dirichlet": left, "source": domain, "initial": 0 * domain}
    case = Case.from_arrays("heat", **terms, conductivity=conductivity)
    system, share, largest = cut_system(case), np.longdouble(2) * (1 - np.sqrt(np.longdouble(0.5))), 0.0
    stiffness, mass = (np.longdouble(matrix.toarray()) for matrix in (system.matrix, system.mass))
    momentum, ahead = np.zeros(len(mass), dtype=np.longdouble), np.sqrt(np.longdouble(2)) + 1
    for number, frame in enumerate(system.march_and_estimate(terms["initial"], 2.0, 5)):
        inner = 8 if number == 0 else 1
        inverse = inverted(mass + share / inner * stiffness)
        for _ in range(inner):
            load = share / inner * system.load
            middle = inverse @ (momentum + load)
            values = inverse @ (momentum + ahead * (mass @ middle - momentum) + load)
            momentum = mass @ values
        largest = max(largest, np.abs(values).max())
        assert np.abs(frame.values[:, 0] - values).max() <= frame.rounding_error * largest
    assert at_least <= frame.rounding_error <= at_most


def inverted(matrix):
    """Invert by elimination, in long doubles, which NumPy's LAPACK does not know."""
    rows = np.concatenate([matrix, np.eye(len(matrix), dtype=np.longdouble)], axis=1)
    for place in range(len(matrix)):
        rows[place] /= rows[place, place]
        others = np.arange(len(matrix)) != place
        rows[others] -= rows[others, place, None] * rows[place]
    return rows[:, len(matrix) :]


def test_a_march_tells_what_rounding_may_have_changed():
    domain, left = np.zeros((2, 10, 10))
    domain[1:-1, 1:-1], left[1:-1, 1], conductivity = 1, 1, np.ones((10, 10))
    conductivity[3:7, 3:7] = 1e10
    terms = {"domain": domain, "dirichlet": left, "source": domain, "initial": domain}
    with pytest.warns(UserWarning, match="The system is ill-conditioned"):
        *_, last = disol.system("heat", **terms, conductivity=conductivity).march(1.0, 2.0, 10)
    with pytest.warns(UserWarning, match="The system is ill-conditioned"):
        found = disol.solve_exact("heat", **terms, conductivity=conductivity)
    assert found.rounding_error == pytest.approx(last.rounding_error, rel=0.1)
