"""Sources: a shadow that equals the outside system, and one job for each change."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from datetime import timedelta
from typing import Any

import pydantic
import pytest

import inturn
from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.poll import CursorGone, extension, run
from inturn.poll.schedules import Firing
from inturn.poll.source import Source
from inturn.poll.source_rows import WALK_ATTEMPTS_MAX
from inturn.poll.sources import run_source
from inturn.store.queries import Query
from tests.poll.outside import Item, Outside


class Followed:
    """A source of an outside system on an app, and what its changes told."""

    def __init__(self, app: inturn.App, outside: Outside, **settings: Any) -> None:
        self.app, self.outside = app, outside
        self.told: list[tuple[str, str, int]] = []
        self.source = self._declare(**settings)

    def _declare(self, **settings: Any) -> Source:
        given: dict[str, Any] = {"shadow": Item, "deleted": "deleted", **settings}

        @self.app.source("items", **given)
        async def items(cursor: str | None) -> inturn.Page[Item]:
            return self.outside.page(cursor)

        @items.on_change
        async def changed(change: inturn.Change[Item]) -> None:
            assert isinstance(change.item, Item)
            self.told.append((change.kind, change.key, int(change.version)))

        return items

    async def drain(self) -> None:
        await inturn.Worker(self.app, concurrency=10).run(until_empty=True)

    async def poll(self) -> None:
        await self.source.run()
        await self.drain()

    async def shadow(self) -> dict[str, int]:
        store = await self.app.lend()
        rows = await store.read(_SHADOW, source="items", keys=list(self.outside.items))
        return {row[0]: int(row[1]) for row in rows if not row[2]}


_SHADOW = Query("inturn.poll", "shadows")


@pytest.fixture
async def followed(app: inturn.App) -> Followed:
    return Followed(app, Outside())


async def test_the_shadow_follows_inserts_updates_and_deletes(followed: Followed) -> None:
    """(001-18)"""
    outside = followed.outside
    outside.put(*(f"i{number}" for number in range(25)))
    await followed.poll()
    assert await followed.shadow() == outside.living
    assert Counter(kind for kind, _, _ in followed.told) == {"created": 25}
    followed.told.clear()
    outside.put("i1", "new")
    outside.delete("i2")
    await followed.poll()
    assert await followed.shadow() == outside.living
    assert sorted(followed.told) == [
        ("created", "new", 27),
        ("deleted", "i2", 28),
        ("updated", "i1", 26),
    ]


async def test_changes_of_one_item_are_told_in_order(followed: Followed) -> None:
    for _ in range(5):
        followed.outside.put("a", "b")
        await followed.source.run()
        await followed.drain()
    for key in "ab":
        versions = [version for _, told, version in followed.told if told == key]
        assert versions == sorted(versions)
        assert len(versions) == 5


async def test_an_idle_source_costs_one_request_and_writes_nothing(
    followed: Followed, clock: ManualClock
) -> None:
    followed.outside.put("a", "b")
    await followed.poll()
    before, followed.outside.requests = await followed.source.status(), 0
    clock.advance(59)
    await followed.poll()
    assert followed.outside.requests == 1
    assert await followed.source.status() == before
    clock.advance(1)
    await followed.poll()  # once a minute it notes its success
    assert (await followed.source.status()).succeeded_at == clock.now()


async def test_changes_made_during_a_poll_are_all_seen(followed: Followed) -> None:
    """(001-18)"""
    outside = followed.outside
    outside.put(*(f"i{number}" for number in range(30)))
    fetch = outside.page

    def page(cursor: str | None) -> inturn.Page[Item]:
        found = fetch(cursor)
        if outside.requests <= 3:
            outside.put(f"i{outside.requests}", f"late {outside.requests}")
        return found

    outside.page = page  # type: ignore[method-assign]
    await followed.poll()
    assert await followed.shadow() == outside.living


async def test_a_failing_source_is_tried_again_and_says_so(
    followed: Followed, clock: ManualClock
) -> None:
    followed.outside.put("a")
    followed.outside.error = RuntimeError("HTTP 503")
    await followed.poll()
    status = await followed.source.status()
    assert "HTTP 503" in (status.error or "")
    assert status.next_try_at is not None
    followed.outside.error = None
    clock.advance(300)
    await followed.drain()
    status = await followed.source.status()
    assert status.error is None
    assert await followed.shadow() == {"a": 1}


async def test_runs_of_one_source_never_overlap(followed: Followed) -> None:
    running, most = 0, 0
    fetch = followed.outside.page

    async def slowly(cursor: str | None) -> inturn.Page[Item]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return fetch(cursor)

    followed.source._fetch = slowly
    followed.outside.put(*(f"i{number}" for number in range(30)))
    store = await followed.app.lend()
    await followed.source.run()
    await store.enqueue([followed.source.run_job.call().new for _ in range(3)])
    await followed.drain()
    assert most == 1
    assert await followed.shadow() == followed.outside.living


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("garbage", "returns inturn.Page"),
        (inturn.Page([{"id": "x"}], "9"), "no .*Item"),
        (inturn.Page([], "1"), "goes back from 2 to 1"),
        (inturn.Page([Item("x", 3)], "2", more=True), "leads back to cursor '2'"),
    ],
)
async def test_a_source_that_answers_nonsense_is_named_and_nothing_is_lost(
    followed: Followed, clock: ManualClock, page: Any, said: str
) -> None:
    followed.outside.put("a", "b")
    await followed.poll()
    followed.outside.put("c")
    fetch = followed.outside.page
    followed.outside.page = lambda cursor: page  # type: ignore[method-assign]
    await followed.poll()
    status = await followed.source.status()
    assert re.search(said, status.error or "")
    assert status.cursor == "2"
    followed.outside.page = fetch  # type: ignore[method-assign]
    clock.advance(600)
    await followed.drain()
    assert await followed.shadow() == followed.outside.living


@pytest.mark.parametrize("seconds", [20.0, 0.0])
async def test_a_source_that_repeats_a_page_for_ever_is_stopped_also_over_several_runs(
    followed: Followed, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(run, "RUN_SECONDS_MAX", seconds)
    monkeypatch.setattr(run, "PAGES_SECONDS_MAX", seconds)
    fetch, requests = followed.outside.page, 0

    def page(cursor: str | None) -> inturn.Page[Item]:
        nonlocal requests
        requests += 1
        return inturn.Page([Item("x", 3)], str(int(cursor or 0) + 1), more=True)

    followed.outside.page = page  # type: ignore[method-assign]
    await followed.poll()
    status = await followed.source.status()
    assert "gives the same page for cursor '1'" in (status.error or "")
    assert (requests, status.cursor, status.succeeded_at) == (2, "1", None)
    clock.advance(300)
    await followed.drain()
    assert (await followed.source.status()).cursor == "1"
    followed.outside.put(*"abc")
    followed.outside.page = fetch  # type: ignore[method-assign]
    clock.advance(300)
    await followed.drain()
    assert (await followed.source.status()).succeeded_at == clock.now()


async def test_a_cursor_that_is_gone_fails_or_begins_anew_as_the_source_says(
    app: inturn.App, clock: ManualClock
) -> None:
    followed = Followed(app, Outside(), on_cursor_gone="restart")
    followed.outside.put(*"abc")
    await followed.poll()
    followed.outside.version = 0  # it was set up anew
    followed.outside.items.clear()
    followed.outside.put("d")
    await followed.poll()
    assert (await followed.source.status()).cursor == "1"
    assert ("created", "d", 1) in followed.told


@pytest.mark.parametrize("is_walk", [False, True])
async def test_a_source_whose_cursors_are_always_gone_begins_anew_once_and_then_fails(
    app: inturn.App, is_walk: bool
) -> None:
    followed, requests = Followed(app, Outside(), on_cursor_gone="restart"), 0

    def page(cursor: str | None) -> inturn.Page[Item]:
        nonlocal requests
        requests += 1
        if cursor is not None:
            raise CursorGone("no such page")
        return inturn.Page([Item("a", 1)], "t1", more=True)

    followed.outside.page = page  # type: ignore[method-assign]
    await (followed.source.reconcile() if is_walk else followed.source.run())
    await followed.drain()
    assert requests == 4
    assert "no such page" in ((await followed.source.status()).error or "")


async def test_after_a_reset_what_differs_is_told_whatever_its_version(followed: Followed) -> None:
    outside = followed.outside
    outside.put("x", "y", "z", name="old")
    backup = dict(outside.items)
    await followed.poll()
    outside.put("x", name="lost in the restore")
    outside.delete("z")
    await followed.poll()
    followed.told.clear()
    outside.items, outside.version = backup, 3  # the outside system is set back
    await followed.source.reset()
    await followed.poll()
    assert sorted(followed.told) == [("created", "z", 3), ("updated", "x", 1)]
    followed.told.clear()
    outside.put("x", name="new, with a version that was there before")
    await followed.poll()
    assert followed.told == [("updated", "x", 4)]
    assert await followed.source.item("x") == outside.items["x"]


async def test_reset_reads_all_again_and_tells_nothing_that_was_told(followed: Followed) -> None:
    followed.outside.put(*"abc")
    await followed.poll()
    followed.told.clear()
    await followed.source.reset()
    assert (await followed.source.status()).cursor is None
    await followed.poll()
    assert (await followed.source.status()).cursor == "3"
    assert followed.told == []
    await followed.source.reset(forget=True)
    await followed.poll()
    assert len(followed.told) == 3


async def test_a_page_without_a_cursor_leaves_the_cursor_where_it_was(followed: Followed) -> None:
    followed.outside.put("a", "b")
    await followed.poll()
    followed.outside.put("c")
    fetch = followed.outside.page
    cursorless = lambda cursor: inturn.Page(fetch(cursor).items, None)  # noqa: E731
    followed.outside.page = cursorless  # type: ignore[method-assign]
    await followed.poll()
    assert (await followed.source.status()).cursor == "2"
    assert await followed.shadow() == followed.outside.living


async def test_a_source_that_is_rejected_is_tried_again_and_leaves_no_dead_letter(
    followed: Followed, clock: ManualClock
) -> None:
    followed.outside.put("a")
    await followed.poll()
    succeeded_at = (await followed.source.status()).succeeded_at
    clock.advance(60)
    followed.outside.error = inturn.Reject("HTTP 404")
    ticket = await followed.source.run()
    await followed.drain()
    status = await followed.source.status()
    assert "HTTP 404" in (status.error or "")
    assert status.succeeded_at == succeeded_at
    assert status.failing_since == clock.now()
    store = await followed.app.lend()
    assert (await store.job(ticket.id)).state is JobState.RETRYING
    assert (await followed.source.run()).id == ticket.id  # and no second one behind it
    followed.outside.error = None
    clock.advance(300)
    await followed.drain()
    assert (await followed.source.status()).failing_since is None


async def test_a_source_that_is_asked_to_come_later_says_so_and_a_person_may_run_it_now(
    followed: Followed, clock: ManualClock
) -> None:
    limited = inturn.RetryLater(after=300, reason="HTTP 429", counted=False)
    followed.outside.error = limited
    ticket = await followed.source.run()
    await followed.drain()
    status = await followed.source.status()
    assert "HTTP 429" in (status.error or "")
    assert status.next_try_at == clock.now() + timedelta(seconds=300)
    assert (await followed.source.run()).id == ticket.id  # a hint of a webhook changes nothing
    followed.outside.error = None
    followed.outside.put("a")
    store = await followed.app.lend()
    assert (await run_source(store, "items", at_once=True)).id != ticket.id
    await followed.drain()
    assert await followed.shadow() == {"a": 1}
    assert (await followed.source.status()).error is None


async def test_a_run_that_has_died_is_past_when_another_has_succeeded(
    app: inturn.App, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extension, "RETRY", inturn.RetryPolicy(attempts_max=1))
    followed = Followed(app, Outside())
    followed.outside.error = RuntimeError("HTTP 503")
    await followed.poll()
    assert (await followed.source.status()).failing_since == clock.now()
    followed.outside.error = None
    clock.advance(1)
    await followed.poll()
    status = await followed.source.status()
    assert (status.failing_since, status.succeeded_at) == (None, clock.now())


async def test_a_queue_that_is_smaller_than_a_batch_takes_it_page_by_page(
    app: inturn.App, clock: ManualClock
) -> None:
    followed = Followed(app, Outside())
    app.queue("changes:items", depth_max=25)
    followed.outside.put(*(f"i{number}" for number in range(60)))
    await followed.source.run()
    for _ in range(6):
        await followed.drain()
        clock.advance(300)
    assert (await followed.source.status()).error is None
    assert len(followed.told) == 60


async def test_an_item_that_no_longer_fits_its_type_fails_in_its_own_job(
    url: str, clock: ManualClock
) -> None:
    class WithSku(Item, kw_only=True):
        sku: str

    outside = Outside()
    outside.put("a", "b")
    async with inturn.App(url, clock=clock) as app:
        await Followed(app, outside).poll()
    outside.delete("a")
    outside.put("c")
    outside.items["c"] = WithSku("c", 4, sku="x")
    async with inturn.App(url, clock=clock) as app:
        followed = Followed(app, outside, shadow=WithSku)
        await followed.poll()
        status = await followed.source.status()
        assert (status.cursor, status.error, followed.told) == ("4", None, [("created", "c", 4)])
        [dead] = (await (await app.lend()).dead_letters()).rows
        assert (dead.job.key, "sku" in dead.reason) == ("a", True)
        with pytest.raises(inturn.BadInput, match=r"item 'b' .* new fields defaults"):
            await followed.source.item("b")


async def test_hard_deletes_keep_nothing_of_a_deleted_item(app: inturn.App) -> None:
    followed = Followed(app, Outside(), hard_deletes=True)
    followed.outside.put("a", "b")
    await followed.poll()
    followed.outside.delete("b")
    await followed.poll()
    followed.outside.put("c")
    followed.outside.delete("c")  # which was never seen
    await followed.poll()
    async with app.transaction() as t:
        table = "poll_shadow" if app.url.startswith("sqlite") else "inturn_poll.shadow"
        assert await t.execute(f"select key from {table}") == [("a",)]
    assert [told[:2] for told in followed.told][2:] == [("deleted", "b")]


async def test_it_is_not_read_until_a_worker_declares_it_and_then_at_once(
    app: inturn.App, clock: ManualClock
) -> None:
    followed = Followed(app, Outside(), every="5m")
    poll, store = app.extension("poll"), await app.lend()
    assert not (await followed.source.status()).declared
    firing = Firing(poll.declared.values(), [followed.source.declaration])
    await firing.step(store)
    await followed.drain()
    status = await followed.source.status()
    assert (status.declared, status.succeeded_at) == (True, clock.now())
    on_demand = Firing([], [followed.source.declaration])  # a release without every=
    await on_demand.step(store)
    status = await followed.source.status()
    assert (status.schedule, status.declared) == (None, True)


async def test_its_queues_behave_as_it_says_and_its_workers_serve_them(
    app: inturn.App, clock: ManualClock
) -> None:
    outside = Outside()
    outside.put("a")

    @app.source("items", shadow=Item)
    def items(ctx: inturn.Context, cursor: str | None) -> inturn.Page[Item]:
        assert ctx.attempt == 1
        return outside.page(cursor)

    @items.on_change(queue="orders", attempts=1)
    def changed(change: inturn.Change[Item]) -> None:
        raise ValueError("unknown SKU")

    await items.run()
    worker = inturn.Worker(app)
    assert {"poll:items", "orders"} <= set(worker.queues)
    await worker.run(until_empty=True)
    queues = {one.name: one for one in await (await app.lend()).queues()}
    assert queues["poll:items"].settings.suspects == "again"
    assert "changes:items" not in queues
    assert (await app.sources["items"].status()).dead == 1  # of the queue they are on
    assert await items.item("a") == outside.items["a"]
    assert await items.item("b") is None


async def test_a_firing_is_left_out_while_a_run_is_unfinished_and_not_after_it_was_pruned(
    app: inturn.App, clock: ManualClock
) -> None:
    followed = Followed(app, Outside(), every="1h")
    poll = app.extension("poll")
    firing = Firing(poll.declared.values(), [followed.source.declaration])
    store = await app.lend()
    await firing.step(store)

    async def fire() -> int:
        clock.advance(3_600)
        while await firing.step(store) == 0.0:
            pass
        return len((await store.jobs(kind="poll:items")).rows)

    assert [await fire() for _ in range(3)] == [1, 1, 1]
    await followed.drain()
    assert await fire() == 2
    await followed.drain()
    await store.prune()  # notes what is finished
    clock.advance(3 * 86_400)
    await store.prune()
    assert await fire() == 1


async def test_a_run_hands_over_to_the_one_that_waits_already(
    app: inturn.App, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "RUN_SECONDS_MAX", 0.0)
    monkeypatch.setattr(run, "PAGES_ITEMS_MAX", 1)
    followed = Followed(app, Outside(page_size=1), every="1h")
    followed.outside.put(*"abcde")
    poll, store = app.extension("poll"), await app.lend()
    firing = Firing(poll.declared.values(), [followed.source.declaration])
    await firing.step(store)
    await store.enqueue([followed.source.run_job.call().new])
    clock.advance(3_600)
    await firing.step(store)
    await followed.drain()
    assert await followed.shadow() == followed.outside.living
    assert len((await store.jobs(kind="poll:items")).rows) == 5  # a page each


async def test_a_clock_that_steps_by_an_hour_both_ways_loses_nothing(
    followed: Followed, clock: ManualClock
) -> None:
    """(001-20)"""
    outside = followed.outside
    for number, hours in enumerate([0, 1, -1, -1, 1]):
        clock.advance(hours * 3_600)
        outside.put("a", f"new {number}")
        await followed.poll()
        outside.put("a")
        outside.delete(f"new {number}")
        await followed.poll()
    assert await followed.shadow() == outside.living
    assert len(followed.told) == len(set(followed.told)) == outside.version


async def test_an_outage_of_a_minute_is_caught_up_by_itself(
    app: inturn.App, clock: ManualClock
) -> None:
    followed = Followed(app, Outside(), every="5s")
    poll = app.extension("poll")
    firing = Firing(poll.declared.values(), [followed.source.declaration])
    store = await app.lend()

    async def live(seconds: int) -> None:
        for _ in range(0, seconds, 5):
            clock.advance(5)
            while await firing.step(store) == 0.0:
                pass
            await followed.drain()
            followed.outside.put("a", f"i{clock.now().timestamp()}")

    await firing.step(store)
    await live(10)
    followed.outside.error = RuntimeError("HTTP 503")
    await live(60)
    assert (await followed.source.status()).failing_since is not None
    followed.outside.error = None
    clock.advance(50)  # so long may the next try be off
    await live(5)
    followed.outside.put = lambda *ids, name="": None  # type: ignore[method-assign]
    await live(5)
    assert await followed.shadow() == followed.outside.living
    assert (await followed.source.status()).error is None
    ended = [view.state for view in (await store.jobs(kind="poll:items")).rows]
    assert set(ended) == {JobState.DONE}


# Reconcile


async def test_reconcile_deletes_what_is_gone_and_only_that(app: inturn.App) -> None:
    followed = Followed(app, Outside(keeps_deleted=False))
    ids = [f"i{number}" for number in range(40)]
    followed.outside.put(*ids)
    await followed.poll()
    followed.told.clear()
    followed.outside.delete("i3", "i7")
    followed.outside.put("i8", "new")
    await followed.poll()
    assert "i3" in await _known(followed, ids)
    await followed.source.reconcile()
    await followed.drain()
    status = await followed.source.status()
    assert (status.walk, status.walk_swept) == ("done", 2)
    assert await followed.shadow() == followed.outside.living
    assert {key for kind, key, _ in followed.told if kind == "deleted"} == {"i3", "i7"}
    followed.outside.put("i3")
    await followed.poll()
    assert followed.told[-1][:2] == ("created", "i3")


async def _known(followed: Followed, ids: list[str]) -> set[str]:
    store = await followed.app.lend()
    rows = await store.read(_SHADOW, source="items", keys=ids)
    return {row[0] for row in rows if not row[2]}


@pytest.mark.parametrize("hard_deletes", [False, True])
async def test_a_walk_that_would_delete_much_is_held_until_a_person_decides(
    app: inturn.App, hard_deletes: bool
) -> None:
    followed = Followed(app, Outside(keeps_deleted=False), hard_deletes=hard_deletes)
    ids = [f"i{number}" for number in range(40)]
    followed.outside.put(*ids)
    await followed.poll()
    followed.outside.delete(*ids[:20])
    await followed.source.reconcile()
    await followed.drain()
    status = await followed.source.status()
    assert (status.walk, status.walk_missing) == ("held", 20)
    assert len(await _known(followed, ids)) == 40
    await followed.source.reconcile(force=True)
    await followed.drain()
    assert (await followed.source.status()).walk == "done"
    assert await _known(followed, ids) == set(ids[20:])
    followed.outside.items.clear()
    with pytest.raises(inturn.BadInput, match="no walk of source 'items' is held"):
        await followed.source.reconcile(force=True)


@pytest.mark.parametrize("hard_deletes", [False, True])
async def test_an_item_that_a_walk_missed_is_created_again_when_it_comes_back(
    app: inturn.App, hard_deletes: bool
) -> None:
    followed = Followed(app, Outside(keeps_deleted=False), hard_deletes=hard_deletes)
    followed.outside.put(*(f"i{number}" for number in range(40)))
    await followed.poll()
    followed.told.clear()
    missed = followed.outside.items.pop("i3")  # the listing is broken for a moment
    for kind in ("deleted", "created"):
        await followed.source.reconcile()
        await followed.drain()
        assert followed.told.pop() == (kind, "i3", missed.version)
        followed.outside.items["i3"] = missed
    assert await followed.source.item("i3") == missed
    assert await followed.shadow() == followed.outside.living


async def test_a_walk_that_breaks_off_deletes_nothing_and_goes_on_where_it_was(
    app: inturn.App, clock: ManualClock
) -> None:
    followed = Followed(app, Outside(keeps_deleted=False))
    ids = [f"i{number}" for number in range(40)]
    followed.outside.put(*ids)
    await followed.poll()
    followed.outside.delete("i0")
    fetch, followed.outside.requests = followed.outside.page, 0

    def page(cursor: str | None) -> inturn.Page[Item]:
        found = fetch(cursor)
        if followed.outside.requests == 3:
            raise RuntimeError("the connection was lost")
        return found

    followed.outside.page = page  # type: ignore[method-assign]
    await followed.source.reconcile()
    await followed.drain()
    assert (await followed.source.status()).walk == "walking"
    assert len(await _known(followed, ids)) == 40
    clock.advance(timedelta(minutes=10).total_seconds())
    await followed.drain()
    assert (await followed.source.status()).walk == "done"
    assert followed.outside.requests == 5  # of four pages, one twice
    assert await _known(followed, ids) == set(ids[1:])


async def test_a_walk_that_fails_for_long_is_given_up_and_changes_are_read_again(
    app: inturn.App, clock: ManualClock
) -> None:
    followed = Followed(app, Outside(page_size=1))
    followed.outside.put("a", "b")
    fetch = followed.outside.page

    def page(cursor: str | None) -> inturn.Page[Item]:
        if cursor is not None:
            raise RuntimeError("the listing is too long")
        return fetch(cursor)

    followed.outside.page = page  # type: ignore[method-assign]
    walk = await followed.source.reconcile()
    await followed.source.run()
    for _ in range(WALK_ATTEMPTS_MAX):
        await followed.drain()
        assert "the listing is too long" in ((await followed.source.status()).error or "")
        clock.advance(300)
    store = await app.lend()
    assert (await store.job(walk.id)).state is JobState.DEAD
    followed.outside.page = fetch  # type: ignore[method-assign]
    for _ in range(2):
        await followed.drain()
        clock.advance(300)
    assert await followed.shadow() == {"a": 1, "b": 2}
    assert (await followed.source.status()).failing_since is not None  # its walk has died
    await followed.source.reconcile()
    await followed.drain()
    assert (await followed.source.status()).failing_since is None


async def test_what_cannot_be_a_source_is_refused_where_it_is_declared(app: inturn.App) -> None:
    async def fetch(cursor: str | None) -> inturn.Page[Item]:
        return inturn.Page([], cursor)

    made = app.source("a", every="5m")(fetch)
    assert (await made(None)).items == []
    with pytest.raises(inturn.BadInput, match="two sources 'a'"):
        app.source("a")
    with pytest.raises(inturn.BadInput, match="model of pydantic"):
        app.source("b", shadow=pydantic.BaseModel)
    with pytest.raises(inturn.BadInput, match="not both"):
        app.source("b", every="5m", cron="* * * * *")
    made.on_change(lambda change: None)
    with pytest.raises(inturn.BadInput, match="has one on_change"):
        made.on_change(lambda change: None)
    halts = app.source("halts", on_dead="halt")(fetch)
    with pytest.raises(inturn.BadInput, match=r"app.queue\('orders', on_dead='halt'\) instead"):
        halts.on_change(queue="orders")(lambda change: None)
    with pytest.raises(inturn.BadInput, match="on_dead is 'skip' or 'halt'"):
        app.source("b", on_dead="stop")  # type: ignore[arg-type]
    with pytest.raises(inturn.BadInput, match="It takes the cursor"):
        app.source("b")(lambda: None)
