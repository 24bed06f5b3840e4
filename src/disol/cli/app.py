"""The command line application, and what its commands share.

rich is imported only where a table is printed, so that a misspelt name is reported at once.
"""

import io
import os
import re
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import disol
from disol._devices import finish_gpu_work
from disol.errors import DisolError, one_line

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(
    help="Solve PDEs on changing geometries. Start with `disol solve`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# What several commands take.
PROBLEM_HELP = "Which problem: a name (`disol problems` lists them), or package.module:NAME of a PDE of your own."
ProblemName = Annotated[str, typer.Argument(help=PROBLEM_HELP)]
PixelConventionsName = Annotated[
    str, typer.Option(help="paper or published: networks learn pixels, so files hold no physical cases.")
]
DeviceName = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:NUMBER.")]
Resolution = Annotated[int | None, typer.Option(help="Pixels along a side; the problem's own unless given.")]
Seed = Annotated[int, typer.Option(help="Seed of the sequence of cases.")]

# Some versions of typer bring their own copy of click; this is the base of all usage errors in either.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
STOPPED, FAILED, INTERRUPTED = 1, 2, 130  # exit codes
# Arguments of the library that have other names in commands.
_CALLED = {"num_cases": "cases", "overrides": "settings", "path": "out", "diffusion": "conductivity"}
# How messages of the library name arguments.
_ASSIGNED = re.compile(
    r"(?<![\w.-])(?P<name>[a-z_]+)=(?P<quote>['\"]?)(?P<value>[\w./:+-]+)(?P=quote)"
)  # split='train'
_NAMED = re.compile(
    r"^[a-z_]+(?= must| are| draws)"  # minutes must be positive
    r"|(?:(?<=another )|(?<=raise )|(?<=Pass its )|(?<=Leave )(?!out )|(?<=Leave out ))"  # choose another out
    r"[a-z_]+(?![\w.]*\w)"
    r"|(?<=has no )[a-z_]+(?=\. It takes )|(?<=has no ')[a-z_]+(?='\. It takes )"  # poisson has no force_x
)
_LISTED = re.compile(r"(?<=\. It takes )[a-z_, ]+(?=\.)")  # It takes dirichlet, source.


def main() -> None:
    """Run the command; an error of the caller or of the machine is one line, a bug keeps its traceback."""
    code = FAILED
    received: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # where the locale has no Greek letters, "?" is better than an error
    # What `timeout` and batch systems send is handled like Ctrl-C: files are closed, and child processes ended.
    signal.signal(signal.SIGTERM, interrupt)
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except DisolError as error:
        tell(as_options(str(error), find_options(sys.argv[1:])), "error")
    except UsageError as error:
        message = getattr(error, "format_message", error.__str__)()  # a usage error names its option only there
        if message:  # else it has been shown already
            tell(f"{message}{explain_usage(error, sys.argv[1:])}", "error")
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:  # the reader has stopped, as `head` does
        drop_unprinted()
        code = STOPPED
    except (OSError, MemoryError, RecursionError) as error:
        code = FAILED
        called = next((word for word in sys.argv[1:] if not word.startswith("-")), "disol")
        if isinstance(error, OSError):
            drop_unprinted()
            where = "" if error.filename is None else f"{error.filename}: "
            reason = f"{where}{error.strerror or error}"
        else:
            trouble = "out of memory" if isinstance(error, MemoryError) else "something is nested too deeply"
            reason = f"{trouble}, {error}" if str(error) else trouble
        tell(f"{called} failed: {reason}.", "error")
    if code == INTERRUPTED:
        finish_gpu_work()
        typer.echo(f"interrupted{how_to_continue(sys.argv[1:])}", err=True)
    sys.exit(128 + received[0] if received and code == INTERRUPTED else code)


def explain_usage(error: Exception, arguments: Sequence[str]) -> str:
    """Return what a usage error leaves out: the value that was given, or what to do with a word too many."""
    if "unexpected extra argument" in str(error):
        return ". Give it with its option, as --help lists them, and quote texts with spaces."
    names = getattr(getattr(error, "param", None), "opts", ())
    given = [after for word, after in pairwise(arguments) if word in names]
    given += [value for name, _, value in (word.partition("=") for word in arguments) if name in names and value]
    if given and isinstance(error, typer.BadParameter) and given[-1] not in str(error):
        return f", got {given[-1]!r}"
    return ""


def how_to_continue(arguments: Sequence[str]) -> str:
    """Say by which command the work that was interrupted is continued, if it can be."""
    called = next((word for word in arguments if not word.startswith("-")), None)
    if called not in ("generate", "train", "compare"):
        return ""
    again = [] if called == "compare" or "--resume" in arguments else ["--resume"]
    return f"; continue with: {one_line(shlex.join(['disol', *arguments, *again]))}"


def drop_unprinted() -> None:
    """Drop what cannot be printed, or Python would try again when it ends, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def as_options(message: str, options: Mapping[str, str]) -> str:
    """Rewrite arguments of the library as options of a command: `--split train`.

    options   of the command, by the names of their arguments
    """

    def named(found: re.Match[str]) -> str:
        return options.get(found[0], found[0])

    def assigned(found: re.Match[str]) -> str:
        is_size = found["name"] == "source"  # of a shift, source=0.3
        return found[0] if is_size or found["name"] not in options else f"{options[found['name']]} {found['value']}"

    message = _LISTED.sub(lambda found: re.sub("[a-z_]+", named, found[0]), _NAMED.sub(named, message))
    return _ASSIGNED.sub(assigned, message)


def find_options(arguments: Sequence[str]) -> dict[str, str]:
    """Return the options of the command that is called, by the names of their arguments."""
    commands: Any = getattr(typer.main.get_command(app), "commands", {})
    called = next((word for word in arguments if word in commands), None)
    params = [] if called is None else commands[called].params
    options = {param.name: param.opts[0] for param in params if param.opts[0].startswith("--")}
    return options | {name: options[own] for name, own in _CALLED.items() if own in options}


def tell(message: object, label: Literal["error", "note"] | None = None) -> None:
    """Print a message in one line, without control characters; an error goes to standard error."""
    line = one_line(str(message))
    if label is not None:
        line = typer.style(f"{label}:", fg="red" if label == "error" else "yellow") + f" {line}"
    typer.echo(line, err=label == "error", color=False if "NO_COLOR" in os.environ else None)


def print_table(table: "Table") -> None:
    """Print a table, one whose columns do not wrap in full, however narrow the terminal is."""
    from rich.console import Console

    console = Console(highlight=False)
    if all(column.no_wrap for column in table.columns):
        console.width = max(console.width, console.measure(table, options=console.options.update(width=2000)).maximum)
    console.print(table)


def print_rows(rows: list[tuple[str, str]]) -> None:
    """Print names and values."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in rows:
        table.add_row(name, escape(value))
    print_table(table)


def show_version(asked: bool) -> bool:
    """Print the version and stop, if asked."""
    if asked:
        typer.echo(f"disol {disol.__version__}")
        raise typer.Exit
    return asked


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Solve PDEs on changing geometries."""
    del version  # its callback has answered


def max_symbol(fields: tuple[str, ...]) -> str:
    """Return the symbol of an amplitude: for a vector field, the largest component, not the largest length."""
    return "max |U|" if len(fields) == 1 else "max |U_i|"
