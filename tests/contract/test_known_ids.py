"""A job's id stands for one job: sent again it is the first one, and other work is a conflict."""

from __future__ import annotations

from typing import Any

import asyncpg
import msgspec
import pytest

from inturn.model.errors import JobConflict, StoreError
from inturn.model.job import JobState, NewJob
from inturn.store.store import Store
from tests.contract.support import bring_to, enqueue, job, jobs, run_all, stored

OTHER: dict[str, dict[str, Any]] = {
    "payload": {"payload": '{"n": 2}'},
    "kind": {"kind": "other"},
    "queue": {"queue": "other"},
    "key": {"key": "other"},
    "no-key": {"key": None},
}


def first() -> NewJob:
    return NewJob(kind="k", queue="mail", key="a", payload='{"n": 1, "to": "é"}')


@pytest.mark.parametrize("other", list(OTHER.values()), ids=list(OTHER))
async def test_other_work_under_a_known_id_is_a_conflict(
    store: Store, other_store: Store, other: dict[str, Any]
) -> None:
    one = first()
    await store.enqueue([one])
    before = await stored(store)
    wrong = msgspec.structs.replace(one, **other)
    for batch in ([wrong], [job(), wrong, job(key="a")], [*jobs(60), wrong]):
        with pytest.raises(JobConflict, match=str(one.id)) as conflict:
            await other_store.enqueue(batch)
        assert conflict.value.job == one.id
        assert await stored(store) == before
    assert await run_all(store, queue="mail") == [one.id]


@pytest.mark.parametrize("wanted", list(JobState), ids=str)
async def test_a_known_id_is_known_in_every_state(store: Store, wanted: JobState) -> None:
    made = await bring_to(store, wanted, queue="mail", key="a")
    again = NewJob(kind="k", queue="mail", key="a", id=made)
    before = await stored(store)
    [ticket] = await store.enqueue([again])
    assert (ticket.id, ticket.duplicate) == (made, False)
    for wrong in (
        msgspec.structs.replace(again, payload="1"),
        msgspec.structs.replace(again, delay_seconds=1.0, kind="other"),
    ):
        with pytest.raises(JobConflict, match=str(made)):
            await store.enqueue([wrong])
    assert await stored(store) == before


async def test_in_a_transaction_it_is_the_same(store: Store) -> None:
    one = first()
    [ticket] = await store.enqueue([one])
    async with store.transaction() as transaction:
        assert await transaction.enqueue([one]) == [ticket]
        with pytest.raises(JobConflict):
            await transaction.enqueue([msgspec.structs.replace(one, payload="1"), job()])
        [fresh] = await enqueue(transaction, job())
        known, _ = await transaction.enqueue([one, first()])
        assert known == ticket
    assert await run_all(store) == [fresh]
    assert (await run_all(store, queue="mail"))[0] == one.id


POSTGRES = pytest.mark.parametrize("store_kind", ["postgres"], indirect=True)


@POSTGRES
@pytest.mark.parametrize(
    ("payload", "error", "named"),
    [("1", JobConflict, "another queue"), ('{"n": 1, "to": "é"}', StoreError, "roll it back")],
    ids=["other", "same"],
)
async def test_a_callers_own_transaction_is_told_what_spoiled_it(
    store: Store, store_url: str, payload: str, error: type[Exception], named: str
) -> None:
    one = first()
    await store.enqueue([one])
    connection = await asyncpg.connect(store_url)
    try:
        again = msgspec.structs.replace(one, payload=payload)
        for batch in ([again], [*jobs(60), again]):
            outer = connection.transaction()
            await outer.start()
            with pytest.raises(error, match=named):
                await store.enqueue(batch, connection=connection)
            await outer.rollback()
    finally:
        await connection.close()
    assert (await stored(store))["job"] == 1
