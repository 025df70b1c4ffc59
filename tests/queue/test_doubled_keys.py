"""Two keys that are one in JSON, and objects that change when they are read: refused at submit."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec
import pytest

from inturn import App
from inturn.model.errors import BadInput


class Colour(Enum):
    RED = "red"


@dataclass
class Boxed:
    inside: dict[Any, Any]


@dataclass
class Doubled:
    """What it is made of it holds twice."""

    a: int
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.a *= 2


class Prefixed(msgspec.Struct):
    name: str

    def __post_init__(self) -> None:
        self.name = f"x{self.name}"


@dataclass
class Stripped:
    """What it is made of it changes once."""

    name: str

    def __post_init__(self) -> None:
        self.name = self.name.strip()


def read_back(hint: Any, value: Any) -> Any:
    """Return what a handler gets whose only parameter is annotated so."""

    def work(x: Any) -> None: ...

    work.__annotations__["x"] = hint
    job = App("sqlite:///:memory:").job(work)
    call: Any = job.call(value)
    _, named = job.arguments.decode(call.new.payload)
    return named["x"]


@pytest.mark.parametrize(
    ("hint", "value", "key"),
    [
        (dict, {1: "a", "1": "b"}, "1"),
        (Any, {1: "a", "1": "b"}, "1"),
        (dict[str, Any], {"k": {1: "a", "1": "b"}}, "1"),
        (list[Any], [0, [{"x": [{2: 0, "2": 0}]}]], "2"),
        (dict[str, int], {Colour.RED: 1, "red": 2}, "red"),
        (Boxed, Boxed({1: "a", "1": "b"}), "1"),
    ],
)
def test_two_keys_that_are_one_in_json_are_refused(hint: Any, value: Any, key: str) -> None:
    with pytest.raises(BadInput, match=f"in JSON two keys of a dict are both '{key}'"):
        read_back(hint, value)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (dict[int, str], {1: "a", 2: "b"}),
        (dict[float, dict[str, int]], {1.0: {"a": 1}, 2.5: {"a": 2}}),
        (dict[str, set[int]], {"a": {300, 1, 5, 77}, "b": set()}),
        (dict[str, float], {"a": 1, "b": 2}),
        (list[dict[str, str]], [{"a": "{"}, {"a": "}"}]),
        (Stripped, Stripped(" a ")),
    ],
)
def test_what_is_only_written_otherwise_is_taken(hint: Any, value: Any) -> None:
    assert read_back(hint, value) == value


def test_a_tuple_that_becomes_a_list_is_taken() -> None:
    assert read_back(Boxed, Boxed({"a": (1, 2.0)})) == Boxed({"a": [1, 2.0]})


@pytest.mark.parametrize(
    ("hint", "value", "place"),
    [
        (Doubled, Doubled(2), "x.a"),
        (list[Doubled], [Doubled(0), Doubled(2)], r"x\[1\].a"),
        (dict[str, Doubled], {"k": Doubled(2)}, "x.k.a"),
        (Prefixed, Prefixed("n"), "x.name"),
    ],
)
def test_an_object_that_changes_each_time_it_is_made_is_refused(
    hint: Any, value: Any, place: str
) -> None:
    with pytest.raises(BadInput, match=f"the handler would get another '{place}'"):
        read_back(hint, value)


def test_what_an_object_is_to_be_made_of_may_be_given_in_its_place() -> None:
    assert read_back(Doubled, {"a": 2}) == Doubled(2)
