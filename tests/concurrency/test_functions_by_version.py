"""Each version's SQL functions are in a schema of their own; the public ones call the newest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from inturn.model.errors import SchemaMissing
from inturn.model.worker import WorkerView
from inturn.store.postgres import migrate as migrating
from inturn.store.postgres.sql import FUNCTIONS, functions
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.support import claim, drain, enqueue, job
from tests.contract.test_schemas import NOTES

OTHERS = "inturn_functions_0f0f0f0f"


@pytest_asyncio.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """A store on a database of its own."""
    store = PostgresStore(postgres_url)
    await store.migrate()
    await store.open()
    yield store
    await store.close()


@contextmanager
def other_program(change: str = "", into: str = "", *, version: int = 0) -> Iterator[None]:
    """Be another version of inturn, as far as a migration goes: with functions of its own."""
    text = functions().replace(change, into) if change else functions()
    assert not change or text != functions()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrating, "FUNCTIONS", OTHERS)
        patch.setattr(migrating, "functions", lambda: text.replace(FUNCTIONS, OTHERS))
        if version:
            patch.setattr(migrating, "MIGRATIONS", migrating.MIGRATIONS[:version])
        yield


def ask(url: str, statement: str) -> Any:
    """Return what a statement's one row says, or its errors' text."""
    with psycopg.connect(url, autocommit=True) as connection:
        try:
            cursor = connection.execute(statement.encode())
        except psycopg.Error as error:
            return str(error)
        return cursor.fetchone() if cursor.description else None


def sets(url: str) -> set[str]:
    """Return the sets of functions that are there."""
    found = ask(url, "select array_agg(nspname) from pg_namespace where nspname ~ '^inturn_func'")
    return set(found[0])


REFUSED = "select inturn.enqueue('', 'send')"
CHANGED = ("this job cannot be accepted", "no, thank you")


async def test_functions_that_are_not_there_are_refused_with_the_command(
    store: PostgresStore, postgres_url: str
) -> None:
    ask(postgres_url, f"alter schema {FUNCTIONS} rename to {OTHERS}")
    late = PostgresStore(postgres_url)
    try:
        with pytest.raises(SchemaMissing, match="inturn store migrate"):
            await late.open()
        await late.migrate()
        await late.open()
        [made] = await enqueue(late, job("a"))
        assert await drain(late) == [made]
    finally:
        await late.close()


async def test_a_newer_version_stands_beside_the_older_and_is_what_the_public_ones_call(
    store: PostgresStore, postgres_url: str
) -> None:
    with other_program(*CHANGED):
        await store.migrate()
    assert sets(postgres_url) == {FUNCTIONS, OTHERS}
    assert "no, thank you" in ask(postgres_url, REFUSED)
    await store.migrate()  # the older one comes back, and takes nothing from the newer
    assert "no, thank you" in ask(postgres_url, REFUSED)
    [made] = await enqueue(store, job("a"))
    assert await drain(store) == [made]


async def test_a_version_older_than_the_tables_makes_its_functions_and_nothing_else(
    store: PostgresStore, postgres_url: str
) -> None:
    ask(postgres_url, "update inturn.schema_version set oldest = 1")
    before = await store.versions()
    with other_program(*CHANGED, version=len(migrating.MIGRATIONS) - 1):
        assert await store.migrate() == before["engine"]
    assert await store.versions() == before
    assert sets(postgres_url) == {FUNCTIONS, OTHERS}
    assert "this job cannot be accepted" in ask(postgres_url, REFUSED)


async def test_functions_go_a_week_after_they_were_replaced_if_no_worker_names_them(
    store: PostgresStore, postgres_url: str
) -> None:
    old = PostgresStore(postgres_url)
    a_week_later = "update inturn.functions set replaced_at = replaced_at - interval '8 days'"
    with other_program():
        await store.migrate()
    ask(postgres_url, a_week_later)
    await store.beat(WorkerView(id="old", host="h", pid=1, version="1"))  # names this version's
    with other_program():
        await store.migrate()
    assert sets(postgres_url) == {FUNCTIONS, OTHERS}
    await store.leave("old")
    ask(postgres_url, "create schema inturn_functions_of_mine")
    with other_program():
        await store.migrate()
    assert sets(postgres_url) == {OTHERS, "inturn_functions_of_mine"}
    with pytest.raises(SchemaMissing):
        await old.open()
    await old.migrate()
    await old.open()
    [made] = await enqueue(old, job("a"))
    assert await drain(old) == [made]
    await old.close()


async def test_public_functions_that_take_something_else_replace_the_old_ones(
    store: PostgresStore, postgres_url: str
) -> None:
    ask(postgres_url, "revoke execute on function inturn.enqueue_many from public")
    with other_program("    kind text,\n", "    kind text default 'plain',\n"):
        await store.migrate()
    assert ask(postgres_url, "select inturn.enqueue('mail') is not null") == (True,)
    rights = "select proacl is not null from pg_proc where oid = 'inturn.enqueue_many'::regproc"
    assert ask(postgres_url, rights) == (True,)  # one that takes the same keeps its rights
    assert len(await claim(store, 1, queue="mail")) == 1


async def test_who_may_use_what_is_there_may_use_what_is_made_later(
    store: PostgresStore, postgres_url: str
) -> None:
    for statement in (
        "drop role if exists sender",
        "create role sender",
        "grant usage on schema inturn to sender",
        "grant select, insert, update, delete on all tables in schema inturn to sender",
        "grant usage, select on all sequences in schema inturn to sender",
    ):
        assert ask(postgres_url, statement) is None
    with other_program():
        await store.migrate([NOTES])
    try:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("set role sender")
            row = connection.execute("select inturn.enqueue('mail', 'send')").fetchone()
            assert row is not None
            connection.execute("insert into inturn_notes.note values ('a', 'b')")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("truncate inturn_notes.note")
    finally:
        ask(postgres_url, "drop owned by sender")
        ask(postgres_url, "drop role sender")
