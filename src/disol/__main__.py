"""`python -m disol` is the `disol` command."""

from disol.cli import main

if __name__ == "__main__":  # worker processes import this module too
    main()
