"""The progress bar counts right, is honest about the time left, and shows itself only where it can be seen."""

import sys
from io import StringIO
from types import ModuleType, SimpleNamespace

import pytest
from rich.console import Console

import disol._progress as progress
from disol._progress import HiddenBar, NotebookBar, TerminalBar, shown_progress


class Clock:
    """Seconds that pass when told to."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


@pytest.fixture
def terminal(monkeypatch) -> StringIO:
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, force_jupyter=False, width=120)
    monkeypatch.setattr(progress, "_find_terminal", lambda: console)
    return screen


class Notebook:
    """What a browser was told to show; the last of it is what can be seen."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def display(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> "Notebook":
        assert raw
        assert display_id
        self.shown.append(bundle)
        return self

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(bundle)


@pytest.fixture
def notebook(monkeypatch) -> Notebook:
    return run_in_ipython(monkeypatch, kernel=object())


def run_in_ipython(monkeypatch, kernel: object) -> Notebook:
    notebook, package, display = Notebook(), ModuleType("IPython"), ModuleType("IPython.display")
    package.get_ipython = lambda: SimpleNamespace(kernel=kernel)
    display.display = notebook.display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return notebook


def test_a_whole_total_is_counted_and_any_other_is_shown_in_percent():
    with shown_progress("cases", 7000) as bar:
        bar.advance(3)
        bar.advance(2500)
        assert str(bar).startswith("2,503/7,000  ")
    with shown_progress("training", 1.0) as bar:
        bar.move_to(0.25)
        assert str(bar).startswith("25%  ")


def test_what_was_said_last_stands_beside_the_bar():
    with shown_progress("cases", 7) as bar:
        bar.say("first")
        bar.say("then")
        assert str(bar) == "0/7  -:--:-- left  then"


def test_the_time_left_goes_by_the_pace_since_the_bar_began(clock):
    with shown_progress("cases", 100, done=40) as bar:
        assert bar.seconds_left == float("inf")
        clock.now += 30
        bar.advance(20)
        assert bar.seconds_left == pytest.approx(60)
        assert str(bar) == "60/100  0:01:00 left"
        clock.now += 45
        assert bar.seconds_left == pytest.approx(15)
        clock.now += 45
        assert bar.seconds_left == 0
        bar.move_to(100)
        assert str(bar) == "100/100  took 0:02:00"


def test_a_time_that_nobody_can_tell_is_not_told(clock):
    with shown_progress("training", 1.0) as bar:
        clock.now += 1e6
        bar.move_to(1e-9)
        assert str(bar) == "0%  -:--:-- left"


def test_a_terminal_shows_title_bar_count_and_text(terminal):
    with shown_progress("poisson [tests]", 7) as bar:
        assert isinstance(bar, TerminalBar)
        bar.advance(7)
        bar.say("3 fallbacks [of 7]")
    last = terminal.getvalue().splitlines()[-2]
    for piece in ("poisson [tests]", "━", "7/7", "took 0:00:0", "3 fallbacks [of 7]"):
        assert piece in last


def test_an_error_within_a_terminal_bar_leaves_the_terminal_as_it_was(terminal):
    def interrupted() -> None:
        with shown_progress("cases", 7) as bar:
            bar.advance(2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    hidden, shown = "\x1b[?25l", "\x1b[?25h"
    assert terminal.getvalue().rindex(shown) > terminal.getvalue().rindex(hidden)
    assert "2/7" in terminal.getvalue()


def test_a_notebook_shows_one_element_that_is_updated_in_place(clock, notebook):
    with shown_progress("<cases>", 7) as bar:
        assert isinstance(bar, NotebookBar)
        for _ in range(7):
            clock.now += 1
            bar.advance(1)
        bar.say("a < b")
    first, last = notebook.shown[0], notebook.shown[-1]
    assert len(notebook.shown) == 9
    assert '<progress value="0" max="7"' in first["text/html"]
    assert '<progress value="7" max="7"' in last["text/html"]
    assert "&lt;cases&gt;" in last["text/html"]
    assert "a &lt; b" in last["text/html"]
    assert last["text/plain"] == "<cases>  7/7  took 0:00:07  a < b"


def test_a_notebook_is_not_flooded_and_shows_the_end(clock, notebook):
    with shown_progress("training", 1000) as bar:
        for _ in range(1000):
            clock.now += 0.001
            bar.advance(1)
    assert len(notebook.shown) < 10
    assert 'value="1000"' in notebook.shown[-1]["text/html"]


def test_ipython_in_a_terminal_is_a_terminal(monkeypatch, terminal):
    notebook = run_in_ipython(monkeypatch, kernel=None)
    with shown_progress("cases", 7) as bar:
        assert isinstance(bar, TerminalBar)
    assert notebook.shown == []


def test_nothing_is_shown_where_nobody_can_see_it(capsys):
    with shown_progress("cases", 7) as bar:
        bar.advance(7)
        assert isinstance(bar, HiddenBar)
    assert capsys.readouterr() == ("", "")


def test_nothing_is_shown_that_is_not_wanted(terminal, notebook):
    with shown_progress("cases", 7, wanted=False) as bar:
        bar.advance(7)
    assert terminal.getvalue() == ""
    assert notebook.shown == []
