"""A lane's rules are the tables' own: a statement that breaks one is refused, whoever sends it."""

from __future__ import annotations

import sqlite3

import asyncpg
import pytest

from inturn.store.store import Store
from tests.contract.support import claim_one, enqueue, is_postgres, job, raw

ANY_TIME = "(select max(enqueued_at) from @job)"
ANY_JOB = "(select id from @job limit 1)"
HALTED = f"halted_at = {ANY_TIME}, halted_job = {ANY_JOB}"
PAUSED = f"paused_at = {ANY_TIME}, paused_by = 'ann'"

BROKEN = {
    "its head is not beyond its cursor": ("leased", ["head = cursor + 1"]),
    "an open lane is not leased, retried, looked at or halted as a whole": (
        "open",
        [
            "rank_at = null, token = 1",
        ],
    ),
    "what cannot be claimed has no rank": (
        "waiting",
        [
            "active = (1 = 0)",
            HALTED,
            PAUSED,
        ],
    ),
    "it is halted at a time and on a job": (
        "waiting",
        [f"rank_at = null, halted_at = {ANY_TIME}"],
    ),
    "it is paused at a time and by someone": (
        "waiting",
        ["rank_at = null, paused_by = 'ann'"],
    ),
}


@pytest.mark.parametrize(
    ("which", "change"),
    [
        pytest.param(which, change, id=f"{rule}: {change}")
        for rule, (which, changes) in BROKEN.items()
        for change in changes
    ],
)
async def test_a_change_that_breaks_a_lanes_rule_is_refused(
    store: Store, which: str, change: str
) -> None:
    await enqueue(store, job(key="leased"))
    await claim_one(store)
    await enqueue(store, job(), job(key="waiting"))
    lane = "key is null" if which == "open" else f"key = '{which}'"
    refused, by = (
        (asyncpg.CheckViolationError, "lane_holds_together")
        if is_postgres(store)
        else (sqlite3.IntegrityError, "CHECK constraint failed")
    )
    with pytest.raises(refused, match=by):
        await raw(store, f"update @lane set {change} where {lane}")
