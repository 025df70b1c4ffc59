"""An argument reaches its handler whole, or is refused where it is submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar
from uuid import UUID

import msgspec
import pydantic
import pytest

from inturn import App
from inturn.model.errors import BadInput
from inturn.queue.loss import lost_member, may_lose

T = TypeVar("T")
Name = NewType("Name", str)


@dataclass(frozen=True)
class Animal:
    name: str


@dataclass(frozen=True)
class Dog(Animal):
    breed: str = "pug"


@dataclass(frozen=True)
class Lower(Animal):
    """One that does not keep what it is given as it was."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name.lower())


class Shape(msgspec.Struct, frozen=True):
    name: str


class Square(Shape, frozen=True):
    side: int = 1


class Cat(msgspec.Struct, frozen=True, tag=True):
    lives: int


class Bird(msgspec.Struct, frozen=True, tag=True):
    can_fly: bool
    name: str


class Lion(Cat, frozen=True, tag="Cat"):
    mane: str


class Short(msgspec.Struct, frozen=True, tag=True):
    a: int


class ShortMore(Short, frozen=True, tag="Short"):
    b: int


class Long(msgspec.Struct, frozen=True, tag=True):
    a: int
    b: int


class Empty(msgspec.Struct, array_like=True):
    pass


class One(Empty, array_like=True):
    a: int


class Pair(msgspec.Struct, frozen=True, array_like=True):
    a: int
    b: int = 2


class Triple(Pair, frozen=True, array_like=True):
    c: int = 3


class Tagged(msgspec.Struct, array_like=True, tag="t"):
    a: int


class TaggedMore(Tagged, array_like=True, tag="t"):
    b: int


class Sparse(msgspec.Struct, omit_defaults=True, rename="camel"):
    first_name: str = ""
    last_name: str = ""


class Base(pydantic.BaseModel):
    name: str


class Derived(Base):
    breed: str


class Row(TypedDict):
    name: str


class Partial(TypedDict, total=False):
    name: str


class Owned(NamedTuple):
    animal: Animal
    toys: dict[str, int]


class Box(msgspec.Struct, Generic[T]):
    inside: T


class Point(NamedTuple):
    x: int
    y: int


class Colour(Enum):
    RED = "red"


def job_of(hint: Any) -> Callable[[Any], Any]:
    """Return what submits a value to a job whose only parameter is annotated so."""

    def work(x: Any) -> None: ...

    work.__annotations__["x"] = hint
    return App("sqlite:///:memory:").job(work).call


@pytest.mark.parametrize(
    ("hint", "value", "place"),
    [
        (Animal, Dog("rex"), "x.breed"),
        (Shape, Square("s"), "x.side"),
        (Base, Derived(name="rex", breed="pug"), "x.breed"),
        (Row, {"name": "rex", "breed": "pug"}, "x.breed"),
        (Animal | None, Dog("rex"), "x.breed"),
        (list[Animal], [Animal("tom"), Dog("rex")], r"x\[1\].breed"),
        (set[Animal], {Animal("tom"), Dog("rex")}, r"x\[.\].breed"),
        (dict[str, Animal], {"a": Dog("rex")}, "x.a.breed"),
        (dict[int, Animal], {1: Dog("rex")}, "x.1.breed"),
        (tuple[int, Animal], (1, Dog("rex")), r"x\[1\].breed"),
        (Annotated[Animal, "pet"], Dog("rex"), "x.breed"),
        (Box[Animal], Box(Dog("rex")), "x.inside.breed"),
        (tuple[Animal, dict[str, int]], (Dog("rex"), {"q": 1}), r"x\[0\].breed"),
        (Owned, Owned(Dog("rex"), {"q": 1}), r"x\[0\].breed"),
        (list[list[Animal]], [[Dog("rex")], []], r"x\[0\]\[0\].breed"),
        (list[Cat | Bird], [Lion(9, "long"), Bird(True, "tit")], r"x\[0\].mane"),
        (list[dict[str, Animal]], [{"p": Dog("rex")}, {"q": Animal("a")}], r"x\[0\].p.breed"),
        (list[Partial], [{"name": "a"}, {"nmae": "b"}], r"x\[1\].nmae"),
        (Pair, Triple(1, 2, 3), r"x\[2\]"),
        (Empty, One(1), r"x\[0\]"),
        (list[Pair], [Pair(1, 2), Triple(1, 2, 3)], r"x\[1\]\[2\]"),
        (list[Tagged], [TaggedMore(1, 2)], r"x\[0\]\[2\]"),
        (set[tuple[Animal, ...]], {(Dog("rex"),), ()}, r"x\[.\]\[0\].breed"),
        (set[tuple[Animal | None, int]], {(Dog("r"), 1), (None, 2)}, r"x\[.\]\[0\].breed"),
        (set[Cat | Bird], {Lion(9, "long"), Bird(True, "tit")}, r"x\[.\].mane"),
        (set[Pair], {Pair(7), Triple(1, 2, 3), Pair(8)}, r"x\[.\]\[2\]"),
        (set[Lower], [{"name": "REX"}, {"name": "tom", "breed": "pug"}], r"x\[1\].breed"),
        (set[Long | Short], {ShortMore(1, 2), Long(1, 2)}, r"x\[.\].b"),
    ],
)
def test_what_its_annotation_would_lose_is_refused(hint: Any, value: Any, place: str) -> None:
    with pytest.raises(BadInput, match=f"would not get '{place}', which the annotation"):
        job_of(hint)(value)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Dog, Dog("rex")),
        (Square, Square("s", 2)),
        (Derived, Derived(name="rex", breed="pug")),
        (Row, {"name": "rex"}),
        (Any, Dog("rex")),
        (object, Dog("rex")),
        (dict[str, Any], {"name": "rex", "breed": "pug"}),
        (Sparse, Sparse(first_name="a")),
        (Dog, {"name": "rex"}),
        (Point, Point(1, 2)),
        (set[Cat | Bird], {*map(Cat, range(50)), *(Bird(True, str(n)) for n in range(50))}),
        (list[Cat | Bird], [Cat(9), Bird(True, "tit")]),
        (set[Shape], [Shape("a"), Shape("a"), Shape("b")]),
        (dict[datetime, Shape], {"2026-01-01T00:00:00+00:00": Shape("a")}),
        (dict[float, Row], {"1": {"name": "a"}}),
        (list[Shape], []),
        (Pair, Pair(1)),
        (list[Tagged], [Tagged(1), Tagged(2)]),
        (list[Partial], [{"name": "a"}, {}]),
        (set[tuple[Shape, ...]], [[Shape("a"), Shape("b")], []]),
        (set[Lower], [{"name": "REX"}, {"name": "TOM"}]),
        (frozenset[frozenset[Animal]], {frozenset(map(Animal, "abc")), frozenset[Animal]()}),
    ],
)
def test_what_its_annotation_has_is_taken_in_any_order_and_spelling(hint: Any, value: Any) -> None:
    assert job_of(hint)(value)


@pytest.mark.parametrize(
    "hint",
    [
        *(int, str, None, Any, bytes, Decimal, UUID, datetime, Colour, list, dict[str, list[int]]),
        *(int | None, tuple[int, ...], Literal["a", "b"], Annotated[str, "text"], set[Colour]),
    ],
)
def test_no_second_look_is_taken_where_nothing_can_be_lost(hint: Any) -> None:
    assert not may_lose(hint)


@pytest.mark.parametrize(
    "hint", [Animal, Shape, Base, Row, Box[int], list[Animal], int | Row, dict[str, list[Base]]]
)
def test_a_second_look_is_taken_where_something_can(hint: Any) -> None:
    assert may_lose(hint)


def test_only_what_is_plainly_missing_counts() -> None:
    assert lost_member({"a": 1, "b": 2}, {"a": 1}) == ".b"
    assert lost_member({"a": 1, "b": 2}, {"a": 1, "c": 2}) is None
    assert lost_member({"a": 1}, {"a": 1, "c": 2}) is None
    assert lost_member([{"a": 1}, {"a": 1, "c": 3}], [{"a": 1}, {"a": 1}]) == "[1].c"
    assert lost_member([{"name": "a"}, [1]], {(1,), Animal("a")}) is None
    assert lost_member([{"name": "a", "breed": "b"}, [1]], {(1,), Animal("a")}) == "[0].breed"


def test_a_large_set_is_not_compared_each_with_each() -> None:
    class Looked(set[Animal]):
        times = 0

        def __iter__(self) -> Iterator[Animal]:
            for one in super().__iter__():
                self.times += 1
                yield one

    names = [str(n) for n in range(1000)]
    read = Looked(map(Animal, names))
    assert lost_member([{"name": name} for name in names], read) is None
    assert read.times < 10 * len(names)


def test_a_model_may_have_made_a_member_of_others() -> None:
    """With validators of its own a model reads what it likes, and only itself knows what it is."""

    class Person(pydantic.BaseModel):
        first: str
        tags: set[str] = set()

        @pydantic.model_validator(mode="before")
        @classmethod
        def split(cls, given: dict[str, Any]) -> dict[str, Any]:
            return {"first": given["whole"].split()[0]} if "whole" in given else given

    assert job_of(list[Person])([{"whole": "Ada Lovelace"}, Person(first="Bo", tags={"x", "y"})])


def test_a_list_inside_a_model_is_compared_one_by_one() -> None:
    class Litter(pydantic.BaseModel):
        animals: list[Base] = pydantic.Field(alias="young")
        toys: tuple[Base, dict[str, int]] | None = None

    whole: dict[str, list[Any]] = {"young": [{"name": "a"}], "toys": [{"name": "a"}, {"ball": 1}]}
    assert job_of(Litter)(whole)
    for name, place in {"young": r"x.young\[0\].age", "toys": r"x.toys\[0\].age"}.items():
        given = {**whole, name: [{"name": "a", "age": 1}, *whole[name][1:]]}
        with pytest.raises(BadInput, match=f"would not get '{place}'"):
            job_of(Litter)(given)
