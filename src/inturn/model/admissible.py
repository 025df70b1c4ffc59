"""What may be stored at all: every check of a job or a name, made before a store is touched."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from inturn.model import bounds
from inturn.model.errors import DependencyCycle, InvalidName, OutOfBounds
from inturn.model.job import NewJob
from inturn.model.lane import QueueSettings
from inturn.model.payload import check_payload


def check_jobs(jobs: Sequence[NewJob]) -> None:
    """Refuse a batch if any job in it cannot be stored, saying which and why."""
    if len(jobs) > bounds.ENQUEUE_JOBS_MAX:
        raise OutOfBounds(
            f"a batch holds {len(jobs):,} jobs; the bound is {bounds.ENQUEUE_JOBS_MAX:,}. "
            f"Send several batches."
        )
    # The jobs of a batch are much alike: names and numbers seen before need no second look.
    names: set[tuple[str, str]] = set()
    numbers: set[tuple[object, ...]] = set()
    for job in jobs:
        if (job.queue, job.kind) not in names:
            check_name("queue", job.queue, bounds.QUEUE_CHARS_MAX)
            check_name("kind", job.kind, bounds.KIND_CHARS_MAX)
            names.add((job.queue, job.kind))
        options = (
            job.priority,
            job.round,
            job.attempts_max,
            job.timeout_seconds,
            job.delay_seconds,
            job.dedupe_seconds,
        )
        if options not in numbers:
            _check_numbers(job)
            numbers.add(options)
        if job.key is not None:
            check_name("key", job.key, bounds.KEY_CHARS_MAX)
        if job.dedupe is not None:
            check_name("dedupe key", job.dedupe, bounds.DEDUPE_CHARS_MAX)
        if job.after:
            _check_after(job)
        check_payload(job.payload)
    ids = {job.id for job in jobs}
    if len(ids) != len(jobs):
        raise OutOfBounds("two jobs of one batch have the same id. Leave the ids to inturn.")
    if any(job.after for job in jobs):
        _check_cycle({job.id: job.after & ids for job in jobs if job.after})


def _check_numbers(job: NewJob) -> None:
    check_whole("priority", job.priority, bounds.PRIORITY_MIN, bounds.PRIORITY_MAX)
    check_whole("round", job.round, 0, bounds.ROUND_MAX)
    check_whole("attempts_max", job.attempts_max, 1, bounds.ATTEMPTS_MAX)
    check_number("delay_seconds", job.delay_seconds, 0.0, bounds.DELAY_SECONDS_MAX)
    check_number("dedupe_seconds", job.dedupe_seconds, 0.001, bounds.DEDUPE_SECONDS_MAX)
    if job.timeout_seconds is not None:
        check_number("timeout_seconds", job.timeout_seconds, 0.001, bounds.TIMEOUT_SECONDS_MAX)
    if job.delay_seconds and job.round:
        raise OutOfBounds(
            "a job has both a delay and a round. A round waits for a gate and a delay for a time: "
            "choose one."
        )


def _check_after(job: NewJob) -> None:
    if len(job.after) > bounds.AFTER_MAX:
        raise OutOfBounds(
            f"a job waits for {len(job.after):,} others; the bound is {bounds.AFTER_MAX:,}. "
            f"Put a job in between that waits for some of them."
        )
    if job.delay_seconds:
        raise OutOfBounds("a job has both a delay and after. Delay the jobs it waits for.")
    if job.id in job.after:
        raise DependencyCycle([job.id, job.id])


def check_claim(
    queue: str, jobs_max: int, worker: str, lease_seconds: float, suspects_max: int
) -> None:
    """Refuse a claim that asks for what cannot be."""
    check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
    check_name("worker", worker, bounds.WORKER_CHARS_MAX)
    check_whole("jobs_max", jobs_max, 1, bounds.CLAIM_JOBS_MAX)
    check_whole("suspects_max", suspects_max, 0, bounds.CLAIM_JOBS_MAX)
    check_number("lease_seconds", lease_seconds, 0.001, bounds.LEASE_SECONDS_MAX)


def check_wait(queues: Collection[str], timeout_seconds: float) -> None:
    """Refuse a wait for what cannot be a queue, or for no proper time."""
    for queue in queues:
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
    check_number("timeout_seconds", timeout_seconds, 0.0, bounds.DELAY_SECONDS_MAX)


def check_settings(settings: QueueSettings) -> None:
    """Refuse settings that a queue cannot have."""
    if settings.depth_max is not None:
        check_whole("depth_max", settings.depth_max, 1, bounds.DEPTH_MAX)
    if settings.lane_depth_max is not None:
        check_whole("lane_depth_max", settings.lane_depth_max, 1, bounds.DEPTH_MAX)
    check_number("keep_done_seconds", settings.keep_done_seconds, 0.0, bounds.DELAY_SECONDS_MAX)
    check_number("aging_seconds", settings.aging_seconds, 0.001, bounds.DELAY_SECONDS_MAX)


def check_name(what: str, name: str, chars_max: int) -> None:
    """Refuse a name that is empty, too long, or cannot be kept as text."""
    if not isinstance(name, str):
        raise InvalidName(f"the {what} must be text, not {type(name).__name__}.")
    if not 0 < len(name) <= chars_max:
        raise InvalidName(
            f"the {what} has {len(name)} characters; it needs 1 to {chars_max}. "
            f"A digest makes a short name out of a long one."
        )
    if "\x00" in name:
        raise InvalidName(f"the {what} {name!r} holds the character NUL. Leave it out.")
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise InvalidName(
                f"the {what} {name!r} holds a lone surrogate and is not text. "
                f"Decode the bytes it came from properly."
            ) from error


def check_whole(what: str, value: object, lowest: int, highest: int) -> None:
    """Refuse what is not a whole number in its range."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise OutOfBounds(f"{what} must be a whole number, not {value!r}.")
    if not lowest <= value <= highest:
        raise OutOfBounds(f"{what} is {value}; it may be {lowest} to {highest}.")


def check_number(what: str, value: object, lowest: float, highest: float) -> None:
    """Refuse what is not a finite number in its range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise OutOfBounds(f"{what} must be a finite number, not {value!r}.")
    if not lowest <= value <= highest:
        raise OutOfBounds(f"{what} is {value:g}; it may be {lowest:g} to {highest:g}.")


def _check_cycle(waits: Mapping[UUID, frozenset[UUID]]) -> None:
    """Refuse jobs of one batch that wait for one another in a circle.

    Jobs of other batches cannot take part: a job's ``after`` is fixed when it is accepted, so it
    can only name what was there before, or what comes with it.
    """
    finished: set[UUID] = set()
    for start in waits:
        path: list[UUID] = []
        on_path: set[UUID] = set()
        stack: list[tuple[UUID, bool]] = [(start, False)]
        while stack:
            job, leaving = stack.pop()
            if leaving:
                path.pop()
                on_path.discard(job)
                finished.add(job)
            elif job in on_path:
                raise DependencyCycle([*path[path.index(job) :], job])
            elif job not in finished:
                path.append(job)
                on_path.add(job)
                stack.append((job, True))
                stack.extend((other, False) for other in waits.get(job, frozenset()))
