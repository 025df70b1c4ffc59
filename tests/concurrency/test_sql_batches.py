"""Any language enqueues many: ``select * from inturn.enqueue_many(…)``, all or none."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Json

from inturn.model.job import JobState
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.support import claim, done, drain, enqueue, ids, job, state

MANY = "select * from inturn.enqueue_many(%s)"


def mail(**fields: Any) -> dict[str, Any]:
    return {"queue": "mail", "kind": "send", **fields}


def enqueue_many(url: str, jobs: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(MANY, (Json(jobs),)).fetchall()


async def test_tickets_come_in_the_given_order_and_positions_follow_it_within_a_key(
    store: PostgresStore, database: str
) -> None:
    tickets = enqueue_many(
        database, [mail(key=key, payload={"n": n}) for n, key in enumerate("abab")] + [mail()]
    )
    assert [position for _, _, position, _ in tickets] == [1, 1, 2, 2, 1]
    assert len({lane for _, lane, _, _ in tickets}) == 3
    claims = await claim(store, queue="mail")
    payloads = {one.id: one.payload for claimed in claims for one in claimed.jobs}
    assert [json.loads(payloads[id]) for id, *_ in tickets] == [
        *({"n": n} for n in range(4)),
        None,
    ]
    await done(store, claims)


async def test_the_fields_mean_what_the_arguments_of_enqueue_mean(
    store: PostgresStore, database: str
) -> None:
    [first] = await enqueue(store, job(queue="other"))
    tickets = enqueue_many(
        database,
        [
            mail(dedupe="one"),
            mail(dedupe="one", key=None, timeout_seconds=None),
            mail(after=[str(first)]),
            mail(delay_seconds=60.5),
            mail(priority=9, attempts_max=2, timeout_seconds=7, round=0),
        ],
    )
    made = [id for id, *_ in tickets]
    assert made[0] == made[1]
    assert [duplicate for *_, duplicate in tickets] == [False, True, False, False, False]
    assert await state(store, made[2]) is JobState.BLOCKED
    assert await state(store, made[3]) is JobState.SCHEDULED
    claims = await claim(store, queue="mail")
    assert ids(claims) == [made[4], made[0]]
    urgent = claims[0].jobs[0]
    assert (urgent.attempts_max, urgent.timeout_seconds) == (2, 7.0)
    await done(store, claims)


WRONG: list[tuple[object, str]] = [
    ({"queue": "mail"}, "jobs must be a JSON array"),
    (None, "jobs must be a JSON array"),
    ([mail(), 7], "job 2 of the batch .* it is not an object"),
    ([mail(), mail(kind="", key="a")], "job 2 of the batch .*key a.* kind needs 1 to 200"),
    ([mail(), {"kind": "send"}], "job 2 of the batch .* queue needs 1 to 128"),
    ([mail(), mail(prioriti=1)], "it has no field prioriti"),
    ([mail(priority="high")], "job 1 of the batch .* priority must be of type number"),
    ([mail(priority=None)], "priority must be of type number"),
    ([mail(priority=1.5)], "invalid input syntax for type integer"),
    ([mail(priority=101)], "priority may be -100 to 100"),
    ([mail(queue=5)], "queue must be of type string"),
    ([mail(payload="x\0y")], "job 1 of the batch .* (NUL|Unicode)"),
    ([mail(payload="x" * 1_048_576)], "payload has more than 1048576 bytes"),
    ([mail(delay_seconds=1, round=1)], "both a delay and a round"),
    ([mail(after=["no id"])], "invalid input syntax for type uuid"),
    ([mail(after=["01900000-0000-7000-8000-000000000000"])], "after names jobs that are not"),
]


@pytest.mark.parametrize(("jobs", "said"), WRONG)
async def test_one_bad_job_refuses_the_batch_and_is_named(
    store: PostgresStore, database: str, jobs: object, said: str
) -> None:
    with pytest.raises(psycopg.Error, match=said):
        enqueue_many(database, jobs)
    assert await store.queues() == []


async def test_the_example_of_the_reference_runs(store: PostgresStore, database: str) -> None:
    made: list[UUID] = []
    with psycopg.connect(database) as connection:
        jobs = [mail(payload={"to": to}) for to in ("a@b.c", "d@e.f")]
        for id, _, _, _ in connection.execute(MANY, (Json(jobs),)):
            made.append(id)
        connection.execute("create table public.mails (id integer, to_whom text)")
        connection.execute("insert into public.mails values (1, 'a'), (2, 'b')")
        made += [
            id
            for id, *_ in connection.execute(
                "select * from inturn.enqueue_many((select json_agg(json_build_object("
                "'queue', 'mail', 'kind', 'send', 'payload', row_to_json(m)) order by m.id) "
                "from public.mails m))"
            )
        ]
    assert sorted(await drain(store, "mail")) == sorted(made)
    assert len(made) == 4
