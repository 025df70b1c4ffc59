"""What JSON cannot carry whole is refused, where a job is declared or where it is submitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from inturn import App
from inturn.model.errors import BadInput
from inturn.queue.job import Job


@dataclass(frozen=True)
class Animal:
    name: str
    born: datetime = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Dog(Animal):
    breed: str = "pug"


class Shape(msgspec.Struct, frozen=True):
    name: str


class Square(Shape, frozen=True):
    side: int = 1


class Model(pydantic.BaseModel):
    name: str = pydantic.Field(alias="theName")
    at: datetime = datetime(2020, 1, 1, tzinfo=UTC)


class Longer(Model):
    breed: str = "pug"


class Row(TypedDict, total=False):
    name: str


def declared(hint: Any) -> Job[..., Any]:
    def work(x: Any) -> None: ...

    work.__annotations__["x"] = hint
    return App("sqlite:///:memory:").job(work)


@pytest.mark.parametrize(
    ("hint", "value", "place"),
    [
        (Animal, Dog("rex"), "x.breed"),
        (Animal | None, Dog("rex"), "x.breed"),
        (Animal, {"name": "rex", "breed": "pug"}, "x.breed"),
        (Shape, Square("s"), "x.side"),
        (Model, Longer(theName="rex"), "x.breed"),
        (Row, {"nmae": "rex"}, "x.nmae"),
        (list[Animal], [Animal("tom"), Dog("rex")], r"x\[1\].breed"),
        (set[Animal], {*map(Animal, "abc"), Dog("rex")}, r"x\[.\].breed"),
        (tuple[int, Animal], (1, Dog("rex")), r"x\[1\].breed"),
        (dict[int, list[Animal]], {1: [Dog("rex")]}, r"x.1\[0\].breed"),
    ],
)
def test_what_its_annotation_would_lose_is_refused(hint: Any, value: Any, place: str) -> None:
    with pytest.raises(BadInput, match=f"would not get '{place}', which the annotation"):
        declared(hint).call(value)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Dog, {"name": "rex"}),
        (Any, Dog("rex")),
        (dict[str, Any], {"name": "rex", "breed": "pug"}),
        (list[float], [1, 2]),
        (list[Row], [{"name": "a"}, {}]),
        (list[Model | None], [Model(theName="a"), None]),
        (set[Shape], [Shape("a"), Shape("a"), Shape("b")]),
        (list[dict[str, datetime]], [{"at": "2026-01-01T00:00:00+00:00"}]),
    ],
)
def test_what_its_annotation_has_is_taken_in_any_order_and_spelling(hint: Any, value: Any) -> None:
    job = declared(hint)
    assert job.arguments.decode(job.call(value).new.payload)[1]["x"] is not None


@dataclass
class Report:
    path: Path


@dataclass
class Sketch:
    """Can be submitted as a dict that leaves its path to the default."""

    name: str
    path: Path = field(default_factory=Path)


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (Path, "Path cannot be read from JSON. Take JSON's own types, .* make the rest"),
        (dict[str, list[Path | None]], "Path cannot"),
        (list[Report], "Path cannot"),
        (Callable[[], int], "Callable cannot"),
    ],
)
def test_what_can_never_be_read_is_refused_where_it_is_declared(hint: Any, said: str) -> None:
    with pytest.raises(BadInput, match=f"^job 'work' can never be given its parameter 'x': {said}"):
        declared(hint)


@pytest.mark.parametrize(("hint", "value"), [(Sketch, {"name": "a"}), (object, {"a": [1]})])
def test_what_can_be_read_in_part_is_not_refused_where_it_is_declared(
    hint: Any, value: Any
) -> None:
    assert declared(hint).call(value).new.payload


def test_what_has_a_default_may_be_there_for_who_calls_the_function_by_hand() -> None:
    @App("sqlite:///:memory:").job
    def work(n: int, out: Path | None = None, call: Callable[[], int] = int) -> None: ...

    assert work.call(1).new.payload
    with pytest.raises(BadInput, match="Path is not JSON"):
        work.call(1, out=Path("a"))
