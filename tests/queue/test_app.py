"""An app: jobs declared on it are accepted by its store, from any loop and any thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from inturn.model.errors import (
    BadInput,
    DedupeConflict,
    JobFailed,
    OutOfBounds,
    ResultCancelled,
    ResultTimeout,
    SchemaMissing,
    UnknownDependency,
)
from inturn.model.job import JobState
from inturn.policy.retry import RetryPolicy
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Verdict
from inturn.queue.app import App
from tests import shop


@pytest.fixture
def made(url: str) -> App:
    """An app that nobody has used yet."""
    app = App(url)

    @app.job(queue="mail", attempts=2, timeout=60)
    async def send(to: str, copies: int = 1) -> int:
        return copies

    return app


@pytest_asyncio.fixture
async def app(made: App) -> AsyncIterator[App]:
    async with made:
        yield made


async def settle(app: App, verdict: Verdict) -> None:
    """Run the next job of the queue, as a worker would."""
    [claim] = await app.run(lambda store: store.claim("mail", jobs_max=1, worker="w"))
    outcome = Outcome(claim.jobs[0], verdict)
    await app.run(lambda store: store.settle([Settlement(claim.lease, [outcome])], worker="w"))


async def test_a_submitted_job_is_kept_as_it_was_declared(app: App) -> None:
    ticket = await app.jobs["send"].submit("a@b.c")
    view = await ticket.status()
    job = view.job
    assert (job.kind, job.queue, job.payload) == ("send", "mail", '{"to":"a@b.c"}')
    assert (job.attempts_max, job.timeout_seconds, job.priority) == (2, 60.0, 0)
    assert (view.lane, view.position) == (ticket.lane, ticket.position)
    assert "no live worker takes kind 'send'" in await ticket.explain()


async def test_options_are_of_the_submission_and_not_of_the_job(app: App) -> None:
    send = app.jobs["send"]
    other = send.using(key="customer-7", priority=2, queue="slow", delay=30)
    job = (await (await other.submit(to="a")).status()).job
    assert (job.key, job.priority, job.queue) == ("customer-7", 2, "slow")
    plain = (await (await send.submit(to="a")).status()).job
    assert (plain.key, plain.priority, plain.queue) == (None, 0, "mail")
    assert other.using(key="b").options.queue == "slow"


async def test_many_are_accepted_all_or_none_in_order(app: App) -> None:
    send = app.jobs["send"]
    tickets = await app.submit_many([send.using(key="k").call(str(n)) for n in range(5)])
    assert [ticket.position for ticket in tickets] == [1, 2, 3, 4, 5]
    call = send.call("x")
    with pytest.raises(UnknownDependency):
        await app.submit_many([call, send.using(after=[send.call("never")]).call("y")])
    assert await app.submit_many([]) == []
    [after] = await app.submit_many([send.using(after=[tickets[0]]).call("y")])
    assert (await after.status()).waits_for == (tickets[0].id,)


async def test_a_dedupe_key_gives_the_first_jobs_ticket(app: App) -> None:
    send = app.jobs["send"]
    first = await send.using(dedupe="mail-42").submit("a")
    second = await send.using(dedupe="mail-42").submit("a")
    assert (second.id, second.is_duplicate, first.is_duplicate) == (first.id, True, False)
    with pytest.raises(DedupeConflict):
        await send.using(dedupe="mail-42").submit("b")
    same = send.using(dedupe=True)
    assert (await same.submit("a")).id == (await same.submit(to="a")).id
    assert (await same.submit("b")).is_duplicate is False


async def test_what_using_leaves_out_stays_and_none_takes_a_key_away(app: App) -> None:
    lane = app.jobs["send"].using(key="a", dedupe="mail-42")
    first = await lane.submit("a")
    assert (await lane.using(priority=2).submit("a")).id == first.id
    for nothing in (None, False):
        assert not (await lane.using(dedupe=nothing).submit("a")).is_duplicate
    assert lane.using(dedupe=True).call("a").new.dedupe not in (None, "mail-42")
    assert lane.using(key=None).call("a").new.key is None


async def test_a_result_comes_back_as_its_type(app: App) -> None:
    ticket = await app.jobs["send"].submit("a")
    waiting = asyncio.create_task(ticket.result(timeout=10))
    await settle(app, Done(result="7"))
    assert await waiting == 7
    nothing = await app.jobs["send"].submit("a")
    await settle(app, Done())
    assert await nothing.result(timeout=0) is None


async def test_a_result_that_will_never_come_is_an_error(app: App) -> None:
    send = app.jobs["send"]
    late = await send.submit("a")
    with pytest.raises(ResultTimeout, match=r"no result after 0.02 s: It is ready, but no live"):
        await late.result(timeout=0.02)
    assert await late.cancel(by="ann") is JobState.CANCELLED
    with pytest.raises(ResultCancelled, match="cancelled by ann"):
        await late.result(timeout=1)
    dead = await send.submit("a")
    await settle(app, Bury("hopeless"))
    with pytest.raises(JobFailed, match=f"hopeless.*inturn jobs show {str(dead.id)[-8:]}`"):
        await dead.result(timeout=1)


def test_code_that_is_not_async_waits_for_a_result(made: App) -> None:
    ticket = made.jobs["send"].submit_sync("a")
    with pytest.raises(ResultTimeout, match=r"no result after 0\.01 s"):
        ticket.result_sync(timeout=0.01)
    made.sync(settle(made, Done(result="7")))
    assert ticket.result_sync() == 7
    asyncio.run(made.close())


async def test_a_job_is_still_the_function_it_was(app: App) -> None:
    send = app.jobs["send"]
    assert await send("a", copies=4) == 4
    assert repr(send) == "<Job 'send'>"


async def test_sync_calls_on_the_apps_own_loop_are_refused(app: App) -> None:
    await app.open()
    with pytest.raises(BadInput, match=r"await job\.submit"):
        app.jobs["send"].submit_sync("a")


def test_a_function_that_yields_is_refused() -> None:
    app = App("sqlite:///:memory:")

    def numbers() -> Iterator[int]:
        yield 1

    async def letters() -> AsyncIterator[str]:
        yield "a"

    for function in (numbers, letters):
        with pytest.raises(BadInput, match="yields, so that calling it runs nothing"):
            app.job(function)


def test_two_jobs_of_one_kind_are_refused() -> None:
    app = App("sqlite:///:memory:")
    app.job(kind="mail")(_plain)
    with pytest.raises(BadInput, match="two jobs of kind 'mail'"):
        app.job(kind="mail")(_plain)
    app.job(_plain)
    assert set(app.jobs) == {"mail", "_plain"}


def _plain(n: int) -> None: ...


def test_settings_that_cannot_be_are_refused() -> None:
    app = App("sqlite:///:memory:")
    with pytest.raises(BadInput, match="kind"):
        app.job(kind="")(_plain)
    with pytest.raises(OutOfBounds, match="keep_result"):
        app.job(kind="a", keep_result=-1.0)(_plain)
    with pytest.raises(BadInput, match="attempts"):
        app.job(kind="b", attempts=0)
    with pytest.raises(BadInput, match="queue"):
        app.job(queue="")(_plain)
    with pytest.raises(OutOfBounds, match="priority is 1000"):
        app.job(priority=1000)(_plain)
    with pytest.raises(BadInput, match="retry takes a RetryPolicy, not 5"):
        app.job(retry=5)(_plain)  # type: ignore[call-overload]
    one = app.job(kind="one")(_plain)
    with pytest.raises(BadInput, match="after must be a list"):
        one.using(after=one.call(1))  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="after takes"):
        app.job(kind="c")(_plain).using(after=[3])  # type: ignore[list-item]
    job = app.job(kind="d", attempts=3, retry=RetryPolicy(base_seconds=0.2))(_plain)
    assert (job.retry.attempts_max, job.retry.base_seconds) == (3, 0.2)


def test_an_app_without_a_store_says_how_to_give_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTURN_STORE", "")
    with pytest.raises(BadInput, match="INTURN_STORE"):
        App()
    monkeypatch.delenv("INTURN_STORE")
    with pytest.raises(BadInput, match="INTURN_STORE"):
        App()
    monkeypatch.setenv("INTURN_STORE", "sqlite:///:memory:")
    assert App().url == "sqlite:///:memory:"


async def test_a_relative_path_is_one_file_for_the_life_of_an_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
    monkeypatch.chdir(here)
    app, moved = App("sqlite:///work.db?synchronous=normal"), App("sqlite:///other.db")
    moved.use("sqlite:///used.db")
    monkeypatch.chdir(elsewhere)
    for one in (app, moved):
        await one.migrate()
        for _ in range(2):  # what it was connected with at first, and what it is afterwards
            async with one:
                pass
    assert sorted(path.name for path in here.iterdir()) == ["used.db", "work.db"]
    assert not list(elsewhere.iterdir())
    assert app.url == "sqlite:///work.db?synchronous=normal"


async def test_an_app_opens_its_store_only_with_its_own_tables(app: App, url: str) -> None:
    """On SQLite it makes them."""
    own = App(url)
    own.schema(shop.SCHEMA)
    if url.startswith("postgresql"):
        with pytest.raises(SchemaMissing, match=r"no tables of shop.*store migrate -A MODULE:APP"):
            await own.run(lambda store: store.queues())
        await own.migrate()
    assert await own.run(lambda store: store.read(shop.ITEMS, name=None)) == []
    await own.close()
