"""`python -m disol` is the `disol` command."""

from disol.cli import main

main()
