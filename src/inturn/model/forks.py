"""Forked children: they have their parent's objects, and none of its threads."""

from __future__ import annotations

import os
from collections.abc import Callable


def in_forked_child(function: Callable[[], None]) -> None:
    """Call a function in every child that this process forks, before anything else runs there."""
    if hasattr(os, "register_at_fork"):  # elsewhere nothing forks
        os.register_at_fork(after_in_child=function)


class Origin:
    """The process in which something was made. To look here costs less than to ask for its id."""

    __slots__ = ("is_left",)

    def __init__(self) -> None:
        self.is_left = False  # this is a child that was forked since


_here = Origin()


def here() -> Origin:
    """Return this process."""
    return _here


def _leave() -> None:
    global _here
    _here.is_left = True
    _here = Origin()


in_forked_child(_leave)
