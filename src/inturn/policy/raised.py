"""What a handler raised: somebody else's object, looked at in ways that it has no say in.

A class of errors may be a frozen dataclass, which nothing can be set on, or fail in whatever else
it overrides: ``__class__``, ``__str__``, ``__getattribute__``. Nothing here lets that out, for who
meets an error between one job and the next would be lost to all others.
"""

from __future__ import annotations

from typing import Any, TypeGuard, TypeVar

Error = TypeVar("Error", bound=BaseException)

_NAME: Any = vars(type)["__name__"]  # past whatever a metaclass makes of it


def is_a(error: BaseException | None, kind: type[Error]) -> TypeGuard[Error]:
    """Whether an error is of a class. ``isinstance`` would ask its ``__class__``, too."""
    return issubclass(type(error), kind)


def describe(error: BaseException) -> str:
    """Return an error's class and its words, if it has any."""
    return with_words(_NAME.__get__(type(error)), error)


def with_words(what: str, error: BaseException) -> str:
    """Return what an error is, and its words, if it has any."""
    words = words_of(error)
    if words is None:
        return f"{what} (whose text cannot be read)"
    return f"{what}: {words}" if words.strip() else what


def words_of(error: BaseException) -> str | None:
    """Return an error's text, as nothing but text; None if it cannot be read."""
    try:
        return str.__str__(str(error))
    except BaseException:
        return None
