"""What code says of its queues: written when it changed, so that what a person has set holds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn.model.errors import BadInput
from inturn.model.lane import OnDead, QueueSettings
from inturn.store.store import Store
from tests.contract.support import queue_status


async def test_what_code_says_is_written_once_and_left_to_a_person_then(
    store: Store, other_store: Store
) -> None:
    said = {"orders": {"on_dead": "halt", "running_max": 2}}
    await store.declare(said)
    written = QueueSettings(on_dead=OnDead.HALT, running_max=2)
    assert (await store.settings())["orders"] == written
    set_by_hand = QueueSettings(on_dead=OnDead.HALT, running_max=9, depth_max=5)
    await other_store.configure("orders", set_by_hand)
    await store.declare(said)
    assert (await queue_status(store, "orders")).settings == set_by_hand


async def test_only_what_changed_in_the_code_is_written(store: Store) -> None:
    await store.declare({"orders": {"running_max": 2, "keep_done_seconds": 60.0}})
    await store.configure("orders", QueueSettings(running_max=9, keep_done_seconds=1.0))
    await store.declare({"orders": {"running_max": 2, "keep_done_seconds": 90.0}})
    assert (await store.settings())["orders"] == QueueSettings(
        running_max=9, keep_done_seconds=90.0
    )
    await store.declare({"orders": {"running_max": None}})
    assert (await store.settings())["orders"] == QueueSettings(keep_done_seconds=90.0)


async def test_only_what_code_has_never_said_is_written_where_that_is_asked_for(
    store: Store,
) -> None:
    await store.declare({"orders": {"running_max": 2}, "mail": {"running_max": 2}})
    await store.drop_queue("mail")
    said = {"running_max": 3, "depth_max": 5}
    await store.declare({"orders": said, "mail": said}, missing_only=True)
    assert await store.settings() == {
        "orders": QueueSettings(running_max=2, depth_max=5),
        "mail": QueueSettings(running_max=3, depth_max=5),
    }


async def test_two_programs_that_say_different_things_of_a_queue_do_not_undo_each_other(
    store: Store, other_store: Store
) -> None:
    for _ in range(2):
        await store.declare({"orders": {"running_max": 2}})
        await other_store.declare({"orders": {"on_dead": "halt"}})
    assert (await store.settings())["orders"] == QueueSettings(on_dead=OnDead.HALT, running_max=2)
    await store.configure("orders", QueueSettings())
    await store.declare({"orders": {"running_max": 2}})
    await other_store.declare({"orders": {"on_dead": "halt"}})
    assert (await store.settings())["orders"] == QueueSettings()


async def test_changes_made_at_the_same_time_all_hold(store: Store, other_store: Store) -> None:
    """Two programs that start, and a person who sets one thing by hand."""
    for number in range(10):
        queue = f"orders {number}"
        await asyncio.gather(
            store.declare({queue: {"running_max": 2}}),
            other_store.declare({queue: {"on_dead": "halt"}}),
            store.configure(queue, {"depth_max": 9}),
            other_store.configure(queue, {"keep_done_seconds": 60.0}),
        )
        assert (await store.settings())[queue] == QueueSettings(
            running_max=2, on_dead=OnDead.HALT, depth_max=9, keep_done_seconds=60.0
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"colour": "red"},
        {"on_dead": "explode"},
        {"rate": 5},
        {"running_max": 0},
    ],
    ids=str,
)
async def test_settings_that_cannot_be_are_refused(store: Store, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        await store.declare({"orders": wrong})
    assert await store.settings() == {}
