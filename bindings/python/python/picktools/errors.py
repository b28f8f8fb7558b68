"""What can go wrong, by kind."""


class PicktoolsError(Exception):
    """Any failure of picktools; the others are kinds of it."""


class ArgumentError(PicktoolsError, ValueError):
    """An argument has a value that makes no sense. `argument` names it."""

    def __init__(self, message: str, argument: str = "") -> None:
        super().__init__(message, argument)
        self.argument = argument

    def __str__(self) -> str:
        message: str = self.args[0]
        return message


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of another type than it has to be. `argument` names it."""


class CatalogError(PicktoolsError, ValueError):
    """Tools cannot be read; the message names each place and what is wrong there."""


class SavedIndexError(PicktoolsError):
    """A saved index cannot be written, opened or read on."""


class ModelError(PicktoolsError):
    """The embedding model failed; where it is one of Python, its exception is the cause."""

    argument = "model"


class ForkedError(PicktoolsError, RuntimeError):
    """The engine was made before the process forked, and its model cannot run in the child."""
