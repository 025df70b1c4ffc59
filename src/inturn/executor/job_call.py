"""What a job may be: a function, or an object with ``run``; and whether it runs on the loop."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator
from types import CoroutineType, FunctionType, MethodType
from typing import Any, Protocol, TypeVar

from inturn.executor.slots import ON_LOOP, ON_THREAD
from inturn.model.admissible import listed, shown
from inturn.model.callables import is_async, yields
from inturn.model.errors import BadInput

Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)
Job = TypeVar("Job")


class Runs(Protocol[Value_co]):
    """An object that is a job by its ``run``."""

    def run(self) -> Value_co:
        """Do the work."""
        ...


Call = Callable[[], Any]
Plain = Callable[[], Value] | Runs[Value]
Async = Callable[[], Coroutine[Any, Any, Value]] | Runs[Coroutine[Any, Any, Value]]

NOWHERE = 2  # a barrier: it has its place in line, and nothing runs

_CO_COROUTINE = inspect.CO_COROUTINE
_CO_YIELDS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def call_of(job: Any) -> tuple[Call, int]:
    """Return what to call to run a job, and where: ``async def`` on the loop, ``def`` on a thread.

    The first lines are for plain functions, which are the most, and cost a fraction of the rest.
    """
    if type(job) is FunctionType:
        code = job.__code__
        if code.co_argcount or code.co_kwonlyargcount:
            _check_complete(job)
        flags = code.co_flags
        if flags & _CO_YIELDS:
            raise _yielding(job, job)
        return job, ON_LOOP if flags & _CO_COROUTINE else ON_THREAD
    if type(job) is CoroutineType:
        job.close()
        raise BadInput(
            f"a job must be a function, not the coroutine {job.__qualname__!r} that it returned, "
            f"for it may run more than once. Submit the function, or a partial of it."
        )
    if not isinstance(job, type):  # a class is mostly an object that someone forgot to make
        run = getattr(job, "run", None)
        if callable(run):
            return _placed(run, job)
        if callable(job):
            return _placed(job, job)
    raise BadInput(f"a job must be a function or an object with run(), not {shown(job)}.")


def _check_complete(function: FunctionType) -> None:
    """Refuse a function that needs arguments. What a partial leaves open its first attempt says.

    Read from the code itself: ``inspect.signature`` costs more than all else of a submit.
    """
    code, named = function.__code__, function.__kwdefaults__ or {}
    count = code.co_argcount
    missing = list(code.co_varnames[: count - len(function.__defaults__ or ())])
    keywords = code.co_varnames[count : count + code.co_kwonlyargcount]
    missing += [name for name in keywords if name not in named]
    if missing:
        raise BadInput(
            f"a job is called without arguments, and {shown(function)} needs "
            f"{', '.join(map(repr, missing))}. Give it what it needs with functools.partial."
        )


def _yielding(call: Any, job: Any) -> BadInput:
    return BadInput(
        f"a job must be a function that returns, and {_named(call, job)} yields, so that calling "
        f"it runs nothing of it."
    )


def _named(call: Any, job: Any) -> str:
    return shown(job) if call is job else f"run() of {shown(job)}"


def _placed(call: Any, job: Any) -> tuple[Call, int]:
    if yields(call):
        raise _yielding(call, job)
    if not is_async(call):
        return call, ON_THREAD
    if isinstance(call, MethodType) and isinstance(call.__func__, FunctionType):
        return call, ON_LOOP

    async def awaited() -> Any:  # whatever is called, what comes back is a plain coroutine
        return await call()

    return awaited, ON_LOOP


def pairs_of(jobs: Iterable[tuple[str, Job]]) -> Iterator[tuple[str, Job]]:
    """Yield keys with their jobs; refuse what is no pair."""
    for pair in listed("jobs", jobs):
        try:
            key, job = pair
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"submit_many takes pairs of a key and a job, not {shown(pair)}."
            ) from error
        yield key, job
