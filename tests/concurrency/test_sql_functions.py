"""Any language enqueues: ``select inturn.enqueue(…)`` in the caller's own transaction.

Promise P13 of ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

import psycopg
import pytest

from inturn.model.errors import StoreError
from inturn.model.job import JobState
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.support import claim, done, drain, ids, state

Ask = Callable[[str, dict[str, Any]], Any]
"""Run a statement with named parameters and return its one value."""


class Undo(Exception):
    """Raised to leave a transaction without committing."""


@contextmanager
def by_psycopg(url: str) -> Iterator[Ask]:
    with psycopg.connect(url) as connection:

        def ask(statement: str, arguments: dict[str, Any]) -> Any:
            for name in arguments:
                statement = statement.replace(f":{name}", f"%({name})s")
            row = connection.execute(statement.encode(), arguments).fetchone()
            return row and row[0]

        yield ask


async def test_what_is_committed_is_claimable(store: PostgresStore, database: str) -> None:
    with by_psycopg(database) as ask:
        made = ask(
            "select inturn.enqueue('mail', 'send', :payload, key => :key)",
            {"payload": '{"to": "a@b.c"}', "key": "customer-7"},
        )
        assert await claim(store, queue="mail") == []
    claims = await claim(store, queue="mail")
    [[leased]] = [one.jobs for one in claims]
    assert (leased.id, leased.kind, leased.key) == (UUID(str(made)), "send", "customer-7")
    assert leased.payload == '{"to": "a@b.c"}'
    await done(store, claims)


async def test_what_is_rolled_back_never_was(store: PostgresStore, database: str) -> None:
    with suppress(Undo), by_psycopg(database) as ask:
        assert ask("select inturn.enqueue('mail', 'send', key => :key)", {"key": "a"})
        raise Undo
    assert await drain(store, "mail") == []
    with by_psycopg(database) as ask:
        made = ask("select inturn.enqueue('mail', 'send', key => :key)", {"key": "a"})
    assert await drain(store, "mail") == [UUID(str(made))]


async def test_ids_are_valid_version_7_and_rise(store: PostgresStore, database: str) -> None:
    """(003-01)"""
    with by_psycopg(database) as ask:
        made = [
            UUID(str(ask("select inturn.enqueue('mail', 'send', key => :key)", {"key": "a"})))
            for _ in range(20)
        ]
        now = ask("select floor(extract(epoch from clock_timestamp()) * 1000)::bigint", {})
    for one in made:
        assert one.version == 7
        assert one.variant == "specified in RFC 4122"
        assert 0 <= now - (one.int >> 80) < 60_000
    assert [one.int >> 80 for one in made] == sorted(one.int >> 80 for one in made)
    assert len(set(made)) == 20
    assert await drain(store, "mail") == made


WRONG = [
    ("inturn.enqueue('', 'send')", "queue needs 1 to 128 characters"),
    ("inturn.enqueue('mail', 'send', null)", "payload is null"),
    ("inturn.enqueue('mail', 'send', 'no json')", "invalid input syntax for type json"),
    ("inturn.enqueue('mail', 'send', '\"\\u0000\"')", "cannot be kept: .*Unicode"),
    (
        "inturn.enqueue('mail', 'send', to_json(repeat('x', 1048577)))",
        "payload has more than 1048576 bytes",
    ),
    ("inturn.enqueue('mail', 'send', priority => 101)", "priority may be -100 to 100"),
    ("inturn.enqueue('mail', 'send', after => null)", "after may name up to 50000 jobs"),
    (
        "inturn.enqueue('mail', 'send', after => array[gen_random_uuid()])",
        "after names jobs that are not in this store",
    ),
    ("inturn.enqueue('mail', 'send', now => 'infinity')", "now must be a time"),
    ("inturn.enqueue('mail', 'send', delay_seconds => 1, round => 1)", "both a delay and a round"),
]


@pytest.mark.parametrize(("call", "said"), WRONG)
async def test_bad_input_raises_and_says_what_is_wrong(
    store: PostgresStore, database: str, call: str, said: str
) -> None:
    with psycopg.connect(database) as connection:
        with pytest.raises(psycopg.Error, match=said):
            connection.execute(f"select {call}".encode())
        connection.rollback()
    assert await store.queues() == []


async def test_the_options_mean_what_they_mean_elsewhere(
    store: PostgresStore, database: str
) -> None:
    with by_psycopg(database) as ask:
        first = ask("select inturn.enqueue('mail', 'send', dedupe => 'one')", {})
        again = ask("select inturn.enqueue('mail', 'send', dedupe => 'one')", {})
        later = ask(
            "select inturn.enqueue('mail', 'send', after => array[cast(:first as uuid)])",
            {"first": str(first)},
        )
        delayed = ask("select inturn.enqueue('mail', 'send', delay_seconds => 60)", {})
        urgent = ask("select inturn.enqueue('mail', 'send', key => 'a', priority => 9)", {})
    assert first == again
    assert await state(store, UUID(str(delayed))) is JobState.SCHEDULED
    assert await state(store, UUID(str(later))) is JobState.BLOCKED
    claims = await claim(store, queue="mail")
    assert [str(one) for one in ids(claims)] == [str(urgent), str(first)]
    await done(store, claims)
    assert [str(one) for one in await drain(store, "mail")] == [str(later)]


async def test_another_payload_under_a_dedupe_key_is_a_conflict(
    store: PostgresStore, database: str
) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("select inturn.enqueue('mail', 'send', '1', dedupe => 'one')")
        with pytest.raises(psycopg.Error, match="dedupe key one of queue mail stands for another"):
            connection.execute("select inturn.enqueue('mail', 'send', '2', dedupe => 'one')")


async def test_a_database_that_is_not_utf8_is_refused(postgres_url: str) -> None:
    """SQL_ASCII keeps bytes and knows no characters: names and digests would break later."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("drop database if exists inturn_ascii")
        connection.execute(
            "create database inturn_ascii encoding 'SQL_ASCII' locale 'C' template template0"
        )
    store = PostgresStore(postgres_url.rsplit("/", 1)[0] + "/inturn_ascii")
    try:
        with pytest.raises(StoreError, match="UTF8"):
            await store.migrate()
    finally:
        await store.close()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("drop database inturn_ascii")
