"""Names and payloads: whatever can be written as text comes back as it was."""

from __future__ import annotations

import pytest

from inturn.model import bounds
from inturn.policy.verdict import Done, Retry
from inturn.store.store import Store
from tests.contract.support import (
    bury,
    claim,
    claim_one,
    done,
    enqueue,
    ids,
    job,
    job_ids,
    lane,
    queue_status,
    settle,
    verdicts,
)

NAMES = {
    "colon": "a:b::c:",
    "quote": 'it\'s "quoted" `so`',
    "backslash": "a\\b\\\\n\\0",
    "sql": "'; drop table job; --",
    "braces": "{a,b} {} $1 ?1 :a @b #{c}",
    "newline": "a\nb\r\tc\x01\x7f",
    "unicode": "åß∂ 日本語 العربية עברית",
    "emoji": "🎈👩‍👩‍👧‍👦",
    "composed": "é e\u0301",
    "invisible": "\u200b\ufeff\u2028\u00a0",
    "case": "straße STRASSE",
}
EVERY_NAME = pytest.mark.parametrize("name", list(NAMES.values()), ids=list(NAMES))

PAYLOADS = {
    "order": '{"z":1,"a":2,"m":{"y":1,"b":2}}',
    "twice": '{"a":1,"a":2}',
    "spaces": ' {\n\t"a" : [ 1 , 2 ] }\r\n',
    "numbers": "[1.0, 1, 1e3, 1E+3, 1000, 0.1, 1.10, -0, -0.0, 0e0]",
    "precision": "[0.1000000000000000055511151231257827, 3.14159265358979323846264338327950288]",
    "escapes": '["\\u00e9", "é", "\\/", "/", "\\u0041", "\\ud83c\\udf88", "🎈", "\\n\\t\\"\\\\"]',
    "empty": '{"":[],"a":{}}',
    "looks-like-nul": '"\\\\u0000 \\\\x00"',
    "deep": "[" * 100 + "]" * 100,
}
EVERY_PAYLOAD = pytest.mark.parametrize("payload", list(PAYLOADS.values()), ids=list(PAYLOADS))


@EVERY_NAME
async def test_any_name_is_a_name(store: Store, name: str) -> None:
    """(003-16)"""
    new = job(name, queue=name, key=name, dedupe=name)
    [ticket] = await store.enqueue([new])
    [again] = await store.enqueue([job(name, queue=name, key=name, dedupe=name)])
    assert (again.id, again.duplicate) == (ticket.id, True)
    view = await store.job(ticket.id)
    assert (view.job.queue, view.job.key, view.job.kind) == (name, name, name)
    assert (await lane(store, name, queue=name)).key == name
    assert (await queue_status(store, name)).waiting == 1
    assert job_ids((await store.jobs(queue=name, key=name, kind=name)).rows) == [ticket.id]
    claimed = await claim_one(store, queue=name, worker=name, kinds=[name])
    assert claimed.lease.key == name
    assert (await store.job(ticket.id)).worker == name
    await store.settle(bury(claimed, name), worker=name)
    [letter] = (await store.dead_letters(queue=name, kind=name, key=name)).rows
    assert [(one.worker, one.error) for one in letter.errors] == [(name, name)]
    await store.pause(name, key=name, by=name)
    assert (await lane(store, name, queue=name)).paused_by == name
    assert await store.dead_drop([ticket.id], by=name) == [ticket.id]
    assert (await store.job(ticket.id)).cancelled_by == name


async def test_names_that_look_alike_are_not_the_same(store: Store) -> None:
    """(003-16)"""
    alike = ["é", "e\u0301", "a", "A", "a ", " a", "a\u200b", "%", "_", "a\\", "a\\\\", "\uff41"]
    batch = [job(key=name) for name in alike for _ in range(2)]
    tickets = await store.enqueue(batch)
    assert [ticket.position for ticket in tickets] == [1, 2] * len(alike)
    claims = await claim(store)
    assert {one.lease.key for one in claims} == set(alike)
    assert len(claims) == len(alike)
    for name in alike:
        assert len((await store.jobs(key=name)).rows) == 2


@EVERY_PAYLOAD
@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_a_payload_comes_back_exactly(store: Store, key: str | None, payload: str) -> None:
    """(003-16)"""
    [made] = await enqueue(store, job(key=key, payload=payload))
    assert (await store.job(made)).job.payload == payload
    claimed = await claim_one(store)
    assert claimed.jobs[0].payload == payload
    await settle(store, [verdicts(claimed, Retry(0, "again"))])
    claimed = await claim_one(store)
    assert claimed.jobs[0].payload == payload
    await settle(store, [verdicts(claimed, Done(payload))])
    assert await store.result(made) == payload


async def test_a_payload_as_large_as_it_may_be(store: Store) -> None:
    for letter in ("x", "é"):
        size = len(letter.encode())
        payload = '"' + letter * ((bounds.PAYLOAD_BYTES_MAX - 2) // size) + '"'
        assert len(payload.encode()) == bounds.PAYLOAD_BYTES_MAX
        [made] = await enqueue(store, job(payload=payload))
        claims = await claim(store)
        assert ids(claims) == [made]
        assert claims[0].jobs[0].payload == payload
        await settle(store, done(claims))
