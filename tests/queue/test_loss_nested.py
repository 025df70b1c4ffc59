"""However a value is nested, it is refused if something of it would be lost, and only then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from inturn import App
from inturn.model.errors import BadInput

T = TypeVar("T")


@dataclass(frozen=True)
class Animal:
    name: str
    born: datetime = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Dog(Animal):
    breed: str = "pug"


class Cat(msgspec.Struct, frozen=True, tag=True, rename="camel", omit_defaults=True):
    lives_left: int = 9


class Lion(Cat, frozen=True, kw_only=True, tag="Cat", rename="camel"):
    mane: str


class Bird(msgspec.Struct, frozen=True, tag=True):
    mane: str
    price: Decimal


class Pair(msgspec.Struct, frozen=True, array_like=True):
    a: int
    b: float = 2


class Triple(Pair, frozen=True, array_like=True):
    c: int = 3


class Model(pydantic.BaseModel, frozen=True):
    name: str = pydantic.Field(alias="theName")
    at: datetime = datetime(2020, 1, 1, tzinfo=UTC)


class Longer(Model, frozen=True):
    breed: str = "pug"


class Row(TypedDict, total=False):
    a: int
    b: str


class Box(msgspec.Struct, Generic[T]):
    inside: T


@dataclass(frozen=True)
class Sort:
    """An annotation; values that are exactly so, and values of which it lacks something."""

    hint: Any
    exact: SearchStrategy[Any]
    more: SearchStrategy[Any]
    is_hashable: bool = True


letters, numbers = st.sampled_from("abc"), st.integers(0, 3)
birds = st.builds(Bird, letters, st.sampled_from([Decimal("1.0"), Decimal(1)]))
PLAIN = [
    Sort(int, numbers, st.nothing()),
    Sort(str | None, letters | st.none(), st.nothing()),
    Sort(dict[str, int], st.dictionaries(letters, numbers), st.nothing(), False),
    Sort(list[Any], st.lists(st.dictionaries(letters, numbers), max_size=2), st.nothing(), False),
]
RECORDS = [
    Sort(Animal, st.builds(Animal, letters), st.builds(Dog, letters)),
    Sort(Cat | Bird, st.builds(Cat, numbers) | birds, st.builds(Lion, mane=letters)),
    Sort(Pair, st.builds(Pair, numbers, numbers), st.builds(Triple, numbers)),
    Sort(Model, st.builds(Model, theName=letters), st.builds(Longer, theName=letters)),
    Sort(
        Row,
        st.fixed_dictionaries({}, optional={"a": numbers, "b": letters}),
        st.fixed_dictionaries({"c": numbers}, optional={"a": numbers}),
        False,
    ),
]


def of(kind: Any, *parts: Any) -> Any:
    """Return ``kind[…]``, of parts that no type checker knows."""
    return kind[parts if len(parts) > 1 else parts[0]]


def with_one(exact: SearchStrategy[Any], more: SearchStrategy[Any]) -> SearchStrategy[list[Any]]:
    few = st.lists(exact, max_size=2)
    return st.tuples(few, more, few).map(lambda parts: [*parts[0], parts[1], *parts[2]])


def collection(hint: Any, made: Callable[[Any], Any], *, is_hashable: bool) -> Any:
    """Return what makes the sort of a collection of the sort of its members."""
    return lambda one: Sort(
        of(hint, one.hint, ...) if hint is tuple else of(hint, one.hint),
        st.lists(one.exact, max_size=3).map(made),
        with_one(one.exact, one.more).map(made),
        is_hashable and one.is_hashable,
    )


def by_key(key: Any, keys: SearchStrategy[Any]) -> Any:
    def made(one: Sort) -> Sort:
        some = st.dictionaries(keys, one.exact, max_size=2)
        more = st.tuples(some, keys, one.more).map(lambda parts: {**parts[0], parts[1]: parts[2]})
        return Sort(of(dict, key, one.hint), some, more, False)

    return made


def wrapped(hint: Callable[[Any], Any], made: Callable[[Any], Any]) -> Any:
    return lambda one: Sort(hint(one.hint), one.exact.map(made), one.more.map(made), False)


def pair(hint: Callable[[Any, Any], Any]) -> Any:
    """Return what makes the sort of two, in either order, of which the first may have more."""

    def made(drawn: tuple[Sort, Sort, bool]) -> Sort:
        one, other, is_turned = drawn
        turned: Any = reversed if is_turned else tuple
        kind = hint(*turned((one.hint, other.hint)))
        make = kind if isinstance(kind, type) and kind is not tuple else tuple

        def both(first: SearchStrategy[Any]) -> SearchStrategy[Any]:
            found = st.tuples(*turned((first, other.exact)))
            return found.map(tuple if make is tuple else lambda two: make(*two))

        is_hashable = make is tuple and one.is_hashable and other.is_hashable
        return Sort(kind, both(one.exact), both(one.more), is_hashable)

    return made


def record(one: Any, other: Any) -> Any:
    return make_dataclass("Record", [("one", one), ("other", other)])


def named(one: Any, other: Any) -> Any:
    return NamedTuple("Named", [("one", one), ("other", other)])


def nested(inner: SearchStrategy[Sort]) -> SearchStrategy[Sort]:
    hashable = inner.filter(lambda one: one.is_hashable)
    pairs = st.tuples(inner, st.sampled_from(PLAIN) | inner, st.booleans())
    return st.one_of(
        inner.map(collection(list, list, is_hashable=False)),
        inner.map(collection(tuple, tuple, is_hashable=True)),
        hashable.map(collection(set, frozenset, is_hashable=False)),
        hashable.map(collection(frozenset, frozenset, is_hashable=True)),
        inner.map(by_key(str, letters)),
        inner.map(by_key(float, st.sampled_from([1, 2.5, 3]))),
        inner.map(wrapped(lambda hint: hint | None, lambda one: one)),
        inner.map(wrapped(partial(of, Box), Box)),
        pairs.map(pair(partial(of, tuple))),
        pairs.map(pair(record)),
        pairs.map(pair(named)),
    )


sorts = st.recursive(st.sampled_from(RECORDS), nested, max_leaves=5)


def submitted(hint: Any, value: Any) -> None:
    def work(x: Any) -> None: ...

    work.__annotations__["x"] = hint
    App("sqlite:///:memory:").job(work).call(value)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_is_exactly_of_its_annotation_is_never_refused(data: st.DataObject) -> None:
    sort = data.draw(sorts)
    submitted(sort.hint, data.draw(sort.exact))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_has_one_member_too_many_somewhere_is_always_refused(data: st.DataObject) -> None:
    sort = data.draw(sorts)
    with pytest.raises(BadInput, match="would not get"):
        submitted(sort.hint, data.draw(sort.more))
