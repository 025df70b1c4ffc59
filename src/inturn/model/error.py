"""What every error that inturn raises is, and what all are that come from bad input."""

from __future__ import annotations

from typing import Any


class Portable(Exception):
    """An error that can be given to another process, and copied: class, words, attributes, notes.

    Python makes one anew by calling its class with ``args``. Of ours those are the words alone,
    which were made of what the class is called with.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Say how to make the same again, without its ``__init__``."""
        return _made_again, (type(self), self.args), self.__dict__ or None


class InturnError(Portable):
    """The root of every error that inturn raises."""


class BadInput(InturnError, ValueError):
    """What was asked for cannot be; nothing was stored."""


def _made_again(cls: type[Portable], args: tuple[Any, ...]) -> Portable:
    error = cls.__new__(cls, *args)
    error.args = args  # a TimeoutError has none before its __init__
    return error
