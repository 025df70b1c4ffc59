"""Why a job is where it is, in one honest sentence, from plain facts that each store gathers."""

from __future__ import annotations

import shlex
from datetime import datetime
from uuid import UUID

import msgspec

from inturn.model.job import JobState, JobView
from inturn.model.lane import NODE, LaneState, LaneView

WORKER_SEEN_SECONDS = 60.0
"""A worker that was not heard of for so long is not counted on."""


class Awaited(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a blocked one waits for, and where that one is."""

    job: UUID
    state: JobState


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to know about a job's place.

    - ``view``: the job as ``Store.job`` returns it;
    - ``now``: the store's time;
    - ``gate`` and ``queue_paused_by``: of the job's queue;
    - ``lane``: the lane it stands in, or None (blocked, parked, set aside);
    - ``key_lane``: the lane of its key, whether it stands in it or not yet;
    - ``head``, ``head_worker``, ``head_until``: of a keyed lane, its first unsettled job (the job
      itself, if it is the head), the worker that holds the lane's lease, and until when;
    - ``awaited``: what a blocked job waits for, in order, perhaps only the first few;
    - ``taken``: whether a worker seen within ``WORKER_SEEN_SECONDS`` takes the queue and the kind
      (of the head, for a job in a keyed lane: it decides who claims the lane);
    - ``limit_reached``: which limit of the queue is reached, in words;
    - ``is_local``: whether only workers that name the queue claim from it.
    """

    view: JobView
    now: datetime
    gate: int = 0
    queue_paused_by: str | None = None
    lane: LaneView | None = None
    key_lane: LaneView | None = None
    head: UUID | None = None
    head_worker: str | None = None
    head_until: datetime | None = None
    awaited: tuple[Awaited, ...] = ()
    taken: bool = True
    limit_reached: str | None = None
    is_local: bool = False


def explain(facts: Facts) -> str:
    """Say in one sentence why a job is where it is, and what it waits for."""
    match facts.view.state:
        case JobState.DONE:
            return "It is done."
        case JobState.RUNNING:
            return _running(facts)
        case JobState.DEAD:
            return _dead(facts)
        case JobState.CANCELLED:
            return _cancelled(facts)
        case JobState.BLOCKED:
            return _blocked(facts)
        case JobState.SCHEDULED:
            return _scheduled(facts)
        case JobState.RETRYING:
            return _retrying(facts)
        case JobState.WAITING:
            return _waiting(facts)


def _running(facts: Facts) -> str:
    view = facts.view
    said = f"It is running on worker {view.worker}, attempt {view.attempt}"
    if view.leased_until is None:
        return f"{said}."
    if view.leased_until <= facts.now:
        return (
            f"{said}, whose lease ran out at {_time(view.leased_until)}: the next sweep gives it "
            f"to another worker."
        )
    return f"{said}, under a lease until {_time(view.leased_until)}."


def _dead(facts: Facts) -> str:
    view = facts.view
    what = f"`inturn dead retry {view.job.id.hex[-8:]}` runs it again"
    if facts.lane is not None and facts.lane.halted_job == view.job.id:
        what = f"its lane {view.job.key!r} is halted on it: {_decide(facts.lane)}"
    return f"It has been dead since {_time(view.died_at)}: {_clause(view.reason)}; {what}."


def _decide(lane: LaneView) -> str:
    """Say how a person leads a halted lane on."""
    name = f"{_argument(lane.queue)} {_argument(lane.key or '')}"
    return f"`inturn lanes retry {name}`, or skip, or drop"


def worker_option(queue: str) -> str:
    """Return the option of ``inturn work`` that names a queue."""
    node = queue.removeprefix(NODE)
    return f"--queue {_argument(queue)}" if node == queue else f"--node {_argument(node)}"


def _argument(name: str) -> str:
    """Write a name as a shell takes it, in one line."""
    if "\n" not in name and "\r" not in name:
        return shlex.quote(name)
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + escaped.replace("\n", "\\n").replace("\r", "\\r") + "'"


def _cancelled(facts: Facts) -> str:
    return f"It was {_clause(facts.view.reason)}."


def _blocked(facts: Facts) -> str:
    said = [_awaited(one) for one in facts.awaited]
    count = max(facts.view.waits_for_count, len(said))
    if count > len(said):
        said.append(f"{count - len(said):,} more")
    if facts.view.is_reaction:
        for one in facts.awaited:
            if one.state in (JobState.DEAD, JobState.CANCELLED):
                return f"It is due: {one.job} is {one.state}. The next claim puts it in line."
        jobs, all_done = (
            ("a job", "that is") if count == 1 else (f"one of {count:,} jobs", "all are")
        )
        return (
            f"It is blocked: it runs if {jobs} fails, and is cancelled if {all_done} done: "
            f"{', '.join(said)}{_unless_held(facts)}."
        )
    jobs = "job" if count == 1 else f"{count:,} jobs:"
    return f"It is blocked: it waits for {jobs} {', '.join(said)}{_unless_held(facts)}."


def _awaited(one: Awaited) -> str:
    if one.state is JobState.DEAD:
        return f"{one.job} (a dead letter, which can be retried)"
    return f"{one.job} ({one.state})"


def _scheduled(facts: Facts) -> str:
    when = _time(facts.view.run_at)
    return f"It is scheduled for {when}{_unless_held(facts)}."


def _retrying(facts: Facts) -> str:
    view = facts.view
    failed = f"attempt {view.attempt} of {view.job.attempts_max} failed"
    if view.errors:
        failed += f" ({_clause(view.errors[-1].error)})"
    if view.run_at is not None and view.run_at > facts.now:
        return f"It waits to retry at {_time(view.run_at)}: {failed}{_unless_held(facts)}."
    return f"It is due to retry: {failed}; {_next(facts)}{_alone(facts)}."


def _waiting(facts: Facts) -> str:
    view, lane = facts.view, facts.lane
    if view.ahead and lane is not None and lane.key is not None:
        jobs = "1 job" if view.ahead == 1 else f"{view.ahead} jobs"
        return (
            f"It waits in lane {lane.key!r} behind {jobs}, the first of them "
            f"{_head(facts)}{_unless_gated(facts)}."
        )
    if view.run_at is not None and view.run_at > facts.now:
        return f"It waits until {_time(view.run_at)}{_unless_held(facts)}."
    if view.ahead and _held(facts) is None and facts.taken:
        jobs = "1 job" if view.ahead == 1 else f"{view.ahead} jobs"
        limit = f"; {_limit(facts)}" if facts.limit_reached else ""
        return f"It will be claimed after {jobs} of its kind, and waits for none of them{limit}."
    if lane is None and (line := facts.key_lane) is not None and _is_busy(line):
        joins = f"It is due: the next claim puts it at the end of lane {line.key!r}"
        return f"{joins}{_unless_held(facts)}."
    return f"It is {_next(facts)}{_alone(facts)}."


def _is_busy(lane: LaneView) -> bool:
    """Whether something stands in a lane, or is leased from it."""
    return bool(lane.depth) or lane.state in (LaneState.LEASED, LaneState.SLEEPING)


def _head(facts: Facts) -> str:
    """Say what the head of a keyed lane does, which everything behind it waits for."""
    lane = facts.lane
    assert lane is not None
    if lane.halted_job is not None:
        until = f"{_decide(lane)}{_unless_held(facts)}"
        return f"{lane.halted_job}, which is dead: the lane is halted on it until {until}"
    if facts.head_worker is not None:
        runs = f"{facts.head}, which is running on worker {facts.head_worker}{_ran_out(facts)}"
        return f"{runs}{_unless_held(facts)}"
    if lane.ready_at is not None and lane.ready_at > facts.now:
        when = _time(lane.ready_at)
        return f"{facts.head}, which waits to retry until {when}{_unless_held(facts)}"
    return f"{facts.head}, which is {_next(facts)}"


def _ran_out(facts: Facts) -> str:
    """Say that nobody may be at the head any more, or nothing."""
    until = facts.head_until
    if until is None or until > facts.now:
        return ""
    return f", whose lease ran out at {_time(until)}"


def _next(facts: Facts) -> str:
    """Say what keeps a job that is first in its line from being claimed, or that nothing does."""
    held = _held(facts)
    if held is not None:
        return f"held: {held}"
    if facts.limit_reached is not None:
        return f"held: {_limit(facts)}"
    if not facts.taken:
        view, lane = facts.view, facts.lane
        if facts.is_local:
            return (
                f"ready, but queue {view.job.queue!r} is local, and no live worker that serves it "
                f"takes its kind: start one with {worker_option(view.job.queue)}"
            )
        kind = lane.kind if lane is not None and lane.key is not None else view.job.kind
        return (
            f"ready, but no live worker takes kind {kind!r} of queue {view.job.queue!r}: start one"
        )
    return "ready: it will be claimed when its turn comes among what its queue has ready"


def _limit(facts: Facts) -> str:
    """Say which limit of its queue lets nothing more of it start."""
    return f"queue {facts.view.job.queue!r} is at its limit: {facts.limit_reached}"


def _held(facts: Facts) -> str | None:
    """Say which person or gate holds a job back, or nothing."""
    lane, job = facts.lane, facts.view.job
    if facts.queue_paused_by is not None:
        return f"queue {job.queue!r} was paused by {_clause(facts.queue_paused_by)}"
    line = facts.key_lane
    if line is not None and line.paused_by is not None:
        return f"lane {line.key!r} was paused by {_clause(line.paused_by)}"
    if lane is None and line is not None and line.halted_job is not None:
        return (
            f"lane {line.key!r}, which it will join, is halted on {line.halted_job} until "
            f"{_decide(line)}"
        )
    round = lane.round if lane is not None and lane.key is not None else job.round
    return _gated(facts, round)


def _gated(facts: Facts, round: int) -> str | None:
    """Say that the gate is not open for a round, or nothing."""
    if round <= facts.gate:
        return None
    return f"it is of round {round}, and the gate is open as far as round {facts.gate}"


def _unless_gated(facts: Facts) -> str:
    """Say that the gate holds a job itself, where what stands before it is of an open round."""
    lane, job = facts.lane, facts.view.job
    if lane is not None and lane.round > facts.gate:
        return ""  # said of the head
    gated = _gated(facts, job.round)
    return "" if gated is None else f"; besides, {gated}"


def _alone(facts: Facts) -> str:
    """Say that a suspect runs by itself."""
    if not facts.view.suspect:
        return ""
    return "; it will run alone, because its worker was lost while running it"


def _unless_held(facts: Facts) -> str:
    held = _held(facts)
    return "" if held is None else f"; besides, {held}"


def _clause(reason: str | None) -> str:
    """Return a reason as part of a sentence: one line, no full stop."""
    return " ".join((reason or "no reason was given").split()).rstrip(".")


def _time(time: datetime | None) -> str:
    return "an unknown time" if time is None else time.isoformat(timespec="milliseconds")
