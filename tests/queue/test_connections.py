"""An app on many loops and threads at once: what is accepted is in the store, and nobody hangs."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import asyncpg
import pytest

from inturn.model.errors import BadInput, StoreError
from inturn.queue.app import App
from inturn.queue.ticket import Ticket
from inturn.worker.worker import Worker
from tests.worker.conftest import until

# Connections that die with their loop say so when they are collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

HANG_SECONDS = 30.0
"""Who has no answer by then never gets one."""

said: ContextVar[str] = ContextVar("said", default="nothing")


@pytest.fixture
def app(url: str) -> Iterator[App]:
    app = App(url)

    @app.job
    async def send(n: int) -> int:
        return n

    yield app
    asyncio.run(app.close())
    gc.collect()  # what says so, says it here


async def waiting(app: App) -> int:
    return sum(queue.waiting for queue in await app.run(lambda store: store.queues()))


def at_once(works: list[Callable[[], Any]]) -> list[Any]:
    """Run functions on threads; return what came of each: its answer, or what it raised."""
    found: list[Any] = ["hangs"] * len(works)

    def run(place: int, work: Callable[[], Any]) -> None:
        try:
            found[place] = work()
        except BaseException as error:
            found[place] = error

    threads = [threading.Thread(target=run, args=one, daemon=True) for one in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    return found


def test_a_web_server_its_threads_and_a_worker_in_the_same_process_share_an_app(url: str) -> None:
    """As an ASGI server with async views, sync views on threads, and a worker beside it."""
    app, ran = App(url), set()

    @app.job
    async def note(n: int) -> None:
        ran.add(n)

    @app.job
    def copy(n: int) -> None:  # from a worker's thread
        note.submit_sync(n)

    worker = Worker(app)

    def work() -> None:
        asyncio.run(worker.run())

    async def sync_view(n: int) -> None:
        await asyncio.to_thread(copy.submit_sync, n)

    async def serve() -> None:
        async with app:
            for first in range(0, 60, 3):
                submits = [note.submit(first), sync_view(first + 1), copy.submit(first + 2)]
                await asyncio.gather(*submits)
            await until(lambda: len(ran) == 70, seconds=HANG_SECONDS)

    def command() -> int:  # as a management command, or a script beside it
        return len([asyncio.run(note.submit(n)).id for n in range(60, 70)])

    def served() -> None:
        try:
            asyncio.run(serve())
        finally:
            worker.stop()

    assert at_once([work, served, command]) == [None, None, 10]
    assert ran == set(range(70))
    asyncio.run(app.close())
    gc.collect()


def test_an_app_may_be_closed_while_others_submit(app: App) -> None:
    send, is_over = app.jobs["send"], threading.Event()

    def submitting(submit: Callable[[int], Any]) -> Callable[[], int]:
        def until_over() -> int:
            tickets = 0
            while not is_over.is_set():
                submit(tickets)
                tickets += 1
            return tickets

        return until_over

    def on_one_loop() -> int:
        async def until_over() -> int:
            tickets = 0
            while not is_over.is_set():
                await asyncio.gather(*(send.submit(n) for n in range(5)))
                tickets += 5
            return tickets

        return asyncio.run(until_over())

    def closing() -> None:
        try:
            for _ in range(10):
                is_over.wait(0.03)
                asyncio.run(app.close())
        finally:
            is_over.set()

    brief = submitting(lambda n: asyncio.run(send.submit(n)))
    counts = at_once([submitting(send.submit_sync), on_one_loop, on_one_loop, brief, closing])
    assert [type(one) for one in counts] == [int, int, int, int, type(None)], counts
    if not app.url.endswith(":memory:"):  # which ends when it is closed
        assert asyncio.run(waiting(app)) == sum(counts[:4])


def test_a_worker_runs_what_the_same_process_submitted_before_without_a_loop(app: App) -> None:
    ticket = app.jobs["send"].submit_sync(7)
    asyncio.run(Worker(app).run(until_empty=True))
    assert app.sync(ticket.result(timeout=HANG_SECONDS)) == 7


async def test_a_handler_that_closes_its_app_does_not_close_it_under_the_worker(url: str) -> None:
    app = App(url)

    @app.job
    async def send(n: int) -> int:
        async with app:  # as one who shares code with programs that only submit
            await app.jobs["count"].submit()
        return n

    @app.job
    async def count() -> None: ...

    worker = Worker(app)
    working = asyncio.create_task(worker.run())
    async with asyncio.timeout(HANG_SECONDS):
        assert await (await send.submit(1)).result() == 1
        assert await (await send.submit(2)).result() == 2
        store = await app.lend()
        worker.stop()
        await working
    with pytest.raises(StoreError, match="not open"):  # when the worker ended, as it was told to
        await store.queues()


async def test_a_connection_of_ones_own_is_used_on_its_own_loop(postgres_url: str) -> None:
    app = App(postgres_url)

    @app.job
    async def send(n: int) -> None: ...

    async def within() -> Ticket[None]:
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                [ticket] = await app.submit_many([send.call(1)], connection=connection)
                await connection.execute("select 1")
            return ticket
        finally:
            await connection.close()

    await app.migrate()
    await app.open()
    elsewhere = await asyncio.to_thread(asyncio.run, within())
    here = await within()
    assert {(await one.status()).job.id for one in (elsewhere, here)} == {elsewhere.id, here.id}
    await app.close()
    gc.collect()


async def test_code_that_is_not_async_is_not_made_to_wait_for_its_own_loop(app: App) -> None:
    async def inside() -> None:
        app.sync(waiting(app))

    with pytest.raises(BadInput, match=r"an event loop runs in this thread, .* Use `await`"):
        await inside()
    with pytest.raises(BadInput, match="an event loop runs in this thread"):
        await asyncio.to_thread(app.sync, inside())
