"""Dedupe policy: content is named by canonical JSON, never by joined strings."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from inturn.policy.dedupe import default_dedupe, digest

TEXT = some.text(some.characters(exclude_categories=["Cs"]), max_size=8)
JSON = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**63), 2**63) | TEXT,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)


@given(JSON, some.integers())
def test_payloads_that_differ_only_in_spelling_have_one_digest(value: Any, seed: int) -> None:
    """(001-16)"""
    plain = json.dumps(value)
    for spelling in (
        json.dumps(value, ensure_ascii=False),
        json.dumps(value, indent=3),
        json.dumps(value, separators=(",", ":")),
        json.dumps(shuffled(value, random.Random(seed))),
    ):
        assert digest("k", "a", spelling) == digest("k", "a", plain)
        assert default_dedupe("k", spelling) == default_dedupe("k", plain)


@given(JSON, JSON)
def test_other_payloads_have_other_digests(one: Any, two: Any) -> None:
    """(001-16)"""
    first, second = json.dumps(one, sort_keys=True), json.dumps(two, sort_keys=True)
    assert (digest("k", "a", first) == digest("k", "a", second)) is (first == second)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (("ab", "c", "null"), ("a", "bc", "null")),
        (("a", None, "null"), ("a", "null", "null")),
        (("a", None, '"x"'), ("a", "x", "null")),
        (("k", "a", '["1"]'), ("k", "a", "[1]")),
        (("k", "a", "[1,2]"), ("k", "a", "[2,1]")),
        (("k", "a", '{"a":{"b":1}}'), ("k", "a", '{"a":1,"b":1}')),
        (("k", "a", "{}"), ("k", "a", "[]")),
        (("k", "a", "null"), ("k", "a", '""')),
        (("k", "a", '"Array"'), ("k", "a", '["Array"]')),
    ],
)
def test_nothing_is_confused_by_joining(
    one: tuple[str, str | None, str], two: tuple[str, str | None, str]
) -> None:
    """(001-16)"""
    assert digest(*one) != digest(*two)


def test_the_default_key_is_of_kind_and_payload() -> None:
    assert default_dedupe("k", "[1]") != default_dedupe("l", "[1]")
    assert default_dedupe("k", "[1]") != default_dedupe("k", "[2]")
    assert default_dedupe("k", " [ 1 ] ") == default_dedupe("k", "[1]")
    assert len(default_dedupe("k", "[1]")) == 64


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        names = list(value)
        chance.shuffle(names)
        return {name: shuffled(value[name], chance) for name in names}
    if isinstance(value, list):
        return [shuffled(one, chance) for one in value]
    return value
