"""Every argument of every verb, and what a caller may give for it by mistake."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import msgspec

from inturn.model.job import JobState, NewJob
from inturn.model.lane import OnDead, QueueSettings
from inturn.model.lease import Claim
from inturn.model.worker import WorkerView
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Retry, Verdict
from inturn.store.paging import encode_cursor
from inturn.store.protocol import Store

JOB = UUID("01900000-0000-7000-8000-000000000001")
NAIVE = datetime(2026, 1, 1)
EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))

Call = Callable[[Store, Any, Any], Awaitable[Any]]
"""A verb of which one argument is still open. The claim is of one job, for those that need one."""

NEED_A_LEASE = ("settle", "turn", "extend")


def mistakes() -> Iterator[Any]:
    """Values of a wrong type, absurd values, and a few good ones among them."""
    yield from (None, True, False, NotImplemented, object(), len, int, NewJob)
    yield from (0, -1, 2**31, 2**63 - 1, 2**63, 2**64, 10**30, 10**400, -(10**400), 10**5_000)
    yield from (0.0, 0.5, -0.5, 1e9, 1e308, math.nan, math.inf, -math.inf, 1j)
    yield from ("", "default", "x", "\x00", "x\x00", "\ud800", "é", "x" * 100_000, "5", "1.5")
    yield from (b"", b"default", bytearray(b"x"), memoryview(b"x"))
    yield from ([], ["default"], [None], [[]], ["\x00"], ["\ud800"], [1], [JOB], [object()])
    yield from ((), ("default",), set(), {"default"}, {JOB}, frozenset({JOB}), {"default": 1}, {})
    yield from (JOB, str(JOB), JOB.bytes, JOB.int)
    yield from (NAIVE, NAIVE.replace(tzinfo=UTC), datetime.min, datetime.max, NAIVE.date())
    yield from (datetime.min.replace(tzinfo=EAST), datetime.max.replace(tzinfo=WEST))
    yield from (datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC))
    yield from (JobState.DONE, "done", "bogus", OnDead.HALT, "halt", Done(), Done, Retry(1.0, "x"))
    yield from (NewJob(kind="k"), [NewJob(kind="k")], QueueSettings(), KEPT, [KEPT])
    yield from (encode_cursor(10**30), encode_cursor(-1), encode_cursor(NAIVE, JOB))
    yield from (encode_cursor(10**30, JOB), encode_cursor(JOB), encode_cursor("x"), "WzFd")
    yield (one for one in ("default", "x"))
    yield (one for one in (NewJob(kind="k"), NewJob(kind="k", key="a")))
    yield range(3)
    yield iter(())


KEPT = WorkerView(id="w", host="h", pid=1, version="v", queues=("default",), kinds=("k",))
JOB_OPTIONS = NewJob.__struct_fields__
LEASE_PARTS = ("token", "lane", "first", "last")


def calls() -> Iterator[tuple[str, Call]]:
    """Every verb with one of its arguments left open, and what to call it."""
    yield from _producers()
    yield from _workers()
    yield from _settling()
    yield from _turns()
    yield from _operators()
    yield from _readers()


def _producers() -> Iterator[tuple[str, Call]]:
    yield "enqueue(jobs)", lambda store, claim, value: store.enqueue(value)
    yield "enqueue([job])", lambda store, claim, value: store.enqueue([value])
    yield "enqueue([_, job])", lambda store, claim, value: store.enqueue([NewJob(kind="k"), value])
    yield "transaction.enqueue(jobs)", lambda store, claim, value: _enqueue(store, value)
    for option in JOB_OPTIONS:

        def with_option(store: Store, claim: Any, value: Any, name: str = option) -> Any:
            return store.enqueue([NewJob(**{"kind": "k", name: value})])

        def behind_a_good_one(store: Store, claim: Any, value: Any, name: str = option) -> Any:
            good = [NewJob(kind="k"), NewJob(kind="k", priority=1, round=1, attempts_max=1)]
            return store.enqueue([*good, NewJob(**{"kind": "k", name: value})])

        yield f"enqueue([{option}=])", with_option
        yield f"enqueue([_, {option}=])", behind_a_good_one


def _workers() -> Iterator[tuple[str, Call]]:
    good = {"jobs_max": 1, "worker": "w", "lease_seconds": 30.0}
    yield "claim(queue)", lambda store, claim, value: store.claim(value, jobs_max=1, worker="w")
    for option in ("jobs_max", "worker", "lease_seconds", "kinds", "suspects_max"):

        def claim_with(store: Store, claim: Any, value: Any, name: str = option) -> Any:
            return store.claim("default", **{**good, name: value})

        yield f"claim({option}=)", claim_with
    yield "extend(leases)", lambda store, claim, value: store.extend(value)
    yield "extend([lease])", lambda store, claim, value: store.extend([value])
    for part in LEASE_PARTS:

        def extend_with(store: Store, claim: Any, value: Any, name: str = part) -> Any:
            return store.extend([msgspec.structs.replace(claim.lease, **{name: value})])

        yield f"extend({part}=)", extend_with
    yield (
        "extend(lease_seconds=)",
        lambda store, claim, value: store.extend([claim.lease], lease_seconds=value),
    )
    yield "reclaim(leases_max=)", lambda store, claim, value: store.reclaim(leases_max=value)
    yield "wait(queues)", lambda store, claim, value: store.wait(value, timeout_seconds=0.0)
    yield (
        "wait(timeout_seconds=)",
        lambda store, claim, value: store.wait(["x"], timeout_seconds=_short(value)),
    )
    yield "leave(worker)", lambda store, claim, value: store.leave(value)
    yield "beat(worker)", lambda store, claim, value: store.beat(value)
    for field in ("id", "host", "pid", "version", "queues", "kinds", "running"):

        def beat_with(store: Store, claim: Any, value: Any, name: str = field) -> Any:
            return store.beat(msgspec.structs.replace(KEPT, **{name: value}))

        yield f"beat({field}=)", beat_with


def _settling() -> Iterator[tuple[str, Call]]:
    yield "settle(settlements)", lambda store, claim, value: store.settle(value, worker="w")
    yield "settle([settlement])", lambda store, claim, value: store.settle([value], worker="w")
    yield (
        "settle(worker=)",
        lambda store, claim, value: store.settle([Settlement.done(claim)], worker=value),
    )
    yield (
        "settle(lease=)",
        lambda store, claim, value: _settle(store, claim, lease=value),
    )
    yield (
        "settle(outcomes=)",
        lambda store, claim, value: _settle(store, claim, outcomes=value),
    )
    yield (
        "settle([outcome])",
        lambda store, claim, value: _settle(store, claim, outcomes=[value]),
    )
    verdict: Verdict
    for part in LEASE_PARTS:
        for verdict in (Done(), Done("1"), Retry(1.0, "boom")):

            def with_part(
                store: Store, claim: Any, value: Any, name: str = part, said: Any = verdict
            ) -> Any:
                lease = msgspec.structs.replace(claim.lease, **{name: value})
                outcomes = [Outcome(claim.jobs[0], said)]
                return _settle(store, claim, lease=lease, outcomes=outcomes)

            yield f"settle({part}=, {verdict})", with_part
    for field in ("job", "verdict", "seconds"):

        def with_field(store: Store, claim: Any, value: Any, name: str = field) -> Any:
            good = Outcome(claim.jobs[0], Done())
            outcome = msgspec.structs.replace(good, **{name: value})
            return _settle(store, claim, outcomes=[outcome])

        yield f"settle(outcome.{field}=)", with_field
    for field in ("id", "position"):
        for verdict in (Done(), Done("1"), Bury("x")):

            def with_job(
                store: Store, claim: Any, value: Any, name: str = field, said: Any = verdict
            ) -> Any:
                job = msgspec.structs.replace(claim.jobs[0], **{name: value})
                return _settle(store, claim, outcomes=[Outcome(job, said)])

            yield f"settle(job.{field}=, {verdict})", with_job
    for verdict in (Done("1"), Retry(1.0, "boom"), Bury("boom")):
        for field in verdict.__struct_fields__:

            def with_verdict(
                store: Store, claim: Any, value: Any, name: str = field, said: Any = verdict
            ) -> Any:
                wrong = msgspec.structs.replace(said, **{name: value})
                return _settle(store, claim, outcomes=[Outcome(claim.jobs[0], wrong)])

            yield f"settle({type(verdict).__name__}.{field}=)", with_verdict


def _turns() -> Iterator[tuple[str, Call]]:
    yield "turn(settlements)", lambda store, claim, value: _turn(store, value)
    yield "turn([settlement])", lambda store, claim, value: _turn(store, [value])
    yield (
        "turn([_, settlement])",
        lambda store, claim, value: _turn(store, [Settlement.done(claim), value]),
    )
    for option in ("queue", "jobs_max", "worker", "lease_seconds", "kinds", "suspects_max"):

        def turn_with(store: Store, claim: Any, value: Any, name: str = option) -> Any:
            return _turn(store, [Settlement.done(claim)], **{name: value})

        def with_nothing(store: Store, claim: Any, value: Any, name: str = option) -> Any:
            return _turn(store, [], **{name: value})

        yield f"turn({option}=)", turn_with
        yield f"turn([], {option}=)", with_nothing
    for part in LEASE_PARTS:
        for verdict in (Done(), Retry(1.0, "boom")):

            def with_part(
                store: Store, claim: Any, value: Any, name: str = part, said: Any = verdict
            ) -> Any:
                lease = msgspec.structs.replace(claim.lease, **{name: value})
                return _turn(store, [Settlement(lease, [Outcome(claim.jobs[0], said)])])

            yield f"turn({part}=, {verdict})", with_part


def _operators() -> Iterator[tuple[str, Call]]:
    yield "configure(queue)", lambda store, claim, value: store.configure(value, QueueSettings())
    yield "configure(settings)", lambda store, claim, value: store.configure("default", value)
    for field in QueueSettings.__struct_fields__:

        def configure_with(store: Store, claim: Any, value: Any, name: str = field) -> Any:
            return store.configure("x", QueueSettings(**{name: value}))

        yield f"configure({field}=)", configure_with
    yield "pause(queue)", lambda store, claim, value: store.pause(value, by="ann")
    yield "pause(key=)", lambda store, claim, value: store.pause("x", key=value, by="ann")
    yield "pause(by=)", lambda store, claim, value: store.pause("x", by=value)
    yield "pause(key, by=)", lambda store, claim, value: store.pause("x", key="a", by=value)
    yield "resume(queue)", lambda store, claim, value: store.resume(value)
    yield "resume(key=)", lambda store, claim, value: store.resume("x", key=value)
    yield "open_gate(queue)", lambda store, claim, value: store.open_gate(value, 1)
    yield "open_gate(round)", lambda store, claim, value: store.open_gate("x", value)
    yield "advance_gate(queue)", lambda store, claim, value: store.advance_gate(value)
    yield "retry_lane(queue)", lambda store, claim, value: store.retry_lane(value, "a")
    yield "retry_lane(key)", lambda store, claim, value: store.retry_lane("x", value)
    yield "skip_lane(queue)", lambda store, claim, value: store.skip_lane(value, "a")
    yield "skip_lane(key)", lambda store, claim, value: store.skip_lane("x", value)
    yield "drop_lane(queue)", lambda store, claim, value: store.drop_lane(value, "a", by="ann")
    yield "drop_lane(key)", lambda store, claim, value: store.drop_lane("x", value, by="ann")
    yield "drop_lane(by=)", lambda store, claim, value: store.drop_lane("x", "a", by=value)
    yield "cancel(job)", lambda store, claim, value: store.cancel(value, by="ann")
    yield "cancel(by=)", lambda store, claim, value: store.cancel(JOB, by=value)
    yield "dead_retry(jobs)", lambda store, claim, value: store.dead_retry(value)
    yield "dead_drop(jobs)", lambda store, claim, value: store.dead_drop(value, by="ann")
    yield "dead_drop(by=)", lambda store, claim, value: store.dead_drop([JOB], by=value)


def _readers() -> Iterator[tuple[str, Call]]:
    yield "job(job)", lambda store, claim, value: store.job(value)
    yield "result(job)", lambda store, claim, value: store.result(value)
    yield "explain(job)", lambda store, claim, value: store.explain(value)
    for verb, options in (
        ("jobs", ("state", "queue", "kind", "key", "cursor", "rows_max")),
        ("dead_letters", ("queue", "kind", "key", "cursor", "rows_max")),
    ):
        for option in options:

            def read(
                store: Store, claim: Any, value: Any, verb: str = verb, name: str = option
            ) -> Any:
                return getattr(store, verb)(**{name: value})

            yield f"{verb}({option}=)", read
    yield "lanes(queue)", lambda store, claim, value: store.lanes(value)
    for option in ("key", "cursor", "rows_max"):

        def lanes(store: Store, claim: Any, value: Any, name: str = option) -> Any:
            return store.lanes("default", **{name: value})

        yield f"lanes({option}=)", lanes
    yield "stats(queue)", lambda store, claim, value: store.stats(value, since=KNOWN_SINCE)
    yield "stats(since=)", lambda store, claim, value: store.stats("default", since=value)


KNOWN_SINCE = datetime(2026, 1, 1, tzinfo=UTC)


async def _enqueue(store: Store, value: Any) -> None:
    async with store.transaction() as transaction:
        await transaction.enqueue(value)


async def _settle(store: Store, claim: Claim, **parts: Any) -> None:
    """Settle with a part of the settlement replaced, in the store's verb and in a transaction's."""
    settlement = msgspec.structs.replace(Settlement.done(claim), **parts)
    await store.settle([settlement], worker="w")


async def _turn(store: Store, settlements: Any, **options: Any) -> None:
    """Take a turn at a queue that is empty, so that only what is settled changes."""
    good = {"queue": "default", "jobs_max": 1, "worker": "w", "lease_seconds": 30.0}
    await store.turn(settlements, **{**good, **options})


def _short(value: Any) -> Any:
    """Return a time to wait as it is, unless it is one that would be waited for."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1e9
    return 0.0 if good else value
