"""The exceptions of picktools."""


class PicktoolsError(Exception):
    """The base class of all exceptions of picktools."""


class ArgumentError(PicktoolsError, ValueError):
    """An argument has an invalid value. `argument` is its name."""

    def __init__(self, message: str, argument: str = "") -> None:
        super().__init__(message, argument)
        self.argument = argument

    def __str__(self) -> str:
        message: str = self.args[0]
        return message


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument has a wrong type. `argument` is its name."""


class CatalogError(PicktoolsError, ValueError):
    """Tools cannot be read. The message names each invalid place with the cause."""


class SavedIndexError(PicktoolsError):
    """A saved index cannot be written or read."""


class ModelError(PicktoolsError):
    """The embedding model failed. The exception of a Python model is the cause."""

    argument = "model"


class ForkedError(PicktoolsError, RuntimeError):
    """The engine was created before the process forked, and cannot be used in the child."""
