"""An app on several loops, of which some end early: nobody is left waiting, or told wrongly."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import pytest

from inturn import Executor
from inturn.model.errors import BadInput, StoreError, StoreUnavailable
from inturn.model.job import NewJob
from inturn.queue.app import App
from inturn.queue.job import Job
from inturn.queue.sending import sending
from inturn.queue.ticket import Ticket
from inturn.store.sqlite.store import SqliteStore
from inturn.worker.worker import Worker
from tests.worker.conftest import until

# Connections that die with their loop say so when they are collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

HANG_SECONDS = 30.0
"""Who has no answer by then never gets one."""


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


def test_threads_with_short_lived_loops_know_what_was_accepted(app: App) -> None:
    send = app.jobs["send"]

    def in_loops() -> list[Any]:
        return [asyncio.run(send.submit(n)).id for n in range(12)]

    def without() -> list[Any]:
        return [send.submit_sync(n).id for n in range(12)]

    found = at_once([in_loops] * 5 + [without] * 2)
    assert [type(one) for one in found] == [list] * 7, found
    assert len({id for ids in found for id in ids}) == asyncio.run(waiting(app)) == 7 * 12


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

    def closing() -> None:
        try:
            for _ in range(10):
                is_over.wait(0.03)
                asyncio.run(app.close())
        finally:
            is_over.set()

    brief = submitting(lambda n: asyncio.run(send.submit(n)))
    counts = at_once([submitting(send.submit_sync), submitting(send.submit_sync), brief, closing])
    assert [type(one) for one in counts] == [int, int, int, type(None)], counts
    if not app.url.endswith(":memory:"):  # which ends when it is closed
        assert asyncio.run(waiting(app)) == sum(counts[:3])


@pytest.mark.parametrize("way", ["submit", "submit_sync", "submit_many", "run"])
def test_what_is_submitted_as_another_thread_closes_the_app_is_accepted(
    app: App, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    send = app.jobs["send"]
    if app.url.startswith("postgres"):
        pytest.skip("its store lives on one loop, and is closed there")

    def close() -> None:
        asyncio.run(app.close())

    def enqueue_as_it_is_closed(store: SqliteStore, jobs: Any) -> Any:
        monkeypatch.undo()
        closing = threading.Thread(target=close)
        closing.start()
        closing.join()
        return store.enqueue(jobs)

    async def main() -> None:
        await app.open()
        monkeypatch.setattr(SqliteStore, "enqueue", enqueue_as_it_is_closed)
        match way:
            case "submit":
                await send.submit(1)
            case "submit_sync":
                await asyncio.to_thread(send.submit_sync, 1)
            case "submit_many":
                await app.submit_many([send.call(1)])
            case "run":  # which may have done more than one thing: it is said
                with pytest.raises(StoreUnavailable, match="the app was closed while this was"):
                    await app.run(lambda store: store.enqueue([send.call(1).new]))
        assert await waiting(app) == (way != "run")
        await app.close()

    asyncio.run(main())


class Host:
    """A thread with a loop, to which an app's store is lent, and which ends without answering."""

    def __init__(self, app: App, *, is_orderly: bool) -> None:
        self._app, self._is_orderly = app, is_orderly
        self._is_lent, self.is_asked = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Host:
        self._thread.start()
        assert self._is_lent.wait(HANG_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _run(self) -> None:
        if self._is_orderly:
            return asyncio.run(self._wait())
        loop = asyncio.new_event_loop()
        loop.run_until_complete(self._wait())
        return loop.close()  # and what waits there is never told

    async def _wait(self) -> None:
        store: Any = await self._app.lend()
        enqueue = store.enqueue

        async def accepting(*args: Any, **kwargs: Any) -> None:
            await enqueue(*args, **kwargs)
            await self.asked(store)

        store.enqueue = accepting
        self._is_lent.set()
        await asyncio.to_thread(self.is_asked.wait)
        store.enqueue = enqueue

    async def asked(self, _store: Any) -> None:
        """Take a call, and never answer it."""
        self.is_asked.set()
        await asyncio.Event().wait()


async def submit(job: Job[Any, Any]) -> Any:
    return await job.submit(1)


ways = pytest.mark.parametrize(
    "way",
    [lambda job: asyncio.run(submit(job)), lambda job: job.submit_sync(1)],
    ids=["submit", "submit_sync"],
)
endings = pytest.mark.parametrize("is_orderly", [True, False], ids=["cancelled", "cut off"])


@ways
@endings
def test_a_job_whose_answer_ended_with_its_loop_is_accepted_once(
    app: App, way: Callable[[Job[Any, Any]], Any], is_orderly: bool
) -> None:
    with Host(app, is_orderly=is_orderly):
        [ticket] = at_once([lambda: way(app.jobs["send"])])
    page = asyncio.run(app.run(lambda store: store.jobs()))
    assert [ticket.id] == [row.job.id for row in page.rows]


@endings
def test_another_call_that_ended_with_its_loop_says_that_nobody_knows(
    app: App, is_orderly: bool
) -> None:
    with Host(app, is_orderly=is_orderly) as host:
        [error] = at_once([lambda: asyncio.run(_ask(app, host.asked))])
    assert isinstance(error, StoreUnavailable)
    assert "may have happened or not" in str(error)


async def _ask(app: App, verb: Callable[[Any], Awaitable[None]]) -> None:
    await app.run(verb)


async def test_a_call_that_is_cancelled_as_its_error_comes_leaves_no_complaint(app: App) -> None:
    await app.lend()
    is_answered, complaints = threading.Event(), []

    async def fail(_store: Any) -> None:
        asyncio.get_running_loop().call_later(0.01, is_answered.set)  # after it has failed
        raise StoreUnavailable("the store is away.")

    async def elsewhere() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context["message"]))
        asking = asyncio.ensure_future(app.run(fail))
        await asyncio.sleep(0)
        assert is_answered.wait(HANG_SECONDS)  # and this loop has not seen it
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        del asking
        await asyncio.sleep(0.01)
        gc.collect()

    await asyncio.to_thread(asyncio.run, elsewhere())
    assert complaints == []
    await app.close()


def test_a_worker_runs_what_the_same_process_submitted_before_without_a_loop(app: App) -> None:
    ticket = app.jobs["send"].submit_sync(7)
    asyncio.run(Worker(app).run(until_empty=True))
    assert app.sync(ticket.result(timeout=HANG_SECONDS)) == 7


async def test_a_worker_on_another_loop_takes_the_store_unless_it_is_lent(app: App) -> None:
    ticket = await app.jobs["send"].submit(7)
    await asyncio.to_thread(asyncio.run, Worker(app).run(until_empty=True))
    assert await ticket.result(timeout=HANG_SECONDS) == 7
    await app.lend()
    with pytest.raises(BadInput, match="lent to a worker on another event loop"):
        await asyncio.to_thread(asyncio.run, Worker(app).run(until_empty=True))
    await app.close()


async def test_a_worker_that_has_ended_leaves_the_store_to_who_comes(app: App) -> None:
    for n in range(2):
        ticket = await app.jobs["send"].submit(n)
        await Worker(app).run(until_empty=True)
        other = await app.jobs["send"].submit(n)
        await asyncio.to_thread(asyncio.run, Worker(app).run(until_empty=True))
        assert [await one.result(timeout=HANG_SECONDS) for one in (ticket, other)] == [n, n]
    await app.close()


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
        worker.stop()
        await working
    assert not [home for home in (app.homes._home, app.homes._guests) if home is not None], (
        "closed when the worker ended, as it was told to"
    )


async def test_an_app_is_closed_beside_a_durable_executor_and_all_goes_on(url: str) -> None:
    app = App(url)

    @app.job
    async def send(n: int) -> int:
        return n

    async with asyncio.timeout(HANG_SECONDS), Executor(app=app) as executor:
        assert await executor.run("k", send.call(1)) == 1
        await asyncio.to_thread(asyncio.run, app.close())
        assert await executor.run("k", send.call(2)) == 2
        await executor.barrier("k")
    await app.close()


async def test_who_lived_on_a_loop_that_has_ended_keeps_nothing_open(app: App) -> None:
    def live() -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(app.keep_open().__aenter__())
        loop.close()  # and nobody is told

    await asyncio.to_thread(live)
    await app.close()
    assert not app.homes._is_to_close


async def test_an_app_is_closed_when_the_last_has_left_who_kept_it_open(migrated_url: str) -> None:
    app = App(migrated_url)
    async with app.keep_open():
        async with app.keep_open():
            store = await app.lend()
            await app.close()
        assert await store.queues() == []
    assert app.homes._home is None
    with pytest.raises(StoreError, match="not open"):
        await store.queues()


class Pausing:
    """A lock that, once it is let go for the first time, lets something happen before all else."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._lock, self._happens = threading.Lock(), [happens]

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if self._happens:
            self._happens.pop()()


async def test_who_begins_to_keep_an_app_open_while_it_closes_is_not_closed_under(
    migrated_url: str,
) -> None:
    app = App(migrated_url)
    await app.open()
    lives, closed = threading.Event(), threading.Event()
    found: list[Any] = []

    async def live() -> None:
        async with app.keep_open():
            store = await app.lend()
            lives.set()
            await asyncio.to_thread(closed.wait, HANG_SECONDS)
            found.append(await store.queues())

    thread = threading.Thread(target=asyncio.run, args=[live()])

    def begin() -> None:
        thread.start()
        lives.wait(HANG_SECONDS)

    app.homes._settling_in = Pausing(begin)  # type: ignore[assignment]
    await app.close()
    closed.set()
    await asyncio.to_thread(thread.join)
    assert found == [[]]
    await app.close()
    gc.collect()


async def test_a_forked_child_is_not_told_to_close_what_its_parent_was(app: App) -> None:
    async with app.keep_open():
        await app.close()
        app.homes.begin_anew()
        assert not app.homes._is_to_close


async def test_what_was_open_on_a_loop_is_closed_when_a_worker_takes_the_store_elsewhere(
    migrated_url: str,
) -> None:
    app = App(migrated_url)
    await app.open()
    before = app.homes._home
    assert before is not None
    assert before.opening.is_open
    await asyncio.to_thread(asyncio.run, Worker(app).run(until_empty=True))
    await until(lambda: not before.opening.is_open)
    await app.close()
    gc.collect()  # the worker's connections ended with its loop


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
    await app.lend()  # as to a worker, on this loop
    elsewhere = await asyncio.to_thread(asyncio.run, within())
    here = await within()
    assert {(await one.status()).job.id for one in (elsewhere, here)} == {elsewhere.id, here.id}
    await app.close()
    first = await asyncio.to_thread(send.submit_sync, 1)  # its home is no loop of anyone's
    assert {(await one.status()).job.id for one in (first, await within())} >= {first.id}
    await app.close()


def test_code_on_the_apps_own_thread_is_not_made_to_wait_for_itself(app: App) -> None:
    async def inside() -> None:
        app.sync(waiting(app))

    with pytest.raises(
        BadInput, match="runs on the app's own event loop, which waiting would stop"
    ):
        app.sync(inside())


async def test_jobs_are_sent_a_second_time_as_ones_that_may_be_known(app: App) -> None:
    sent: list[list[bool]] = []

    class Telling:
        async def enqueue(self, jobs: list[NewJob]) -> list[Any]:
            sent.append([job.unsent for job in jobs])
            return []

    send = app.jobs["send"]
    store: Any = Telling()
    verb = sending([send._new((1,), {}, unsent=True), send.call(2).new])
    for _ in range(3):
        await verb(store)
    assert sent == [[True, False], [False, False], [False, False]]
