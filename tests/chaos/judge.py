"""What the log and the store say of a run, told to the simulation's checkers as a history.

Where nobody can know whether something happened, because its process was killed before it could
say so, the store has the benefit of the doubt.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from inturn.model.job import JobState, JobView, LeasedJob, NewJob, Ticket
from inturn.model.lease import Claim, Lease, Reclaimed
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Verdict
from tests.chaos.jobs import DOOMED, STRICT
from tests.chaos.log import AnyLine, Ended, Sending, Started, Struck
from tests.simulation import history
from tests.simulation.checker import CHECKS, Checker, Violation

# What can be told from outside of processes; the simulation judges the rest.
JUDGED = {
    name: CHECKS[name]
    for name in (
        *("loss", "duplicates", "order", "fencing", "dependencies", "backoff", "batches"),
        *("tables", "finish"),
    )
}
END = datetime.max.replace(tzinfo=UTC)
TROUBLE_SECONDS = 10.0  # so long after a fault of the server its answers may be lost


@dataclass(frozen=True, kw_only=True)
class Final:
    """The store's last word."""

    views: Mapping[UUID, JobView]
    settled: Mapping[UUID, Sequence[int]]  # under which leases each job that is done was settled
    complaints: Sequence[str]


@dataclass(frozen=True)
class At:
    """A line of the log and its place."""

    place: int
    line: Started


class Judge:
    """Reads a log by lane: a key's jobs, or a job without a key and what waits for it."""

    def __init__(self, lines: Sequence[AnyLine], final: Final) -> None:
        self.final = final
        self.jobs: dict[UUID, NewJob] = {}
        self.sent: dict[str, list[tuple[int, float, NewJob]]] = defaultdict(list)
        self.starts: dict[UUID, list[At]] = defaultdict(list)
        self.ends: dict[tuple[UUID, int], tuple[int, bool]] = {}
        self.last: dict[UUID, int] = {}
        self.struck = [line for line in lines if isinstance(line, Struck)]
        for place, line in enumerate(lines):
            match line:
                case Sending():
                    for job in line.jobs:
                        if job.id not in self.jobs:
                            self.jobs[job.id] = job
                            self.sent[family(job)].append((place, line.at, job))
                case Started():
                    self.starts[line.job].append(At(place, line))
                case Ended():
                    self.ends[line.job, line.token] = (place, line.ok)

    def sentences(self) -> Iterator[str]:
        """Say how each promise was broken; nothing if all were kept."""
        yield from (f"tables: {said}" for said in self.final.complaints)
        for id in self.starts.keys() - self.jobs.keys():
            yield f"job {id} was started and never submitted"
        for id, job in self.jobs.items():
            yield from self._ended_well(id, job.kind)
            yield from self._run_again(id)
        yield from self._run_at_once()
        yield from self._run_back()
        for sent in self.sent.values():
            checker = Checker(JUDGED)
            try:
                for _, event in sorted(self._history(sent), key=lambda one: one[0]):
                    checker.observe(event)
            except Violation as violation:
                yield str(violation)

    def _ended_well(self, id: UUID, kind: str) -> Iterator[str]:
        view = self.final.views.get(id)
        wanted = JobState.DEAD if kind in DOOMED else JobState.DONE
        if view is None or view.state is not wanted:
            yield f"{kind} {id} is {view and view.state}, not {wanted}: {view and view.reason}"
        elif wanted is JobState.DONE and len(self.final.settled[id]) != 1:
            yield f"{kind} {id} had its effect under the leases {self.final.settled[id]}"
        elif wanted is JobState.DONE and not self.ends.get((id, self.final.settled[id][0])):
            yield f"{kind} {id} is done under {self.final.settled[id]}, and did not come to its end"

    def _run_again(self, id: UUID) -> Iterator[str]:
        """A job runs again only when it failed, or something happened to its worker."""
        starts = self.starts[id]
        for before, after in itertools.pairwise(starts):
            _, ok = self.ends.get((id, before.line.token), (0, True))
            if ok and not any(
                one.at < after.line.at
                and (
                    one.struck in (before.line.pid, after.line.pid)
                    or (one.struck is None and one.at > before.line.at - TROUBLE_SECONDS)
                )
                for one in self.struck
            ):
                yield f"job {id} ran under {before.line.token} and {after.line.token} for no reason"

    def _run_at_once(self) -> Iterator[str]:
        """Under a lease of a key, a job begins when the one before it has ended."""
        running: dict[tuple[str, int], list[At]] = defaultdict(list)
        for id, starts in self.starts.items():
            for start in starts if id in self.jobs and self.jobs[id].key else ():
                running[self.jobs[id].key or "", start.line.token].append(start)
        for (key, token), starts in running.items():
            starts.sort(key=lambda one: one.place)
            for before, after in itertools.pairwise(starts):
                place, ok = self.ends.get((before.line.job, token), (after.place, False))
                if place >= after.place or not ok:
                    yield f"{after.line.job} of {key} began before {before.line.job} was done"

    def _run_back(self) -> Iterator[str]:
        """Where nothing is replayed, no job of a key begins once its successor has begun. What
        begins under a lease that is lost by then does not count: it settles nothing.
        """
        for key, sent in self.sent.items():
            jobs = [job.id for *_, job in sent if job.queue == STRICT]
            numbered = [(one, number) for number, id in enumerate(jobs) for one in self.starts[id]]
            newest, token = -1, 0
            for start, number in sorted(numbered, key=lambda one: one[0].place):
                if start.line.token < token:
                    continue
                if number < newest:
                    yield f"{start.line.job} of {key} began again after its successor"
                newest, token = number, start.line.token

    def _history(
        self, sent: list[tuple[int, float, NewJob]]
    ) -> Iterator[tuple[float, history.Event]]:
        runs: dict[tuple[int, str | UUID], list[At]] = defaultdict(list)
        for place, at, job in sent:
            yield place, history.Accepted(at=time_of(at), jobs=[job], tickets=[Ticket(job.id)])
            for start in self.starts[job.id]:
                runs[start.line.token, job.key or job.id].append(start)
        kept: dict[str | UUID, list[tuple[int, list[At]]]] = defaultdict(list)
        for starts in runs.values():
            starts.sort(key=lambda one: one.place)
        for (token, lane), starts in sorted(runs.items(), key=lambda one: one[1][0].place):
            settles = any(token in self.final.settled.get(one.line.job, ()) for one in starts)
            newest = max((other for other, _ in kept[lane]), default=0)
            if token > newest or settles:  # else it begins under a lease that is lost
                kept[lane].append((token, starts))
        for leases in kept.values():
            until = [time_of(starts[0].line.at) for _, starts in leases[1:]]
            for (token, starts), end in zip(leases, [*until, END], strict=True):
                place, began_at = starts[0].place, time_of(starts[0].line.at)
                yield place - 0.2, history.TakenBack(at=began_at, reclaimed=Reclaimed())
                yield place, self._claimed(token, starts, end)
        for _, _, job in sent:
            yield from self._settled(job)
        yield from self._looked_at([job.id for _, _, job in sent])

    def _claimed(self, token: int, starts: list[At], until: datetime) -> history.Event:
        """A lease of all that began under it, over when the lane's next lease begins."""
        jobs = [leased(self.jobs[one.line.job], place) for place, one in enumerate(starts)]
        lease = lease_of(token, self.jobs[starts[0].line.job], until)
        return history.Claimed(
            at=time_of(starts[0].line.at),
            queue=lease.queue,
            worker=str(starts[0].line.pid),
            jobs_max=len(jobs),
            suspects_max=len(jobs),
            kinds=None,
            claims=[Claim(lease, jobs)],
        )

    def _settled(self, job: NewJob) -> Iterator[tuple[float, history.Event]]:
        """A job that is done was settled when its handler had ended; a dead one, after its last."""
        state = self.final.views[job.id].state if job.id in self.final.views else None
        verdict: Verdict
        if state is JobState.DONE:
            verdict, [token, *_] = Done(), self.final.settled[job.id] or [0]
            place = self.ends.get((job.id, token), (0, False))[0]
        elif state is JobState.DEAD and self.starts[job.id]:
            verdict, newest = Bury("dead"), max(self.starts[job.id], key=lambda one: one.line.token)
            token = newest.line.token
            place = self.ends.get((job.id, token), (newest.place, False))[0]
        else:
            return
        settlement = Settlement(lease_of(token, job), [Outcome(leased(job, 0), verdict)])
        at = time_of(self.starts[job.id][-1].line.at) if self.starts[job.id] else time_of(0.0)
        yield place + 0.2, history.Settled(at=at, worker="?", settlements=[settlement])

    def _looked_at(self, jobs: list[UUID]) -> Iterator[tuple[float, history.Event]]:
        views = {id: self.final.views.get(id) for id in jobs}
        yield float("inf"), history.Audited(at=END, views=views)
        yield float("inf"), history.Drained(at=END)


def family(job: NewJob) -> str:
    return job.key or str(next(iter(job.after), job.id))


def time_of(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def lease_of(token: int, job: NewJob, until: datetime = END) -> Lease:
    lane = None if job.key is None else 1
    return Lease(token, job.queue, lane, job.key, 1, 1, until)


def leased(job: NewJob, place: int) -> LeasedJob:
    return LeasedJob(
        id=job.id,
        queue=job.queue,
        key=job.key,
        kind=job.kind,
        payload=job.payload,
        priority=job.priority,
        round=job.round,
        attempts_max=job.attempts_max,
        timeout_seconds=job.timeout_seconds,
        enqueued_at=time_of(0.0),
        position=place + 1,
        attempt=1,
    )
