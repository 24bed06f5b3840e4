"""The command line application, and what its commands share."""

import sys
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from disol import __version__

app = typer.Typer(
    help="Solve PDEs on changing geometries. Start with `disol solve`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console(highlight=False)

# What several commands take.
ProblemName = Annotated[str, typer.Argument(help="Which problem; `disol problems` lists them.")]
ConventionsName = Annotated[str, typer.Option(help="paper or published.")]
DeviceName = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:NUMBER.")]
Resolution = Annotated[int | None, typer.Option(help="Pixels along a side.")]
Sequence = Annotated[int, typer.Option(help="Which sequence of cases.")]

# Some versions of typer bring their own copy of click; this is the base of all usage errors in either.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
INTERRUPTED = 130


def main() -> None:
    """Run the command; a wrong input is one line and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except (ValueError, UsageError) as error:
        fail(error)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        Console(stderr=True).print("interrupted; generate and train go on with --resume")
    sys.exit(code)


def fail(error: Exception) -> NoReturn:
    """Print what is wrong, unless it has been shown already, and exit."""
    message = getattr(error, "format_message", error.__str__)()  # a usage error names its option only there
    if message:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[red]error:[/] {one_line(message)}")
    sys.exit(2)


def one_line(message: object) -> str:
    """Return a message that can be printed as it is."""
    return escape(" ".join(str(message).split()))


def note(message: object) -> None:
    """Print something to know in one yellow line."""
    console.print(f"[yellow]note:[/] {one_line(message)}", soft_wrap=True)


def print_rows(rows: list[tuple[str, str]]) -> None:
    """Print names and values."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in rows:
        table.add_row(name, escape(value))
    console.print(table)


def show_version(asked: bool) -> bool:
    """Print the version and stop, if asked."""
    if asked:
        console.print(f"disol {__version__}")
        raise typer.Exit
    return asked


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Solve PDEs on changing geometries."""
    del version  # its callback has answered


def largest_of(fields: tuple[str, ...]) -> str:
    """Say what an amplitude is the largest value of: of a vector field not its length, but a component."""
    return "max |U|" if len(fields) == 1 else "max |U_i|"
