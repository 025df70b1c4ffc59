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
        [1, {"a": -math.inf}],
        {"points": [Point(1.0), Point(-math.inf)]},
        (Shape(None), Shape(math.nan)),
        object(),
        "\ud800",
        {"nul \x00": 1},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_say_is_no_payload(value: Any) -> None:
    with pytest.raises(InvalidPayload, match="payload"):
        encode_payload(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{'a': 1}",
        "[1,]",
        "1 2",
        "01",
        '"\n"',
        "\ufeff1",
    ],
    ids=repr,
)
def test_text_that_is_not_json_is_no_payload(text: str) -> None:
    with pytest.raises(InvalidPayload, match="not JSON"):
        check_payload(text)


@pytest.mark.parametrize("text", ['"\\u0000"', '{"a\\u0000b": 1}', '[[{"a": "\\u0000"}]]'])
def test_nul_is_named_wherever_it_hides(text: str) -> None:
    with pytest.raises(InvalidPayload, match="NUL"):
        check_payload(text)


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\udc00"', '"\\ud800\\u0041"', '"\ud800"'])
def test_half_a_character_is_no_payload(text: str) -> None:
    with pytest.raises(InvalidPayload):
        check_payload(text)


@pytest.mark.parametrize("value", [b"1", {"a": 1}], ids=repr)
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
