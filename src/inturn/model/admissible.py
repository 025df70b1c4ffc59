"""What may be stored or asked for: every check of an argument, made before a store is touched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

from inturn.model import bounds
from inturn.model.duration import UNIT_SECONDS
from inturn.model.errors import BadInput, DependencyCycle, InvalidName, OutOfBounds
from inturn.model.job import JobState, NewJob
from inturn.model.lane import OnDead, QueueSettings, Replay, SuspectsRule
from inturn.model.lease import Lease, Wish
from inturn.model.payload import check_payload
from inturn.model.worker import WorkerView

_SHOWN_CHARS_MAX = 80
_STORED_MAX = bounds.STORED_MAX
_NIL = UUID(int=0)


def check_jobs(jobs: Sequence[NewJob], *, before: NewJob | None = None) -> None:
    """Refuse a batch if any job in it cannot be stored, saying which and why.

    ``before``: a job that was not refused. One submits jobs that are much alike.
    """
    if len(jobs) > bounds.ENQUEUE_JOBS_MAX:
        raise OutOfBounds(
            f"a batch holds {len(jobs):,} jobs; the bound is {bounds.ENQUEUE_JOBS_MAX:,}. "
            f"Send several batches."
        )
    if len(jobs) == 1:  # as most often, and without what concerns several
        _check_job(jobs[0], before)
        check_id("id of a job", jobs[0].id)
        if not jobs[0].id.int:
            raise _nil_id()
        return
    number = 0
    try:
        for number, job in enumerate(jobs):
            _check_job(job, jobs[number - 1] if number else before)
    except BadInput as error:
        error.args = (_of_batch(jobs, number, error),)
        raise
    chars = sum([len(job.payload) for job in jobs])
    if chars > bounds.ENQUEUE_CHARS_MAX:
        raise OutOfBounds(
            f"the payloads of a batch have {chars:,} characters together; the bound is "
            f"{bounds.ENQUEUE_CHARS_MAX:,}. Send several batches."
        )
    given = [job.id for job in jobs]
    if set(map(type, given)) - {UUID}:
        check_ids("id of a job", given)
    ids = set(given)
    if len(ids) != len(jobs):
        raise OutOfBounds("two jobs of one batch have the same id. Leave the ids to inturn.")
    if _NIL in ids:
        raise _nil_id()
    waits = sum([len(job.after) + len(job.after_failed) for job in jobs])
    if waits > bounds.WAITS_MAX:
        raise OutOfBounds(
            f"the jobs of a batch wait {waits:,} times for others; the bound is "
            f"{bounds.WAITS_MAX:,}. Put a job in between that many wait for, or send several."
        )
    if waits:
        _check_cycle(_waits(jobs, ids))


def _nil_id() -> BadInput:
    return BadInput("the id of a job is the nil UUID, all zeros. Leave the ids to inturn.")


def _check_job(job: NewJob, before: NewJob | None) -> None:
    """Refuse a job that cannot be stored; ``before`` is the one before it, which can."""
    if type(job) is not NewJob:
        raise BadInput(f"a batch holds {shown(job)}, which is not a NewJob.")
    # What the job before had needs no second look.
    if before is None or job.queue is not before.queue or job.kind is not before.kind:
        check_name("queue", job.queue, bounds.QUEUE_CHARS_MAX)
        check_name("kind", job.kind, bounds.KIND_CHARS_MAX)
    if (
        before is None
        or job.priority is not before.priority
        or job.round is not before.round
        or job.attempts_max is not before.attempts_max
        or job.timeout_seconds is not before.timeout_seconds
        or job.delay_seconds is not before.delay_seconds
        or job.dedupe_seconds is not before.dedupe_seconds
    ):
        _check_numbers(job)
    if job.unsent.__class__ is not bool:
        raise BadInput(f"unsent is yes or no, not {shown(job.unsent)}.")
    if job.key is not None:
        check_name("key", job.key, bounds.KEY_CHARS_MAX)
    if job.dedupe is not None:
        check_name("dedupe key", job.dedupe, bounds.DEDUPE_CHARS_MAX)
    if job.after.__class__ is not frozenset or job.after:
        _check_after(job, "after", job.after)
    if job.after_failed.__class__ is not frozenset or job.after_failed:
        _check_after(job, "after_failed", job.after_failed)
    check_payload(job.payload)


def _of_batch(jobs: Sequence[NewJob], number: int, error: BadInput) -> str:
    """Say which job of a batch is refused, where there is more than one."""
    if len(jobs) == 1:
        return str(error)
    job = jobs[number]
    name = ""
    if type(job) is NewJob:
        key = "" if job.key is None else f", key {shown(job.key)}"
        name = f" (kind {shown(job.kind)}{key})"
    return f"job {number + 1} of {len(jobs):,}{name}: {error}"


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


def _check_after(job: NewJob, name: str, others: Any) -> None:
    if not isinstance(others, set | frozenset):
        raise BadInput(f"{name} must be a set of job ids, not {shown(others)}.")
    check_ids(f"job id in {name}", others)
    if len(others) > bounds.AFTER_MAX:
        raise OutOfBounds(
            f"a job waits for {len(others):,} others; the bound is {bounds.AFTER_MAX:,}. "
            f"Put a job in between that waits for some of them."
        )
    if others and job.delay_seconds:
        raise OutOfBounds(f"a job has both a delay and {name}. Delay the jobs it waits for.")
    if job.after and job.after_failed:
        raise BadInput(
            "a job has both after and after_failed: it would wait for jobs to be done and for "
            "others to fail. Choose one; a reaction can submit more jobs itself."
        )
    if job.id in others:
        raise DependencyCycle([job.id, job.id])


def make_wish(
    queue: str,
    *,
    jobs_max: int,
    worker: str,
    lease_seconds: float,
    kinds: Iterable[str] | None,
    suspects_max: int,
) -> Wish:
    """Return what a claim asks for; refuse what cannot be."""
    kinds = None if kinds is None else listed("kinds", kinds)
    if kinds is not None:
        check_kinds(kinds)
    check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
    check_name("worker", worker, bounds.WORKER_CHARS_MAX)
    check_whole("jobs_max", jobs_max, 1, bounds.CLAIM_JOBS_MAX)
    check_whole("suspects_max", suspects_max, 0, bounds.CLAIM_JOBS_MAX)
    check_number("lease_seconds", lease_seconds, 0.001, bounds.LEASE_SECONDS_MAX)
    return Wish(
        queue=queue,
        jobs_max=jobs_max,
        worker=worker,
        lease_seconds=float(lease_seconds),
        kinds=kinds,
        suspects_max=suspects_max,
    )


def check_lease(lease: Lease) -> None:
    """Refuse what no claim can have given."""
    if not isinstance(lease, Lease):
        raise BadInput(f"a lease of a claim is needed, not {shown(lease)}.")
    lane = 0 if lease.lane is None else lease.lane
    for number in (lease.token, lane, lease.first, lease.last):
        if number.__class__ is not int or not -_STORED_MAX <= number <= _STORED_MAX:
            check_stored("a number of the lease", number)


def check_worker(worker: WorkerView) -> None:
    """Refuse a worker that cannot be written down."""
    if not isinstance(worker, WorkerView):
        raise BadInput(f"a WorkerView is needed, not {shown(worker)}.")
    check_name("worker", worker.id, bounds.WORKER_CHARS_MAX)
    check_name("host", worker.host, bounds.WORKER_CHARS_MAX)
    check_name("version", worker.version, bounds.WORKER_CHARS_MAX)
    if worker.process:
        check_name("process", worker.process, bounds.WORKER_CHARS_MAX)
    check_whole("pid", worker.pid, 0, bounds.PID_MAX)
    check_whole("running", worker.running, 0, bounds.RUNNING_MAX)
    for what, names in (("queues", worker.queues), ("kinds", worker.kinds)):
        if not isinstance(names, tuple | list | set | frozenset):
            raise BadInput(f"a worker's {what} must be a tuple of names, not {shown(names)}.")
    check_queues(worker.queues)
    check_kinds(worker.kinds)


def check_processes(processes: Iterable[str]) -> list[str]:
    """Return what names processes as a list, and refuse what no worker can have said."""
    processes = listed("gone", processes)
    for process in processes:
        check_name("process", process, bounds.WORKER_CHARS_MAX)
    return processes


def check_settings(settings: QueueSettings) -> None:
    """Refuse settings that a queue cannot have."""
    if not isinstance(settings, QueueSettings):
        raise BadInput(f"QueueSettings are needed, not {shown(settings)}.")
    for name, known in (("on_dead", OnDead), ("replay", Replay), ("suspects", SuspectsRule)):
        given = getattr(settings, name)
        if given not in list(known):
            choice = " or ".join(repr(str(one)) for one in known)
            raise BadInput(f"{name} is {shown(given)}; it may be {choice}.")
    if settings.depth_max is not None:
        check_whole("depth_max", settings.depth_max, 1, bounds.DEPTH_MAX)
    if settings.lane_depth_max is not None:
        check_whole("lane_depth_max", settings.lane_depth_max, 1, bounds.DEPTH_MAX)
    check_number("keep_done_seconds", settings.keep_done_seconds, 0.0, bounds.DELAY_SECONDS_MAX)
    check_number("aging_seconds", settings.aging_seconds, 0.001, bounds.DELAY_SECONDS_MAX)
    if settings.running_max is not None:
        check_whole("running_max", settings.running_max, 1, bounds.RUNNING_MAX)
    if (settings.rate is None) is not (settings.rate_seconds is None):
        raise BadInput("a rate is so many jobs in so many seconds: give rate and rate_seconds.")
    if settings.rate is not None:
        check_whole("rate", settings.rate, 1, bounds.RATE_MAX)
        check_number("rate_seconds", settings.rate_seconds, 0.001, bounds.RATE_SECONDS_MAX)
    if settings.local.__class__ is not bool:
        raise BadInput(f"local is yes or no, not {shown(settings.local)}.")


def check_declared(settings: Mapping[str, Any]) -> None:
    """Refuse settings that code may not give a queue; those it leaves out are as they are."""
    try:
        given = msgspec.structs.replace(QueueSettings(), **settings)
    except TypeError:
        known = ", ".join(QueueSettings.__struct_fields__)
        raise BadInput(f"a queue has the settings {known}; not {shown(dict(settings))}.") from None
    check_settings(given)


def check_filter(
    *, queue: str | None = None, kind: str | None = None, key: str | None = None
) -> None:
    """Refuse names that no job can have; None stands for every name."""
    if queue is not None:
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
    if kind is not None:
        check_name("kind", kind, bounds.KIND_CHARS_MAX)
    if key is not None:
        check_name("key", key, bounds.KEY_CHARS_MAX)


def check_lane(queue: str, key: str) -> None:
    """Refuse what cannot name a keyed lane."""
    check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
    check_name("key", key, bounds.KEY_CHARS_MAX)


def check_queues(queues: Iterable[str]) -> None:
    """Refuse what cannot name queues."""
    for queue in queues:
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)


def check_kinds(kinds: Iterable[str]) -> None:
    """Refuse what cannot name kinds."""
    for kind in kinds:
        check_name("kind", kind, bounds.KIND_CHARS_MAX)


def check_by(by: str) -> None:
    """Refuse what cannot name a person or a program."""
    check_name("by", by, bounds.WORKER_CHARS_MAX)


def check_ids(what: str, ids: Iterable[UUID]) -> None:
    """Refuse what cannot be ids of jobs."""
    for id in ids:
        check_id(what, id)


def check_id(what: str, id: UUID) -> None:
    """Refuse what cannot be the id of a job."""
    if not isinstance(id, UUID):
        raise BadInput(
            f"the {what} must be a UUID, not {shown(id)}. Make one of text with uuid.UUID(…)."
        )


def check_state(state: JobState | None) -> JobState | None:
    """Return the state that is meant, also by its plain name; refuse one that there is not."""
    try:
        return None if state is None else JobState(state)
    except ValueError as error:
        known = ", ".join(JobState)
        raise BadInput(f"there is no state {shown(state)}. There are: {known}.") from error


def check_time(what: str, time: datetime) -> None:
    """Refuse what is not a time with its zone."""
    if not isinstance(time, datetime):
        raise BadInput(f"{what} must be a datetime, not {shown(time)}.")
    if time.tzinfo is None:
        raise BadInput(f"{what} has no time zone. Use datetime.now(UTC), or .astimezone().")
    try:
        time.astimezone(UTC)
    except OverflowError as error:
        raise OutOfBounds(f"{what} lies outside the years 1 to 9999 in UTC.") from error


def listed(what: str, given: Iterable[Any]) -> list[Any]:
    """Return what was given, whatever it can be gone through as, as a list."""
    if type(given) is list:
        return given
    if isinstance(given, str | bytes) or not hasattr(type(given), "__iter__"):
        raise BadInput(f"{what} must be a list, or another collection, not {shown(given)}.")
    return list(given)


def check_name(what: str, name: str, chars_max: int) -> None:
    """Refuse a name that is empty, too long, or cannot be kept as text."""
    if not isinstance(name, str):
        raise InvalidName(f"the {what} must be text, not {type(name).__name__}.")
    if not name:
        raise InvalidName(f"the {what} is empty; it needs 1 to {chars_max} characters.")
    if len(name) > chars_max:
        raise InvalidName(
            f"the {what} has {len(name)} characters, and {chars_max} is the most. Shorten it, or "
            f"use a hash of it."
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
        raise OutOfBounds(f"{what} must be a whole number, not {shown(value)}.")
    if not lowest <= value <= highest:
        raise OutOfBounds(f"{what} is {shown(value)}; it may be {lowest} to {highest}.")


def check_stored(what: str, value: object) -> None:
    """Refuse what is not a number that both stores can compare with theirs."""
    check_whole(what, value, -bounds.STORED_MAX, bounds.STORED_MAX)


def check_number(what: str, value: object, lowest: float, highest: float) -> None:
    """Refuse what is not a finite number in its range."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or (isinstance(value, float) and not math.isfinite(value))
    ):
        raise OutOfBounds(f"{what} must be a finite number, not {shown(value)}.")
    if not lowest <= value <= highest:
        most = f"{highest:,.15g}{_days(highest)}"
        raise OutOfBounds(f"{what} is {shown(value)}; it may be {lowest:g} to {most}.")


def _days(number: float) -> str:
    """Say how many days a bound is, if it is whole ones: what goes so high is seconds."""
    days, rest = divmod(number, UNIT_SECONDS["d"])
    if not days or rest:
        return ""
    return " (1 day)" if days == 1 else f" ({days:,.0f} days)"


def check_report(lease: Lease, job: UUID, fraction: object, note: object) -> None:
    """Refuse what does not say of a leased job how far it is."""
    check_lease(lease)
    check_id("job", job)
    check_progress(fraction, note)


def check_progress(fraction: object, note: object) -> None:
    """Refuse what does not say how far a job is."""
    check_number("fraction", fraction, 0.0, 1.0)
    check_text("note", note)
    if isinstance(note, str) and len(note) > bounds.NOTE_CHARS_MAX:
        raise OutOfBounds(
            f"the note has {len(note):,} characters, and {bounds.NOTE_CHARS_MAX} is the most."
        )


def check_text(what: str, text: object) -> None:
    """Refuse what is not text."""
    if not isinstance(text, str):
        raise BadInput(f"the {what} must be text, not {shown(text)}.")


def shown(value: object) -> str:
    """Return a value as it may stand in a sentence, however large it is."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a whole number of {value.bit_length():,} bits"
    try:
        text = repr(value)
    except Exception:  # whatever somebody's own repr may raise
        text = f"something of type {type(value).__name__}"
    return text if len(text) <= _SHOWN_CHARS_MAX else text[: _SHOWN_CHARS_MAX - 1] + "…"


def _waits(jobs: Sequence[NewJob], ids: set[UUID]) -> dict[UUID, frozenset[UUID]]:
    """Return which jobs of a batch wait for which. A duplicate in it stands for its first."""
    firsts: dict[tuple[str, str], UUID] = {}
    same: dict[UUID, UUID] = {}
    for job in jobs:
        if job.dedupe is not None:
            same[job.id] = firsts.setdefault((job.queue, job.dedupe), job.id)
    return {
        job.id: frozenset(same.get(other, other) for other in job.waits_for() & ids)
        for job in jobs
        if job.waits_for() and same.get(job.id, job.id) == job.id
    }


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
