"""Forked children: they have their parent's objects, and none of its threads."""

from __future__ import annotations

import os
from collections.abc import Callable


def in_forked_child(function: Callable[[], None]) -> None:
    """Call a function in every child that this process forks, before anything else runs there."""
    if hasattr(os, "register_at_fork"):  # elsewhere nothing forks
        os.register_at_fork(after_in_child=function)
