"""A parameter that could never be given anything is refused where its job is declared."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypedDict, TypeVar

import attrs
import msgspec
import pydantic
import pytest

from inturn import App
from inturn.model.errors import BadInput
from inturn.queue.job import Job

T = TypeVar("T")


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


@attrs.define
class Account:
    """msgspec leaves out what is said to be private, and gives it its default when it is read."""

    name: str
    _balance: int = 0


@attrs.define
class Open:
    name: str
    balance: int = 0
    next: Open | None = None


@attrs.define
class Counted(Account):
    """Has nothing private of its own."""

    number: int = 0


@attrs.define
class Lazy:
    """What nobody can give is made anew, and nothing of it is lost."""

    name: str
    _found: dict[str, int] = attrs.field(factory=dict, init=False)


@attrs.define
class Ring:
    next: Ring | None = None
    others: list[Account] = attrs.field(factory=list)


@dataclass
class Holder:
    name: str
    accounts: dict[str, list[Account]] | None = None


class Box(msgspec.Struct, Generic[T]):
    held: T


class Pair(NamedTuple):
    account: Account


class Sheet(TypedDict, total=False):
    account: Account


@dataclass
class Plain:
    """A dataclass is written whole."""

    name: str
    _balance: int = 0
    next: Plain | None = None


@pytest.mark.parametrize(
    "hint",
    [
        Account,
        Counted,
        Account | None,
        int | list[Account],
        list[Account],
        set[Account],
        tuple[Account, ...],
        tuple[int, Account],
        dict[str, Account | None],
        Annotated[list[Account], msgspec.Meta(title="accounts")],
        Holder,
        Ring,
        Pair,
        Sheet,
        tuple[Box[int], Box[Account]],
    ],
    ids=str,
)
def test_a_class_of_attrs_that_would_not_be_written_whole_is_refused(hint: Any) -> None:
    said = (
        r"is a class of attrs, and its attribute '_balance' would be left out .* Name it "
        r"without one, or make \w+ a dataclass\.$"
    )
    with pytest.raises(BadInput, match=f"^job 'work' cannot be given its parameter 'x' .*{said}"):
        declared(hint)

    def give(n: int, x: Any = None) -> None: ...

    give.__annotations__["x"] = hint
    with pytest.raises(BadInput, match=f"^job 'give' cannot be given its parameter 'x' .*{said}"):
        App("sqlite:///:memory:").job(give)

    def make() -> Any: ...

    make.__annotations__["return"] = hint
    with pytest.raises(BadInput, match=f"^job 'make' cannot return its result whole: .*{said}"):
        App("sqlite:///:memory:").job(make)
    App("sqlite:///:memory:").job(keep_result=None)(make)  # nothing of it is written


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Open, Open("a", 1, Open("b", 2))),
        (Plain, Plain("a", 1, Plain("b", 2))),
        (list[Plain | None], [Plain("a", 1), None]),
        (Box[Open], Box(Open("a", 1))),
        (Lazy, Lazy("a")),
    ],
)
def test_classes_of_attrs_to_which_nothing_private_is_given_and_dataclasses_arrive_whole(
    hint: Any, value: Any
) -> None:
    job = declared(hint)
    [], found = job.arguments.decode(job.call(value).new.payload)
    assert found == {"x": value}
