"""Payloads: what JSON text both stores can keep, and why not."""

from __future__ import annotations

import dataclasses
import decimal
import json
import math
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from inturn.model import bounds
from inturn.model.errors import InvalidPayload, PayloadTooLarge
from inturn.model.payload import check_payload, encode_payload

TEXT = some.text(some.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
JSON = some.recursive(
    some.none()
    | some.booleans()
    | some.integers(-(2**63), 2**64 - 1)
    | some.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: some.lists(inner) | some.dictionaries(TEXT, inner),
)


@given(JSON)
def test_whatever_json_can_say_is_a_payload(value: Any) -> None:
    text = encode_payload(value)
    assert json.loads(text) == value
    check_payload(text)
    check_payload(json.dumps(value))
    check_payload(json.dumps(value, ensure_ascii=False, indent=2))


@dataclasses.dataclass
class Address:
    street: str


@dataclasses.dataclass
class Point:
    x: float | None


class Shape(msgspec.Struct):
    size: float | None


class Wrapped:
    """A value of a type that is not known: what is in it is."""

    def __init__(self, inside: Any) -> None:
        self.inside = inside


def test_what_is_none_is_null_and_what_is_no_number_is_refused_wherever_it_is() -> None:
    assert encode_payload({"p": Point(None), "s": [Shape(None), None]}) == (
        '{"p":{"x":null},"s":[{"size":null},null]}'
    )

    def open_up(one: Any) -> Any:
        return one.inside

    assert encode_payload([Wrapped(None)], other=open_up) == "[null]"
    assert encode_payload(Wrapped(msgspec.Raw(b"null")), other=open_up) == "null"
    with pytest.raises(InvalidPayload, match="not finite"):
        encode_payload([Wrapped(Point(math.nan))], other=open_up)


def test_dataclasses_dates_ids_and_decimals_are_payloads_too() -> None:
    assert encode_payload(Address("a")) == '{"street":"a"}'
    assert encode_payload(UUID(int=5)) == f'"{UUID(int=5)}"'
    assert encode_payload(datetime(2026, 1, 2, tzinfo=UTC)) == '"2026-01-02T00:00:00Z"'
    assert encode_payload(decimal.Decimal("1.10")) == '"1.10"'
    assert encode_payload((1, 2)) == "[1,2]"


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        [1, {"a": -math.inf}],
        (math.nan,),
        {"a": {"b": [math.nan]}},
        {math.nan},
        Point(math.nan),
        {"points": [Point(1.0), Point(-math.inf)]},
        Shape(math.inf),
        (Shape(None), Shape(math.nan)),
        object(),
        {object(): 1},
        lambda: None,
        "\ud800",
        {"\ud800": 1},
        "nul \x00",
        {"nul \x00": 1},
        [["\x00"]],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_say_is_no_payload(value: Any) -> None:
    with pytest.raises(InvalidPayload, match="payload"):
        encode_payload(value)


def test_a_circle_of_values_is_no_payload() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(InvalidPayload):
        encode_payload(circle)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "nul",
        "{'a': 1}",
        "[1,]",
        "1 2",
        "01",
        "+1",
        ".5",
        "1.",
        '"\n"',
        "// a",
        "\ufeff1",
    ],
    ids=repr,
)
def test_text_that_is_not_json_is_no_payload(text: str) -> None:
    with pytest.raises(InvalidPayload, match="not JSON"):
        check_payload(text)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}'])
def test_numbers_that_are_not_json_are_named(text: str) -> None:
    with pytest.raises(InvalidPayload, match="NaN and Infinity are not JSON"):
        check_payload(text)


@pytest.mark.parametrize("text", ['"\\u0000"', '{"a\\u0000b": 1}', '[[{"a": "\\u0000"}]]'])
def test_nul_is_named_wherever_it_hides(text: str) -> None:
    with pytest.raises(InvalidPayload, match="NUL"):
        check_payload(text)


@pytest.mark.parametrize("text", ['"\\\\u0000"', '"u0000"'])
def test_what_only_looks_like_nul_is_fine(text: str) -> None:
    check_payload(text)


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\udc00"', '"\\ud800\\u0041"', '"\ud800"'])
def test_half_a_character_is_no_payload(text: str) -> None:
    with pytest.raises(InvalidPayload):
        check_payload(text)


def test_a_whole_pair_of_surrogates_is_fine() -> None:
    check_payload('"\\ud83c\\udf88"')


@pytest.mark.parametrize("value", [b"1", None, 1, {"a": 1}, ["1"]], ids=repr)
def test_a_payload_is_text(value: Any) -> None:
    with pytest.raises(InvalidPayload, match="must be JSON text"):
        check_payload(value)


@pytest.mark.parametrize("letter", ["x", "é", "🎈"])
def test_a_payload_is_measured_in_bytes(letter: str) -> None:
    size = len(letter.encode())
    room = bounds.PAYLOAD_BYTES_MAX - 2
    check_payload('"' + letter * (room // size) + '"')
    with pytest.raises(PayloadTooLarge, match="1,048,576"):
        check_payload('"' + letter * (room // size + 1) + '"')
    with pytest.raises(PayloadTooLarge):
        encode_payload("x" * bounds.PAYLOAD_BYTES_MAX)


@pytest.mark.parametrize("depth", [bounds.PAYLOAD_NESTING_MAX + 1, 900, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_a_payload_nested_without_end_is_refused_and_not_fatal(
    depth: int, opening: str, closing: str
) -> None:
    with pytest.raises(InvalidPayload, match="nested more than 200 deep"):
        check_payload(opening * depth + "1" + closing * depth)


def test_a_payload_nested_as_deeply_as_may_be_is_fine() -> None:
    depth = bounds.PAYLOAD_NESTING_MAX
    check_payload("[" * depth + '"no [[[[[[[[ of its own"' + "]" * depth)
    check_payload("[" + "[]," * 5_000 + "[]]")
    encode_payload(nested(depth))


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [bounds.PAYLOAD_NESTING_MAX + 1, 600, 5_000])
def test_a_value_nested_without_end_is_no_payload(depth: int) -> None:
    with pytest.raises(InvalidPayload, match="nested more than 200 deep"):
        encode_payload(nested(depth))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("1e400", "a number too large for a double"),
        ("[1, -1e999]", r"a number too large for a double, at `\$\[1\]`"),
        ('{"a": 1e400}', "a number too large for a double, at"),
        ("1" * 5_000, "a whole number of more than 4,300 digits"),
        ("[1, " + "1" * 5_000 + "]", r"more than 4,300 digits, at `\$\[1\]`"),
        ('"\\ud800"', "half of a surrogate pair"),
    ],
    ids=range(6),
)
def test_what_is_json_but_cannot_be_kept_is_called_what_it_is(text: str, named: str) -> None:
    with pytest.raises(InvalidPayload, match=named) as refused:
        check_payload(text)
    assert "is not JSON" not in str(refused.value)


def test_a_number_too_large_to_be_written_is_named() -> None:
    with pytest.raises(InvalidPayload, match="4300 digits"):
        encode_payload({"a": 10**5_000})
    assert encode_payload({"a": 10**30}) == '{"a":1000000000000000000000000000000}'


def test_an_error_names_what_was_checked() -> None:
    with pytest.raises(InvalidPayload, match="the result is not JSON"):
        check_payload("x", what="result")
