"""A parameter that could never be given anything is refused where its job is declared."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from inturn import App
from inturn.model.errors import BadInput
from inturn.queue.job import Job


@dataclass
class Report:
    path: Path


@dataclass
class Draft:
    """Can be submitted as long as it has no path."""

    name: str
    path: Path | None
    others: list[Path]


@dataclass
class Sketch:
    """Can be submitted as a dict that leaves its path to the default."""

    name: str
    path: Path = field(default_factory=Path)


@dataclass
class Chain:
    next: Chain | None
    path: Path


class Place(NamedTuple):
    n: int
    path: Path


class Row(TypedDict):
    path: Path


class Model(pydantic.BaseModel):
    path: Path


def declared(hint: Any) -> Job[..., Any]:
    def work(x: Any) -> None: ...

    work.__annotations__["x"] = hint
    return App("sqlite:///:memory:").job(work)


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (Path, "Path cannot be read from JSON. Write str instead, and make a Path of it in the"),
        (Path | None, "Path .* Write str"),
        (list[Path], "Path .* Write str"),
        (dict[str, Path | None], "Path .* Write str"),
        (Annotated[list[Path], msgspec.Meta(title="paths")], "Path .* Write str"),
        (tuple[int, Path], "Path .* Write str"),
        (Report, "Path .* Write str"),
        (list[Report], "Path .* Write str"),
        (Chain, "Path .* Write str"),
        (Place, "Path .* Write str"),
        (Row, "Path .* Write str"),
        (IPv4Address, "IPv4Address .* Write str"),
        (IPv4Network, "IPv4Network .* Write str"),
        (deque[int], r"deque .* Write list\[…\] instead"),
        (Iterable[int], r"Iterable .* Write list\[…\] instead"),
        (Iterator[int], r"Iterator .* Write list\[…\] instead"),
        (Counter[str], r"Counter .* Write dict\[…\] instead"),
        (Callable[[], int], "Callable .* Write str instead, a name by which"),
        (complex, "complex .* Take JSON's own types"),
    ],
)
def test_what_can_never_be_read_is_refused_with_what_to_write_instead(hint: Any, said: str) -> None:
    with pytest.raises(BadInput, match=f"^job 'work' can never be given its parameter 'x': {said}"):
        declared(hint)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Draft, Draft("a", None, [])),
        (list[Sketch], [{"name": "a"}]),
        (Model, Model(path=Path("a"))),
        (list[Model | None], [Model(path=Path("a")), None]),
    ],
)
def test_what_can_be_read_if_only_sometimes_is_not_refused(hint: Any, value: Any) -> None:
    assert declared(hint).call(value).new.payload


def test_what_has_a_default_may_be_there_for_who_calls_the_function_by_hand() -> None:
    @App("sqlite:///:memory:").job
    def work(n: int, out: Path | None = None, call: Callable[[], int] = int) -> None: ...

    assert work.call(1).new.payload
    with pytest.raises(BadInput, match="Path is not JSON"):
        work.call(1, out=Path("a"))


def test_a_member_whose_type_means_nothing_is_refused_as_bad_input() -> None:
    @dataclass
    class Lost:
        at: Nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(BadInput, match=r"parameters of job 'work' cannot be kept .*'Nowhere'"):
        declared(Lost)
