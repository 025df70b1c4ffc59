"""More payload than PostgreSQL can answer with at once: fewer jobs come, and none is lost."""

from __future__ import annotations

import pytest

from inturn.policy.settlement import Settlement
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.support import claim, enqueue, ids, job

LARGE = 1_040_000
JOBS = 1_040  # together more than 1 GiB


@pytest.fixture
async def filled(store: PostgresStore) -> PostgresStore:
    """Copied by the server itself, packed as they are: they would be long on their way."""
    await enqueue(store, job(queue="before"), job(payload=f'"{"x" * (LARGE - 2)}"'))
    async with store.transaction() as t:
        await t.execute(
            "insert into inturn.job (lane, position, id, kind, payload, priority, round, "
            "attempts_max, timeout_seconds, enqueued_at) "
            "select lane, position + n, inturn.uuid7(), kind, payload, priority, round, "
            "attempts_max, timeout_seconds, enqueued_at from inturn.log, "
            f"generate_series(1, {JOBS - 1}) n where queue = 'default'"
        )
        await t.execute(f"update inturn.tail set last = {JOBS} where queue = 'default'")
    return store


async def test_a_claim_of_more_than_a_gibibyte_gives_fewer_jobs(filled: PostgresStore) -> None:
    claims = await claim(filled, JOBS)
    assert 0 < len(ids(claims)) < JOBS
    assert {len(one.payload) for claimed in claims for one in claimed.jobs} == {LARGE}


async def test_a_turn_settles_although_its_claim_is_too_large(filled: PostgresStore) -> None:
    [before] = await claim(filled, queue="before")
    claims = await filled.turn([Settlement.done(before)], "default", jobs_max=JOBS, worker="w1")
    assert 0 < len(ids(claims)) < JOBS
    assert [status.running for status in await filled.queues()] == [0, len(ids(claims))]
