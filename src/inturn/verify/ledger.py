"""The ledger: a history put in order, so that rules can ask who did what with which job, and when.

A call has two times: when it was asked and when it was answered; what it did happened in between.
Rules use the one that gives the store the benefit of the doubt.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from math import inf
from typing import TypeVar
from uuid import UUID

import msgspec

from inturn.model.job import JobState
from inturn.verify import history
from inturn.verify.final import Final, crashes_in

# A store that loses its connection in the middle of a settle settles again, and may find that it
# had settled: the lease is gone, and nobody knows which of the two it was. What was to be cut is
# cut when it is used next, which is soon.
CUT_SECONDS = 2.0

# Faults that last until they are mended; the last makes a clock wrong, the others hold things up.
PAUSES = ("stop-worker", "stall", "stop-server", "full-disk")
LASTING = (*PAUSES, "clock-step")
KILLS = ("kill-worker", "kill-producer", "kill-at")

Interval = tuple[float, float]
Entry = TypeVar("Entry")


class Submission(msgspec.Struct):
    """One batch, and the answer to it: None if there was none, or the store went away."""

    at: float
    jobs: tuple[history.Planned, ...]
    answered_at: float = inf
    places: tuple[history.Place, ...] | None = None
    is_refused: bool = False


class LeaseSeen(msgspec.Struct):
    """One lease, as the worker that holds it saw it."""

    who: str
    asked_at: float
    at: float
    token: int
    lane: int | None
    key: str | None
    alone: bool
    jobs: tuple[tuple[UUID, int, int], ...]
    kept_until: float  # at least so long it is valid, if it is not given up
    given_up_at: float = inf  # when its holder began to settle what ends it
    open: int = 0  # jobs of it that are not settled
    is_late: bool = False  # it was prolonged when it had run out, and not again since
    called_held_at: float = 0.0  # when the store last said so

    def prolong(self, asked_at: float, until: float) -> None:
        """Note that the store called it held.

        One that had run out by then proves nothing: somebody may be taking it back, and what is
        locked counts as held (``Store.extend``). The next one tells.
        """
        if asked_at > self.kept_until and not self.is_late:
            self.is_late = True
            return
        self.is_late = False
        self.kept_until = max(self.kept_until, until)


class Settle(msgspec.Struct):
    """One settlement of one job. ``is_taken``: the store said so; None: nobody knows."""

    who: str
    at: float
    verdict: history.Verdict
    answered_at: float = inf
    is_taken: bool | None = None


class Run(msgspec.Struct):
    """One run of a handler."""

    who: str
    at: float
    job: UUID
    token: int
    attempt: int
    ended_at: float = inf
    ok: bool | None = None


class Loss(msgspec.Struct, frozen=True):
    """A worker that died, or stood still for longer than a lease, and how."""

    at: float
    who: str
    how: str
    is_final: bool  # it does not come back


class Lists(dict[UUID, list[Entry]]):
    """Lists by job; a job without one has an empty one, which is not kept."""

    def __missing__(self, job: UUID) -> list[Entry]:
        return []

    def add(self, job: UUID, entry: Entry) -> None:
        """Append to the list of a job."""
        self.setdefault(job, []).append(entry)


class Ledger:
    """Everything that a history says, by what it is about."""

    def __init__(self, said: Iterable[tuple[str, history.Event]], final: Final) -> None:
        self.final = final
        self.planned: dict[UUID, history.Planned] = {}
        self.submissions: list[Submission] = []
        self.submitted_at: dict[UUID, float] = {}
        self.accepted_at: dict[UUID, float] = {}
        self.places: dict[UUID, tuple[int, int]] = {}  # lane and position
        self.leases: list[LeaseSeen] = []
        self.claims_of: Lists[tuple[LeaseSeen, int]] = Lists()  # with the attempt
        self.moved: list[tuple[UUID, tuple[int, int], tuple[int, int]]] = []
        self.settles: list[Settle] = []
        self.settles_of: Lists[Settle] = Lists()
        self.runs: list[Run] = []
        self.runs_of: Lists[Run] = Lists()
        self.cancelled: dict[UUID, float] = {}  # when the store said so
        self.cancelling: Counter[UUID] = Counter()  # but for those it was too late for
        self.gates: list[history.GateMoved] = []
        self.dropped: dict[UUID, history.Dropped] = {}
        self.faults: list[history.Fault] = []
        self.failed: list[history.Failed] = []
        self.pauses: list[Interval] = []  # something stood still
        self.stops: dict[str, list[Interval]] = {}  # a worker did
        self.wrong_clocks: list[Interval] = []
        self.losses: list[Loss] = []  # of workers
        self.cuts: list[float] = []  # when connections were lost
        self.begun: dict[str, float] = {}  # when each process began
        self.lost_answers = 0  # calls of which nobody knows whether they happened
        self.last_at = 0.0
        self._calls: dict[tuple[str, int], Submission | list[Settle]] = {}
        self._held: dict[str, list[LeaseSeen]] = {}
        self._named: dict[tuple[int, int | None], LeaseSeen] = {}
        self._settles_under: dict[int, list[Settle]] = {}  # by token
        self._running: dict[tuple[UUID, int], Run] = {}
        self._lasting: dict[tuple[str, str], float] = {}
        for who, event in said:
            self.last_at = max(self.last_at, event.at)
            self._take(who, event)
        for name, target in tuple(self._lasting):
            self._mend(name, target, self.last_at)

    # Questions

    def state(self, job: UUID) -> JobState | None:
        """Where a job is at the end, as if nothing had been dropped."""
        found = self.final.jobs.get(job)
        if job in self.dropped:
            return JobState.DEAD
        return None if found is None else found.state

    def may_have_happened(self, settle: Settle) -> bool:
        """Whether a settlement was taken, or may have been."""
        return settle.is_taken is not False

    def ends(self, settle: Settle) -> bool:
        """Whether a settlement ends its job, if it was taken."""
        said = settle.verdict.said
        return said in ("done", "bury") or (said == "retry" and self.is_spent(settle))

    def is_spent(self, settle: Settle) -> bool:
        """Whether a failure was of the job's last attempt."""
        job, token = settle.verdict.job, settle.verdict.token
        planned = self.planned.get(job)
        attempts = [n for lease, n in self.claims_of[job] if lease.token == token]
        return planned is not None and attempts != [] and attempts[-1] >= planned.attempts_max

    def ended_at(self, job: UUID) -> float:
        """When a job may have ended at the earliest; never, if it did not."""
        state = self.state(job)
        if state is JobState.CANCELLED:
            return 0.0
        times = [one.at for one in self.settles_of[job] if self._fits(one, state)]
        if times:
            return min(times)
        return 0.0 if state is JobState.DEAD else inf

    def done_at(self, job: UUID) -> float:
        """When a job may have been done at the earliest."""
        times = [
            one.at
            for one in self.settles_of[job]
            if one.verdict.said == "done" and self.may_have_happened(one)
        ]
        return min(times, default=inf)

    def seconds_still(self, first: float, last: float) -> float:
        """Return for how long of a time something stood still."""
        covered, upto = 0.0, first
        for begin, end in sorted(self.pauses):
            begin, end = max(begin, upto), min(end, last)
            if end > begin:
                covered += end - begin
                upto = end
        return covered

    def is_clock_wrong(self, first: float, last: float) -> bool:
        """Whether some clock was wrong in a time, and may have decided what happened in it.

        Ask from the moment on at which the thing in question came to be: a lease was asked for, a
        delayed job was submitted, a job was given to the worker that lost it.

        A worker whose clock is wrong writes leases that run out too soon or too late, takes back
        valid ones of others, lets in what is not due, and parks for too long or too short. All
        that stays in the store when the clock is right again, or the worker dead; so it excuses
        what comes later, too. But only of what was there when it was written: a lease that had
        been asked for, a job that had been submitted. A claim writes anew whatever decides how
        long its jobs are held, and so the excuse ends with the lease that was touched, at the
        latest a lease's length after its holder prolonged it for the last time.
        """
        return any(begin < last and end > first for begin, end in self.wrong_clocks)

    def leases_of(self, who: str) -> list[LeaseSeen]:
        """Return the leases that a process held."""
        if not self._held:
            for lease in self.leases:
                self._held.setdefault(lease.who, []).append(lease)
        return self._held.get(who, [])

    def leases_by_lane(self) -> dict[int, list[LeaseSeen]]:
        """Return the leases of each keyed lane, in the order of their tokens."""
        found: defaultdict[int, list[LeaseSeen]] = defaultdict(list)
        for lease in self.leases:
            if lease.lane is not None and lease.key is not None:
                found[lease.lane].append(lease)
        for leases in found.values():
            leases.sort(key=lambda lease: lease.token)
        return found

    def lanes(self) -> Iterator[tuple[int, list[tuple[int, UUID]]]]:
        """Return each keyed lane with its jobs in the order of their positions."""
        lanes: defaultdict[int, list[tuple[int, UUID]]] = defaultdict(list)
        for job, (lane, position) in self.places.items():
            planned = self.planned.get(job)
            if planned is not None and planned.key is not None:
                lanes[lane].append((position, job))
        for lane, jobs in lanes.items():
            yield lane, sorted(jobs)

    def _fits(self, settle: Settle, state: JobState | None) -> bool:
        if not self.ends(settle) or settle.is_taken is False:
            return False
        if settle.is_taken is None and self._is_swept(settle.verdict.job):
            return False
        wanted = JobState.DONE if settle.verdict.said == "done" else JobState.DEAD
        return settle.is_taken is True or state is wanted

    def _is_swept(self, job: UUID) -> bool:
        """Whether a sweep buried a job, whoever else would have later and was refused."""
        letter = self.dropped.get(job) or self.final.jobs.get(job)
        return letter is not None and crashes_in(letter.reason) is not None

    # Taking in what was said

    def _take(self, who: str, event: history.Event) -> None:
        match event:
            case history.Began():
                self.begun[who] = event.at
                self._succeed(who, event.at)
            case history.Left():
                self._mend_all(who, LASTING, event.at)
            case history.Submitting():
                self._submitting(who, event)
            case history.Accepted():
                self._accepted(who, event)
            case history.Refused() | history.Doubted() | history.Settled():
                self._answered(who, event)
            case history.Claimed():
                self._claimed(who, event)
            case history.Extended():
                self._extended(event)
            case history.Settling():
                self._settling(who, event)
            case history.Started():
                run = Run(who, event.at, event.job, event.token, event.attempt)
                self.runs.append(run)
                self.runs_of.add(event.job, run)
                self._running[event.job, event.token] = run
                if (planned := self.planned.get(event.job)) and planned.kind == "exits":
                    self.losses.append(Loss(event.at, who, "its handler exits", True))
            case history.Ended():
                if (run_now := self._running.get((event.job, event.token))) is not None:
                    run_now.ended_at, run_now.ok = event.at, event.ok
            case history.Cancelling():
                self.cancelling[event.job] += 1
            case history.Cancelled():
                if event.state == JobState.CANCELLED:
                    self.cancelled.setdefault(event.job, event.at)
                else:
                    self.cancelling[event.job] -= 1
            case history.GateMoved():
                self.gates.append(event)
            case history.Dropped():
                self.dropped[event.job] = event
            case history.Fault():
                self._fault(who, event)
            case history.Failed():
                self.failed.append(event)
            case history.Mended():
                self._mend(event.name, event.target, event.at)
            case _:
                pass

    def _submitting(self, who: str, event: history.Submitting) -> None:
        submission = Submission(event.at, event.jobs)
        self.submissions.append(submission)
        self._calls[who, event.call] = submission
        for job in event.jobs:
            self.planned.setdefault(job.id, job)
            self.submitted_at.setdefault(job.id, event.at)

    def _accepted(self, who: str, event: history.Accepted) -> None:
        submission = self._calls.get((who, event.call))
        if isinstance(submission, Submission):
            submission.answered_at, submission.places = event.at, event.places
        for place in event.places:
            self.accepted_at.setdefault(place.id, event.at)
            if place.lane is not None and place.position is not None:
                self._stands(place.id, (place.lane, place.position))

    def _answered(
        self, who: str, event: history.Refused | history.Doubted | history.Settled
    ) -> None:
        asked = self._calls.get((who, event.call))
        self.lost_answers += isinstance(event, history.Doubted)
        if isinstance(asked, Submission):
            asked.is_refused = isinstance(event, history.Refused)
        elif asked is not None and not isinstance(event, history.Doubted):
            for settle in asked:
                settle.answered_at = event.at
                if isinstance(event, history.Settled):
                    settle.is_taken = True
                elif not any(cut > settle.at - CUT_SECONDS for cut in self.cuts[-9:]):
                    settle.is_taken = False

    def _claimed(self, who: str, event: history.Claimed) -> None:
        for one in event.leases:
            lease = LeaseSeen(
                who,
                event.asked_at,
                event.at,
                one.token,
                one.lane,
                one.key,
                one.alone,
                one.jobs,
                event.asked_at + event.lease_seconds,
                open=len(one.jobs),
            )
            self.leases.append(lease)
            self._named[one.token, one.lane] = lease
            for job, position, attempt in one.jobs:
                self.claims_of.add(job, (lease, attempt))
                if one.lane is not None:
                    self._stands(job, (one.lane, position))

    def _extended(self, event: history.Extended) -> None:
        """Note which leases were prolonged.

        PostgreSQL leaves one as it is, and calls it held, while a settle under its token locks it.
        """
        for token, lane in event.kept:
            settles = self._settles_under.get(token, ())
            lease = self._named.get((token, lane))
            if lease is None:
                continue
            lease.called_held_at = event.at
            if all(one.answered_at <= event.asked_at for one in settles):
                lease.prolong(event.asked_at, event.asked_at + event.lease_seconds)

    def _stands(self, job: UUID, place: tuple[int, int]) -> None:
        before = self.places.setdefault(job, place)
        if before != place:
            self.moved.append((job, before, place))

    def _settling(self, who: str, event: history.Settling) -> None:
        made = [Settle(who, event.at, verdict) for verdict in event.verdicts]
        self._calls[who, event.call] = made
        for settle in made:
            self.settles.append(settle)
            self.settles_of.add(settle.verdict.job, settle)
            self._settles_under.setdefault(settle.verdict.token, []).append(settle)
            lease = self._named.get((settle.verdict.token, settle.verdict.lane))
            if lease is None:
                continue
            lease.open -= 1
            if settle.verdict.said != "done" or lease.open <= 0:
                lease.given_up_at = min(lease.given_up_at, event.at)

    def _fault(self, who: str, event: history.Fault) -> None:
        self.faults.append(event)
        self._succeed(event.target, event.at)
        if event.name in ("kill-worker", "kill-at") and event.target.startswith("worker"):
            how = event.detail or event.name
            self.losses.append(Loss(event.at, event.target, how, True))
        if event.name == "stop-worker":
            self.losses.append(
                Loss(event.at, event.target, f"it stood still: {event.detail}", False)
            )
        if event.name in ("cut-connection", "kill-backend", "stop-server"):
            self.cuts.append(event.at)
        if event.name in KILLS:
            self._mend_all(event.target, PAUSES, event.at)
        if event.name in LASTING:
            self._lasting.setdefault((event.name, event.target), event.at)

    # Faults that last

    def _succeed(self, who: str, at: float) -> None:
        """Note that there is a process, so that those before it in its place are dead."""
        for target in {one for _, one in self._lasting if _is_before(one, who)}:
            self._mend_all(target, LASTING, at)

    def _mend_all(self, target: str, names: Iterable[str], at: float) -> None:
        """Note that faults are over because their process is, which may not have mended them.

        What is killed does not stand still any more. Its clock may be wrong for a moment longer:
        the kill is written down before it is done, and what the process did in between need not
        be. So a clock ends when its process has left, or when the history knows of the next one in
        its place, which is started after the death of the one before.
        """
        for name in names:
            self._mend(name, target, at)

    def _mend(self, name: str, target: str, at: float) -> None:
        since = self._lasting.pop((name, target), None)
        if since is None:
            return
        (self.pauses if name in PAUSES else self.wrong_clocks).append((since, at))
        if name == "stop-worker":
            self.stops.setdefault(target, []).append((since, at))

    # More questions

    def kind(self, job: UUID) -> str:
        """Return which handler a job is for; nothing, if nobody submitted it."""
        planned = self.planned.get(job)
        return "" if planned is None else planned.kind

    def settles_under(self, job: UUID, token: int) -> list[Settle]:
        """Return what was said of a job under a lease."""
        return [one for one in self.settles_of[job] if one.verdict.token == token]

    def run_under(self, job: UUID, token: int) -> Run | None:
        """Return the run of a job's handler under a lease."""
        return next((run for run in self.runs_of[job] if run.token == token), None)

    def run_until(self, run: Run) -> float:
        """When a handler had ended at the latest: its end may be unwritten where it was settled."""
        return min(run.ended_at, *(one.at for one in self.settles_under(run.job, run.token)), inf)


def _is_before(one: str, other: str) -> bool:
    """Whether a process was in the same place of the crew as another, and before it."""
    place, _, start = one.rpartition("-")
    place_of_other, _, start_of_other = other.rpartition("-")
    return place == place_of_other != "" and int(start) < int(start_of_other)
