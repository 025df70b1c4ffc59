"""An argument reaches its handler whole, or is refused where it is submitted."""

from __future__ import annotations

from collections.abc import Callable
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


class Shape(msgspec.Struct, frozen=True):
    name: str


class Square(Shape, frozen=True):
    side: int = 1


class Cat(msgspec.Struct, frozen=True, tag=True):
    lives: int


class Bird(msgspec.Struct, frozen=True, tag=True):
    can_fly: bool
    name: str


class Sparse(msgspec.Struct, omit_defaults=True, rename="camel"):
    first_name: str = ""
    last_name: str = ""


class Base(pydantic.BaseModel):
    name: str


class Derived(Base):
    breed: str


class Row(TypedDict):
    name: str


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
    assert lost_member([{"a": 1}, {"b": 2, "c": 3}], [{"b": 2, "c": 3}, {"a": 1}]) is None
    assert lost_member([{"a": 1}, {"a": 1, "c": 3}], [{"a": 1}, {"a": 1}]) == "[1].c"
