"""What is called in the end when something is called, and whether that is an ``async def``."""

from __future__ import annotations

import inspect
from functools import partial
from types import FunctionType, MethodType
from typing import Any

_CO_YIELDS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def is_async(call: Any) -> bool:
    """Say whether a call returns a coroutine, as far as its definition tells."""
    call = unwrapped(call)
    if inspect.iscoroutinefunction(call):
        return True
    return not isinstance(call, FunctionType) and inspect.iscoroutinefunction(how_called(call))


def yields(call: Any) -> bool:
    """Say whether a call only makes a generator, so that nothing of it runs."""
    call = unwrapped(call)
    function = call if isinstance(call, FunctionType) else how_called(call)
    return isinstance(function, FunctionType) and bool(function.__code__.co_flags & _CO_YIELDS)


def unwrapped(call: Any) -> Any:
    """Look through partials, methods and static methods for what is called in the end."""
    while isinstance(call, partial | MethodType | staticmethod):
        call = call.func if isinstance(call, partial) else call.__func__
    return call


def how_called(called: Any) -> Any:
    """Return how the class of an object says that it is called as a function."""
    return inspect.getattr_static(type(called), "__call__", None)
