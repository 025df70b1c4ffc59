"""Arguments: what a handler is called with comes back as it was submitted, or is refused."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from functools import partial, update_wrapper
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from inturn.model.errors import (
    BadInput,
    InvalidPayload,
    PayloadMismatch,
    PayloadTooLarge,
    ResultMismatch,
)
from inturn.queue.app import App
from inturn.queue.arguments import decode_result, encode_result
from inturn.queue.context import Context
from inturn.queue.job import Job

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
ID = UUID("01900000-0000-7000-8000-000000000001")


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Line:
    number: int
    price: Decimal


class Order(msgspec.Struct):
    lines: list[Line]
    at: datetime


class Model(pydantic.BaseModel):
    """Has what changes on its way through JSON unless care is taken."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    n: int
    cents: int = pydantic.Field(default=0, alias="amountInCents")
    at: datetime = NOW

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return 2 * self.n


class Secretive(pydantic.BaseModel):
    password: pydantic.SecretStr


class Forgetful(pydantic.BaseModel):
    kept: int
    left_out: int = pydantic.Field(default=0, exclude=True)


@pytest.fixture
def app() -> App:
    return App("sqlite:///:memory:")


def again(job: Job[..., Any], *args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments that the handler gets for a call."""
    return job.arguments.decode(job.call(*args, **kwargs).new.payload)


def test_every_type_that_is_promised_comes_back_as_it_was(app: App) -> None:
    @app.job
    def work(
        text: str, at: datetime, price: Decimal, id: UUID, order: Order, colour: Colour,
        found: set[int], either: int | None, anything: Any, raw: bytes, model: Model,
    ) -> None: ...  # fmt: skip

    given: dict[str, Any] = {
        "text": "é\n", "at": NOW, "price": Decimal("1.10"), "id": ID,
        "order": Order([Line(1, Decimal("2.5"))], NOW), "colour": Colour.RED, "found": {1, 2},
        "either": None, "anything": {"a": [1, 2.5, None, "x"]}, "raw": b"\x00\xff",
    }  # fmt: skip
    given["model"] = Model(n=7, amountInCents=500)
    args, found = again(work, **given)
    assert args == []
    assert found == given
    assert decode_result(encode_result(given["model"]) or "", Model) == given["model"]


@pytest.mark.parametrize(
    "model", [Secretive(password=pydantic.SecretStr("x")), Forgetful(kept=1, left_out=2)], ids=repr
)
def test_a_model_that_would_come_back_as_another_is_refused(app: App, model: Any) -> None:
    @app.job
    def work(model: Any) -> None: ...

    with pytest.raises(InvalidPayload, match="does not come back from JSON as it was"):
        work.call(model)
    assert again(work, Forgetful(kept=1))[1]["model"] == {"kept": 1}


def test_a_result_of_another_type_is_a_mismatch() -> None:
    with pytest.raises(ResultMismatch, match="Expected `int`, got `str`"):
        decode_result('"x"', int)


@pytest.mark.parametrize("hint", ["second", "optional"])
def test_a_context_that_is_not_plainly_the_first_parameter_is_refused(app: App, hint: str) -> None:
    async def second(a: int, ctx: Context) -> None: ...

    async def optional(ctx: Context | None) -> None: ...

    declared: dict[str, Any] = {"second": second, "optional": optional}
    with pytest.raises(BadInput, match=r"asks for its context as 'ctx'.*\(ctx: Context, …\)"):
        app.job(declared[hint])


def test_a_class_or_a_timeout_that_is_no_number_is_refused_where_it_is_declared(app: App) -> None:
    with pytest.raises(BadInput, match="is for functions"):
        app.job(Line)
    with pytest.raises(BadInput, match="timeout must be a finite number"):
        app.job(timeout="5s")(len)  # type: ignore[call-overload]


def test_positions_and_names_are_those_of_the_function(app: App) -> None:
    @app.job
    def work(a: int, /, b: int, *, c: int = 3) -> None: ...

    assert again(work, 1, 2) == ([1], {"b": 2})
    assert again(work, 1, b=2, c=4) == ([1], {"b": 2, "c": 4})


def test_a_default_is_that_of_the_handler_that_runs(app: App) -> None:
    """What was not said when it was submitted is not in the payload."""

    @app.job
    def work(a: int, options: list[str] | None = None, n: int = 5) -> None: ...

    assert work.call(1).new.payload == '{"a":1}'
    assert again(work, 1) == ([], {"a": 1})


def test_the_context_is_no_argument(app: App) -> None:
    @app.job
    async def work(ctx: Context, a: int) -> None: ...

    assert work.has_context
    assert again(work, 1) == ([], {"a": 1})


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "missing a required argument: 'to'"),
        ((5,), {}, "to must be str, got int"),
        (("a",), {"n": "x"}, "n must be int, got str"),
        (("a",), {"wrong": 1}, "unexpected keyword argument 'wrong'"),
        (("a", 1, 2), {}, "too many positional arguments"),
    ],
)
def test_a_call_that_cannot_be_is_refused_before_anything_is_stored(
    app: App, args: tuple[Any, ...], kwargs: dict[str, Any], said: str
) -> None:
    @app.job
    def send(to: str, n: int = 1) -> None: ...

    with pytest.raises(BadInput, match=f"job 'send': .*{said}"):
        send.call(*args, **kwargs)


@pytest.mark.parametrize("value", [object(), math.nan])
def test_a_value_that_is_not_json_is_refused(app: App, value: Any) -> None:
    @app.job
    def send(value: Any) -> None: ...

    with pytest.raises(InvalidPayload):
        send.call(value)


def test_a_payload_that_is_too_large_is_refused(app: App) -> None:
    @app.job
    def send(value: str) -> None: ...

    with pytest.raises(PayloadTooLarge):
        send.call("x" * 1024 * 1024)


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ("{}", "missing required field `to`"),
        ('{"to": 5}', "Expected `str`, got `int`"),
        ('{"to": "a", "gone": 1}', "unknown field `gone`"),
    ],
)
def test_a_payload_that_no_longer_fits_says_what_to_do(app: App, payload: str, said: str) -> None:
    @app.job
    def send(to: str) -> None: ...

    with pytest.raises(PayloadMismatch, match=f"(?s)job 'send': .*{said}.*retry the dead letter"):
        send.arguments.decode(payload)


def test_a_job_that_came_without_a_payload_has_no_arguments(app: App) -> None:
    @app.job
    def sweep(deep: bool = False) -> None: ...

    assert sweep.arguments.decode("null") == sweep.arguments.decode("{}") == ([], {})


def test_what_cannot_be_a_job_is_refused_where_it_is_declared(app: App) -> None:
    with pytest.raises(BadInput, match=r"takes \*args: .* Take a list instead\.$"):

        @app.job
        def one(*args: int) -> None: ...

    with pytest.raises(BadInput, match=r"takes \*\*options: .* Take a dict instead\.$"):

        @app.job
        def two(**options: int) -> None: ...

    with pytest.raises(BadInput, match="Nowhere"):

        @app.job
        def three(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(BadInput, match=r"asks for its context as 'ctx'\. Only its first"):

        @app.job
        def four(*, ctx: Context, n: int = 1) -> None: ...

    with pytest.raises(
        BadInput, match=r"^job 'five' is a method, .* @staticmethod below @app\.job"
    ):

        class Five:
            @app.job
            def five(self, n: int) -> None: ...

    with pytest.raises(BadInput, match=r"parameters of job 'six' cannot be kept as JSON"):

        @app.job
        def six(__y: int) -> None: ...

    with pytest.raises(BadInput, match=r"^@app\.job is for functions, not functools\.partial"):
        app.job(update_wrapper(partial(print, "x"), print))

    assert app.jobs == {}


SETS = """
from dataclasses import dataclass
from inturn import App

app = App("sqlite:///:memory:")

@dataclass
class Order:
    tags: set[str]

@app.job
def tag(tags: set[str], orders: list[Order], by_name: dict[str, frozenset[str]]) -> None: ...

names = {"red", "green", "blue", "black", "white", "grey", "pink"}
call = tag.using(dedupe=True).call(names, [Order(names)], {"a": frozenset(names)})
print(call.new.payload, call.new.dedupe)
"""


def test_sets_are_the_same_payload_in_every_process_where_it_is_compared() -> None:
    said = set()
    for seed in "123":
        seeded = os.environ | {"PYTHONHASHSEED": seed}
        ran = subprocess.run(
            [sys.executable, "-c", SETS], capture_output=True, text=True, check=True, env=seeded
        )
        said.add(ran.stdout)
    assert len(said) == 1
