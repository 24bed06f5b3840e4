"""The `disol` command: parse, call, print."""

from disol.cli.app import app, main
from disol.cli.cases import draw, export, generate, info, problems
from disol.cli.models import compare, evaluate, models, onnx, train
from disol.cli.rank import EXAMPLES as RANK_EXAMPLES
from disol.cli.rank import HELP as RANK_HELP
from disol.cli.rank import rank
from disol.cli.solve import EXAMPLES, HELP, solve

__all__ = ["app", "main"]

# In the order of `disol --help`.
app.command(help=HELP, epilog=EXAMPLES, short_help="Solve a PDE on a geometry of your own: start here.")(solve)
app.command(help=RANK_HELP, epilog=RANK_EXAMPLES, short_help="Solve many geometries exactly, and rank them.")(rank)
for command in (problems, draw, generate, info, export, train, evaluate, compare, models, onnx):
    app.command()(command)
