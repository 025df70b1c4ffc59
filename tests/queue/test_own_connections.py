"""Jobs in a producer's own transaction, on the connections that web applications have.

Each is tried on a real server: what commits is there with the rows it is about, what rolls back is
not, and a connection that is not async is used on the thread that submits.

Promise P13 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
import pytest_asyncio
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from inturn.model.errors import BadInput, SchemaMissing, StoreError
from inturn.model.job import JobState
from inturn.queue.app import App
from inturn.queue.job import Job
from inturn.store.store import Store

ADD = "insert into note (text) values ('written')"


class Oops(Exception):
    """What a caller raises in the middle of its transaction."""


@pytest_asyncio.fixture
async def app(migrated_url: str) -> AsyncIterator[App]:
    app = App(migrated_url)

    @app.job(queue="mail")
    async def send(to: str, about: str) -> None: ...

    async with app, app.transaction() as t:
        await t.execute("create table note (text text)")
    yield app
    assert await app.run(lambda store: store.check()) == []
    await app.close()


@pytest.fixture
def send(app: App) -> Job[..., None]:
    return app.jobs["send"]


# Async doors: each opens a transaction, yields its connection, and how to run a statement on it.

Door = Callable[[str], Any]
Run = Callable[[str], Awaitable[Any]]


@asynccontextmanager
async def of_asyncpg(url: str) -> AsyncIterator[tuple[Any, Run]]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection, connection.execute
    finally:
        await connection.close()


@asynccontextmanager
async def of_psycopg(url: str) -> AsyncIterator[tuple[Any, Run]]:
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
        yield connection, connection.execute


def through_sqlalchemy(driver: str) -> Door:
    @asynccontextmanager
    async def of_an_engine(url: str) -> AsyncIterator[tuple[Any, Run]]:
        engine = create_async_engine(make_url(url).set(drivername=f"postgresql+{driver}"))
        try:
            async with engine.begin() as connection:
                yield connection, connection.exec_driver_sql
        finally:
            await engine.dispose()

    return of_an_engine


@asynccontextmanager
async def of_an_async_session(url: str) -> AsyncIterator[tuple[Any, Run]]:
    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session, lambda sql: session.execute(sqlalchemy.text(sql))
    finally:
        await engine.dispose()


ASYNC_DOORS: dict[str, Door] = {
    "asyncpg": of_asyncpg,
    "psycopg": of_psycopg,
    "sqlalchemy, asyncpg": through_sqlalchemy("asyncpg"),
    "sqlalchemy, psycopg": through_sqlalchemy("psycopg"),
    "sqlalchemy, session": of_an_async_session,
}

# Doors that are not async


@contextmanager
def of_psycopg_sync(url: str) -> Iterator[tuple[Any, Callable[[str], Any]]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        yield connection, connection.execute


@contextmanager
def of_an_engine_sync(url: str) -> Iterator[tuple[Any, Callable[[str], Any]]]:
    engine = sqlalchemy.create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    try:
        with engine.begin() as connection:
            yield connection, connection.exec_driver_sql
    finally:
        engine.dispose()


@contextmanager
def of_a_session(url: str) -> Iterator[tuple[Any, Callable[[str], Any]]]:
    engine = sqlalchemy.create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    try:
        with Session(engine) as session, session.begin():
            yield session, lambda sql: session.execute(sqlalchemy.text(sql))
    finally:
        engine.dispose()


@contextmanager
def of_django(url: str) -> Iterator[tuple[Any, Callable[[str], Any]]]:
    """``django.db.connection`` in ``atomic``, which no thread but its own may use."""
    import django  # type: ignore[import-untyped]
    from django.conf import settings  # type: ignore[import-untyped]
    from django.db import (  # type: ignore[import-untyped]
        connection,
        connections,
        transaction,
    )

    if not settings.configured:
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql"}})
        django.setup()
    at = make_url(url)
    connections.settings["default"] |= {
        "NAME": at.database,
        "USER": at.username,
        "PASSWORD": at.password or "",
        "HOST": at.host or at.query.get("host", ""),
        "PORT": at.port or "",
    }
    try:
        with transaction.atomic():

            def run(sql: str) -> Any:
                with connection.cursor() as cursor:
                    cursor.execute(sql)

            yield connection, run
    finally:
        connections["default"].close()
        del connections["default"]


SYNC_DOORS: dict[str, Door] = {
    "psycopg": of_psycopg_sync,
    "sqlalchemy": of_an_engine_sync,
    "sqlalchemy, session": of_a_session,
    "django": of_django,
}


async def stored(app: App) -> tuple[int, list[tuple[str | None, str, JobState]]]:
    """Return how many rows of the caller's there are, and the jobs."""
    async with app.transaction() as t:
        [(rows,)] = await t.execute("select count(*) from note")
    page = await app.run(lambda store: store.jobs())
    jobs = [(view.job.key, view.job.payload, view.state) for view in page.rows]
    return rows, sorted(jobs, key=str)


AWKWARD = 'a "b" \\ {c}, NULL, %s :p1 é \U0001f600'
PAYLOADS = [
    '{"to":"a","about":"one"}',
    '{"to":"b","about":"a \\"b\\" \\\\ {c}, NULL, %s :p1 é \U0001f600"}',
    '{"to":"c","about":"three"}',
]


@pytest.mark.parametrize("door", ASYNC_DOORS)
async def test_jobs_are_there_if_the_transaction_commits(
    app: App, send: Job[..., None], door: str
) -> None:
    """And only then. (B-08)"""

    async def submit(error: type[BaseException] | None = None) -> list[Any]:
        async with ASYNC_DOORS[door](app.url) as (connection, run):
            await run(ADD)
            job = send.using(connection=connection, key="k {1}")
            first = await job.submit("a", "one")
            calls = [send.using(key=AWKWARD).call("b", AWKWARD)]
            calls.append(send.using(after=[first]).call("c", "three"))
            tickets = [first, *await app.submit_many(calls, connection=connection)]
            assert await stored(app) == (0, [])
            if error is not None:
                raise error
        return tickets

    with pytest.raises(Oops):
        await submit(Oops)
    assert await stored(app) == (0, [])
    tickets = await submit()
    await check_stored(app, tickets)


async def check_stored(app: App, tickets: list[Any]) -> None:
    rows, jobs = await stored(app)
    assert rows == 1
    assert sorted(payload for _, payload, _ in jobs) == sorted(PAYLOADS)
    assert {key for key, _, _ in jobs} == {"k {1}", AWKWARD, None}
    states = [(await ticket.status()).state for ticket in tickets]
    assert states == [JobState.WAITING, JobState.WAITING, JobState.BLOCKED]
    assert [ticket.position for ticket in tickets] == [1, 1, None]


@pytest.mark.parametrize("door", SYNC_DOORS)
async def test_code_that_is_not_async_submits_on_its_own_thread(
    app: App, send: Job[..., None], door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside its own transaction. (B-08)"""

    def submit(error: type[BaseException] | None = None) -> list[Any]:
        with SYNC_DOORS[door](app.url) as (connection, run):
            run(ADD)
            job = send.using(connection=connection, key="k {1}")
            first = job.submit_sync("a", "one")
            calls = [send.using(key=AWKWARD).call("b", AWKWARD)]
            calls.append(send.using(after=[first]).call("c", "three"))
            tickets = [first, *app.submit_many_sync(calls, connection=connection)]
            if error is not None:
                raise error
        return tickets

    threads: list[int] = []
    enqueue = type(await app.lend()).enqueue_sync

    def noted(store: Store, *args: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return enqueue(store, *args, **options)

    monkeypatch.setattr(type(await app.lend()), "enqueue_sync", noted)

    def on_a_thread(error: type[BaseException] | None = None) -> tuple[int, list[Any]]:
        return threading.get_ident(), submit(error)

    with pytest.raises(Oops):
        await asyncio.to_thread(on_a_thread, Oops)
    assert await stored(app) == (0, [])
    threads.clear()
    thread, tickets = await asyncio.to_thread(on_a_thread)
    assert threads == [thread, thread]
    await check_stored(app, tickets)


@pytest.mark.parametrize("door", sorted(SYNC_DOORS.keys() - {"django"}))  # which forbids it
async def test_on_a_loop_a_connection_that_is_not_async_is_used_there(
    app: App, send: Job[..., None], door: str
) -> None:
    with SYNC_DOORS[door](app.url) as (connection, run):
        run(ADD)
        await send.using(connection=connection).submit("a", "one")
        with pytest.raises(BadInput, match="await"):
            send.using(connection=connection).submit_sync("a", "two")
    rows, jobs = await stored(app)
    assert (rows, len(jobs)) == (1, 1)


@pytest.mark.parametrize("door", ASYNC_DOORS)
async def test_an_async_connection_is_refused_where_nothing_awaits(
    app: App, send: Job[..., None], door: str
) -> None:
    async with ASYNC_DOORS[door](app.url) as (connection, run):
        await run(ADD)
        job = send.using(connection=connection)
        with pytest.raises(BadInput):
            await asyncio.to_thread(job.submit_sync, "a", "one")
    assert await stored(app) == (1, [])


async def test_a_new_queue_is_made_apart_from_the_transaction(
    app: App, send: Job[..., None]
) -> None:
    """Or every other producer of it would wait for the commit."""

    def submit() -> None:
        with of_psycopg_sync(app.url) as (connection, _):
            send.using(connection=connection).submit_sync("a", "one")
            app.sync(asyncio.wait_for(send.submit("b", "two"), 30.0))

    await asyncio.to_thread(submit)
    assert len((await stored(app))[1]) == 2


async def test_what_is_declared_later_is_written_when_a_connection_of_ones_own_submits_next(
    app: App, send: Job[..., None]
) -> None:
    def submit() -> None:
        with of_psycopg_sync(app.url) as (connection, _):
            send.using(connection=connection).submit_sync("a", "one")

    await asyncio.to_thread(submit)
    app.queue("mail", running_max=2)
    await asyncio.to_thread(submit)
    store = app.spare_store()
    await store.open()
    try:
        assert (await store.settings())["mail"].running_max == 2
    finally:
        await store.close()


async def test_what_is_no_connection_is_refused(app: App, send: Job[..., None]) -> None:
    with pytest.raises(BadInput, match=r"asyncpg's, psycopg's, SQLAlchemy's or Django's"):
        await send.using(connection="postgresql://").submit("a", "one")
    with pytest.raises(BadInput, match=r"asyncpg's, psycopg's"):
        await asyncio.to_thread(send.using(connection=3).submit_sync, "a", "one")
    engine = sqlalchemy.create_engine("postgresql+psycopg://")
    with pytest.raises(BadInput, match=r"asyncpg's, psycopg's"):
        await asyncio.to_thread(send.using(connection=engine).submit_sync, "a", "one")


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", None])
async def test_a_connection_to_a_database_without_the_tables_is_told(
    send: Job[..., None], postgres_url: str, scheme: str | None
) -> None:
    def submit() -> None:
        if scheme is None:
            with psycopg.connect(postgres_url) as connection, connection.cursor() as cursor:
                with pytest.raises(BadInput, match=r"asyncpg's, psycopg's"):
                    send.using(connection=cursor).submit_sync("a", "one")
                send.using(connection=connection).submit_sync("a", "one")
        else:
            url = make_url(postgres_url).set(drivername=scheme)
            engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
            with engine.begin() as begun:
                send.using(connection=begun).submit_sync("a", "one")

    with pytest.raises(SchemaMissing, match="without inturn's tables"):
        await asyncio.to_thread(submit)


async def test_a_sqlite_store_takes_no_connection() -> None:
    async with App("sqlite:///:memory:") as app:

        @app.job
        async def send() -> None: ...

        with pytest.raises(StoreError, match="its own connection only"):
            await send.using(connection=object()).submit()
        with pytest.raises(StoreError, match="its own connection only"):
            await asyncio.to_thread(send.using(connection=object()).submit_sync)
