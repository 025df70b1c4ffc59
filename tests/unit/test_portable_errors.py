"""Every error of inturn's can be given to another process, whatever its class is called with."""

from __future__ import annotations

import copy
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
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


@pytest.mark.parametrize("again", [pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("cls", every_error(), ids=lambda cls: cls.__name__)
def test_every_error_comes_back_as_it_was(
    cls: type[BaseException], again: Callable[[BaseException], Any]
) -> None:
    error = made(cls)
    error.add_note("seen on the way")
    back = again(error)
    assert type(back) is cls
    assert (str(back), repr(back), back.args) == (str(error), repr(error), error.args)
    assert vars(back) == vars(error)
    assert back.__notes__ == ["seen on the way"]


def test_the_errors_that_handlers_raise_and_callers_catch_are_among_them() -> None:
    assert {Reject, RetryLater, EnqueueTimeout} <= set(every_error())
    assert len(every_error()) > 50


class Later(RetryLater):
    """An error of a user's own, called with what inturn's is not."""

    def __init__(self, shop: str) -> None:
        super().__init__(after=30, reason=f"{shop} is closed")
        self.shop = shop


@pytest.mark.parametrize("cls", [RetryLater, Later])
def test_what_asks_for_a_retry_comes_out_of_a_pool_of_processes(cls: type[RetryLater]) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        for _ in range(2):
            with pytest.raises(cls) as caught:
                pool.submit(come_later, cls is Later).result()
            assert (caught.value.after, caught.value.counted) == (30.0, True)
            assert getattr(caught.value, "shop", "bakery") == "bakery"


def come_later(is_own: bool) -> None:
    raise Later("bakery") if is_own else RetryLater(after=30)
