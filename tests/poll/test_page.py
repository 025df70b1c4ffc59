"""What a page of items changes in their shadow."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from inturn.poll.page import (
    Fields,
    Page,
    Shadow,
    SourceBroken,
    check_page,
    differences,
)


class Consignment(msgspec.Struct):
    id: str
    version: int
    name: str = ""


FIELDS = Fields("id", "version", "deleted", Consignment)


def seen(key: str, version: int | str, *, deleted: bool = False) -> Shadow:
    return Shadow(key, str(version), deleted, f'"{key}{version}"')


def kinds(items: list[Shadow], *shadows: Shadow) -> list[str]:
    told, _ = differences(items, {one.key: one for one in shadows})
    return [f"{one.kind} {one.shadow.key} {one.shadow.version}" for one in told]


def test_inserts_updates_and_deletes_are_changes() -> None:
    """(001-18)"""
    items = [seen("a", 1), seen("b", 5), seen("c", 6, deleted=True)]
    assert kinds(items, seen("b", 4), seen("c", 2)) == ["created a 1", "updated b 5", "deleted c 6"]


def test_what_was_seen_is_no_change_however_often_it_comes() -> None:
    assert kinds([seen("a", 1), seen("a", 1)], seen("a", 1)) == []
    assert kinds([seen("a", 3)], seen("a", 4)) == []  # of a replica that lags
    assert kinds([seen("a", "x9")], seen("a", "y1")) == ["updated a x9"]  # in no order: another
    assert kinds([seen("a", 2, deleted=True)]) == []  # it was never here


def test_an_item_that_comes_back_is_created_again() -> None:
    gone = seen("a", 2, deleted=True)
    assert kinds([seen("a", 3)], gone) == ["created a 3"]
    assert kinds([gone, seen("a", 3)], seen("a", 1)) == ["deleted a 2", "created a 3"]


def test_a_deleted_item_is_told_as_it_was_last_seen() -> None:
    told, [written] = differences([seen("a", 2, deleted=True)], {"a": seen("a", 1)})
    assert told[0].shadow.item == '"a1"'
    assert written.deleted


@given(some.lists(some.tuples(some.sampled_from("ab"), some.integers(1, 5), some.booleans())))
def test_pages_read_twice_and_cut_anywhere_lead_to_the_same_shadow(
    events: list[tuple[str, int, bool]],
) -> None:
    """(001-19)"""
    items = [seen(key, version, deleted=deleted) for key, version, deleted in events]
    told, written = differences(items, {})
    known = {one.key: one for one in written}
    assert differences(items, known) == ([], [])
    for cut in range(len(items)):
        first_told, first = differences(items[:cut], {})
        between = {one.key: one for one in first}
        second_told, second = differences(items[cut:], between)
        assert between | {one.key: one for one in second} == known
        assert first_told + second_told == told


def test_items_are_read_by_their_fields() -> None:
    item = {"id": 7, "version": 3, "deleted": None, "name": "x"}
    with pytest.raises(SourceBroken, match=r"no .*Consignment"):
        FIELDS.read(item)
    found = FIELDS.read(item | {"id": "7", "extra": 1})
    assert found == Shadow("7", "3", False, '{"id":"7","name":"x","version":3}')
    assert FIELDS.read(Consignment(id="8", version=1)).key == "8"
    gone = FIELDS.read({"id": "9", "version": 4, "deleted": True, "name": None})
    assert (gone.key, gone.deleted) == ("9", True)
    anything = Fields("id", "etag", None, Any)
    assert anything.read({"id": 7, "etag": "w/1"}) == Shadow(
        "7", "w/1", False, '{"etag":"w/1","id":7}'
    )
    with pytest.raises(SourceBroken, match="item 'a' has 1,000,0"):
        anything.read({"id": "a", "etag": 1, "text": "x" * 1_000_000})
    for wrong in ({"id": 7}, {"id": "", "etag": 1}, {"id": True, "etag": 1}, "garbage", None):
        with pytest.raises(SourceBroken):
            anything.read(wrong)


@pytest.mark.parametrize(
    "page",
    [
        None,
        [],
        "garbage",
        Page("abc", "1"),
        Page([], None, more=True),
        Page([], 1.5),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_page_is_refused(page: Any) -> None:
    with pytest.raises(SourceBroken):
        check_page(page)
