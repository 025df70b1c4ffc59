"""Every error of inturn's can be given to another process, whatever its class is called with."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

import pytest

import inturn
from inturn import EnqueueTimeout, Reject, RetryLater
from inturn.model.ids import new_id

GIVEN: dict[Any, Any] = {
    str: "a word",
    int: 7,
    float: 0.5,
    bool: True,
    UUID: new_id(),
    Iterable[str]: ("one", "two"),
    Iterable[int]: (1, 2),
    Iterable[UUID]: (new_id(), new_id()),
}
GIVEN |= {one | None: GIVEN[one] for one in (str, UUID)}


def every_error() -> list[type[BaseException]]:
    """Return every class of errors that a module of inturn's makes."""
    for module in pkgutil.walk_packages(inturn.__path__, "inturn."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found = {one for one in _below(BaseException) if one.__module__.split(".")[0] == "inturn"}
    return sorted(found, key=lambda one: one.__qualname__)


def _below(cls: type[BaseException]) -> Iterator[type[BaseException]]:
    for below in type.__subclasses__(cls):
        yield below
        yield from _below(below)


def made(cls: type[BaseException]) -> BaseException:
    """Make an error with something for each of its parameters."""
    if "__init__" not in {name for one in cls.__mro__ for name in _own(one)}:
        return cls("a word")
    parameters = inspect.signature(cls, eval_str=True).parameters.values()
    by_name = {
        one.name: GIVEN[one.annotation] for one in parameters if one.kind is one.KEYWORD_ONLY
    }
    in_turn = [GIVEN[one.annotation] for one in parameters if one.name not in by_name]
    return cls(*in_turn, **by_name)


def _own(cls: type) -> Iterable[str]:
    return vars(cls) if cls.__module__.split(".")[0] == "inturn" else ()


def pickled(error: BaseException) -> Any:
    return pickle.loads(pickle.dumps(error))


@pytest.mark.parametrize("cls", every_error(), ids=lambda cls: cls.__name__)
def test_every_error_comes_back_as_it_was(cls: type[BaseException]) -> None:
    error = made(cls)
    error.add_note("seen on the way")
    back = pickled(error)
    assert type(back) is cls
    assert (str(back), repr(back), back.args) == (str(error), repr(error), error.args)
    assert vars(back) == vars(error)
    assert back.__notes__ == ["seen on the way"]


def test_the_errors_that_handlers_raise_and_callers_catch_are_among_them() -> None:
    assert {Reject, RetryLater, EnqueueTimeout} <= set(every_error())
    assert len(every_error()) > 50
