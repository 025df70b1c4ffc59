"""What a job raised: somebody else's object, looked at in ways that it has no say in.

A class of errors may be a frozen dataclass, which nothing can be set on, or fail in whatever else
it overrides: ``__class__``, ``__str__``, ``__getattribute__``. Nothing here lets that out, for a
slot that met an error on its way from one job to the next would be lost.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, TypeGuard, TypeVar

from inturn.policy.retry import describe

Error = TypeVar("Error", bound=BaseException)

_TRACEBACK: Any = vars(BaseException)["__traceback__"]  # past any __setattr__ and __getattribute__


def is_a(error: BaseException | None, kind: type[Error]) -> TypeGuard[Error]:
    """Whether an error is of a class. ``isinstance`` would ask its ``__class__``, too."""
    return issubclass(type(error), kind)


def in_words(error: BaseException) -> str:
    """Return an error's class and its words."""
    try:
        return describe(error)
    except BaseException:  # such as of what its ``__str__`` returned
        return "an error that cannot be described"


def leave_out_ours(error: BaseException) -> None:
    """Leave our own frames out of a traceback: they say nothing, and would be kept alive by it."""
    trace: TracebackType | None = _TRACEBACK.__get__(error)
    while trace is not None and trace.tb_frame.f_globals.get("__package__") == __package__:
        trace = trace.tb_next
    _TRACEBACK.__set__(error, trace)
