"""The one error that a caller causes."""


class DisolError(ValueError):
    """What the caller asked for cannot be done: the message says what was expected, what came, and what to do.

    The command prints it as one line. Any other exception is a bug and keeps its traceback.
    """
