"""What a worker says became of the jobs under a lease, checked and brought into a store's shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

import msgspec

from inturn.model import bounds
from inturn.model.admissible import (
    check_id,
    check_lease,
    check_number,
    check_stored,
    check_text,
    shown,
)
from inturn.model.errors import BadInput, LeaseLost, OutOfBounds, OutOfOrder
from inturn.model.job import LeasedJob
from inturn.model.lease import Claim, Lease
from inturn.model.payload import check_payload
from inturn.policy.retry import spent_reason
from inturn.policy.verdict import Bury, Done, Release, Retry, Verdict


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """One job's verdict, and how long its handler ran."""

    job: LeasedJob
    verdict: Verdict
    seconds: float = 0.0


PLAINLY_DONE = Done()
"""The verdict on most jobs, made once."""


class Settlement(msgspec.Struct, frozen=True):
    """The verdicts on some or all of the jobs under one lease, in the order of their positions.

    What it leaves out stays leased. In a keyed lane only ``Done`` moves on: the first ``Retry``,
    ``Bury`` or ``Release`` gives the rest of the run back, so only ``Release`` may follow it.
    """

    lease: Lease
    outcomes: Sequence[Outcome]

    @classmethod
    def done(cls, claim: Claim) -> Settlement:
        """Say that every job of a claim is done."""
        return cls(claim.lease, [*map(Outcome, claim.jobs, repeat(PLAINLY_DONE))])

    @classmethod
    def release(cls, claim: Claim) -> Settlement:
        """Give back every job of a claim, unstarted."""
        return cls(claim.lease, [Outcome(job, Release()) for job in claim.jobs])


def check_shape(settlement: Settlement) -> None:
    """Refuse what is not a settlement of a lease. A store calls this before it looks into one."""
    if not isinstance(settlement, Settlement):
        raise BadInput(f"a Settlement is needed, not {shown(settlement)}.")
    check_lease(settlement.lease)
    if not isinstance(settlement.outcomes, list | tuple):
        raise BadInput(
            f"the outcomes of a settlement must be a list, not {shown(settlement.outcomes)}."
        )
    if settlement.lease.lane is None and len(settlement.outcomes) > 1:
        raise LeaseLost([settlement.lease.token])  # from parked, one job is leased


def gathered(settlements: Sequence[Settlement]) -> Sequence[Settlement]:
    """Return settlements with those of one lease on a keyed lane as one, in the given order."""
    by_lease: dict[tuple[int, int | None], Settlement] = {}
    for settlement in settlements:
        check_shape(settlement)
        lease = settlement.lease
        name = (lease.token, lease.lane)
        before = by_lease.get(name)
        if before is None or lease.key is None:
            by_lease[name if before is None else (lease.token, -len(by_lease))] = settlement
        else:
            outcomes = [*before.outcomes, *settlement.outcomes]
            by_lease[name] = Settlement(lease, outcomes)
    return settlements if len(by_lease) == len(settlements) else list(by_lease.values())


def check_settlement(settlement: Settlement) -> None:
    """Refuse a settlement that its lease cannot carry. A store calls this before it writes."""
    lease = settlement.lease
    before, is_keyed = lease.first - 1, lease.is_keyed
    stopped = False
    for outcome in settlement.outcomes:
        if not _is_plain(outcome):
            _check_outcome(outcome)
        position = outcome.job.position
        if position <= before:
            raise OutOfOrder(
                f"position {position} of lane {lease.lane} is settled twice or out of order in "
                f"one settlement. Give outcomes once each, in the order of their positions."
            )
        has_gap = is_keyed and before >= lease.first and position > before + 1
        if position > lease.last or has_gap:
            raise LeaseLost([lease.token])
        before = position
        verdict = outcome.verdict
        if is_keyed:
            if stopped and type(verdict) is not Release:
                raise OutOfOrder(
                    f"position {position} of lane {lease.key!r} was settled behind a job that was "
                    f"not done: nothing may overtake in a keyed lane. Release what comes after."
                )
            stopped = stopped or type(verdict) is not Done


def check_volume(settlements: Iterable[Settlement]) -> None:
    """Refuse more results and errors than one call may carry. For those that were checked."""
    chars = 0
    for settlement in settlements:
        for outcome in outspoken(settlement.outcomes):
            verdict = outcome.verdict
            if type(verdict) is Done:
                chars += len(verdict.result or "")
                chars += min(len(verdict.result_lost or ""), bounds.ERROR_CHARS_MAX)
            elif type(verdict) is Retry or type(verdict) is Bury:
                chars += min(len(verdict.error), bounds.ERROR_CHARS_MAX)
                chars += min(len(verdict.traceback or ""), bounds.TRACEBACK_CHARS_MAX)
    if chars > bounds.SETTLE_CHARS_MAX:
        raise OutOfBounds(
            f"one call settles with {chars:,} characters of results and errors, and "
            f"{bounds.SETTLE_CHARS_MAX:,} is the most. Settle in several calls."
        )


def _is_plain(outcome: Outcome) -> bool:
    """Whether an outcome says that a job is done and no more, as most do: nothing is wrong then."""
    if type(outcome) is not Outcome or outcome.verdict is not PLAINLY_DONE:
        return False
    if type(outcome.job) is not LeasedJob or type(outcome.job.position) is not int:
        return False
    seconds = outcome.seconds
    return type(seconds) is float and 0.0 <= seconds <= bounds.DURATION_SECONDS_MAX


def _check_outcome(outcome: Outcome) -> None:
    if not isinstance(outcome, Outcome):
        raise BadInput(f"a settlement holds Outcomes, not {shown(outcome)}.")
    if not isinstance(outcome.job, LeasedJob):
        raise BadInput(f"an Outcome is of a job that a claim gave, not of {shown(outcome.job)}.")
    if outspoken([outcome]):
        check_id("job", outcome.job.id)
    check_stored("the job's position", outcome.job.position)
    check_number("seconds", outcome.seconds, 0.0, bounds.DURATION_SECONDS_MAX)
    _check_verdict(outcome.verdict)


def _check_verdict(verdict: Verdict) -> None:
    if type(verdict) is Done:
        if verdict.result is not None:
            check_payload(verdict.result, what="result")
        if verdict.result_seconds is not None:
            check_number("result_seconds", verdict.result_seconds, 0.0, bounds.DEDUPE_SECONDS_MAX)
        if verdict.result_lost is not None:
            check_text("result_lost", verdict.result_lost)
            if verdict.result is not None:
                raise BadInput("a result is kept or lost, and not both.")
    elif type(verdict) is Retry:
        check_number("delay_seconds", verdict.delay_seconds, 0.0, bounds.DELAY_SECONDS_MAX)
        _check_failure(verdict)
        if not isinstance(verdict.counted, bool):
            raise BadInput("counted must be True or False.")
    elif type(verdict) is Bury:
        _check_failure(verdict)
        if verdict.reason is not None:
            check_text("reason", verdict.reason)
    elif type(verdict) is not Release:
        raise BadInput(f"a verdict is a Done, Retry, Bury or Release, not {shown(verdict)}.")


def _check_failure(verdict: Retry | Bury) -> None:
    check_text("error", verdict.error)
    if verdict.traceback is not None:
        check_text("traceback", verdict.traceback)


def outspoken(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes that say more of a job than that it is done."""
    return [
        outcome
        for outcome in outcomes
        if outcome.verdict is not PLAINLY_DONE
        and (type(outcome.verdict) is not Done or has_result(outcome.verdict))
    ]


def has_result(done: Done) -> bool:
    """Whether something is to be kept of what a handler returned, if only why it cannot be."""
    return done.result is not None or done.result_lost is not None


def result_texts(done: Done) -> tuple[str, str | None]:
    """Return a result as stores keep it: its JSON, and why it is lost if it is."""
    lost = None if done.result_lost is None else keepable(done.result_lost)
    return done.result or "null", lost


def done_ranges(settlement: Settlement) -> list[tuple[int, int]]:
    """Return the runs of neighbouring positions that are done, as (first, last)."""
    ranges: list[tuple[int, int]] = []
    first = last = 0
    for outcome in settlement.outcomes:
        if type(outcome.verdict) is not Done:
            continue
        position = outcome.job.position
        if position == last + 1 and first:
            last = position
            continue
        if first:
            ranges.append((first, last))
        first = last = position
    if first:
        ranges.append((first, last))
    return ranges


_UNKEEPABLE = str.maketrans({"\x00": "\\0"})


def error_text(verdict: Retry | Bury) -> str:
    """Return the error as text every store can keep: no NUL, no lone surrogate, not endless."""
    return keepable(verdict.error)


def reason_text(verdict: Bury) -> str:
    """Return why a job is dead, as text every store can keep."""
    return keepable(verdict.error if verdict.reason is None else verdict.reason)


def buried_reason(attempts: int, verdict: Retry | Bury) -> str:
    """Return why a job is dead: it cannot succeed, or its attempts are spent."""
    if type(verdict) is Bury:
        return reason_text(verdict)
    return spent_reason(attempts, error_text(verdict))


def traceback_text(verdict: Retry | Bury) -> str | None:
    """Return where an attempt failed, as text every store can keep: if it is long, its end."""
    if verdict.traceback is None:
        return None
    text = _storable(verdict.traceback)
    longest = bounds.TRACEBACK_CHARS_MAX
    return text if len(text) <= longest else f"…{text[1 - longest :]}"


def keepable(text: str) -> str:
    """Return text as every store can keep it: no NUL, no lone surrogate, not endless."""
    text = _storable(text)
    if len(text) > bounds.ERROR_CHARS_MAX:
        text = text[: bounds.ERROR_CHARS_MAX - 1] + "…"
    return text


def _storable(text: str) -> str:
    return text.translate(_UNKEEPABLE).encode(errors="backslashreplace").decode()
