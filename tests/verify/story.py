"""Stories: histories made up, told in a few words, for rules to be asked about."""

from __future__ import annotations

from uuid import UUID

import msgspec

from inturn.model.job import JobState
from inturn.verify import history
from inturn.verify.final import Final, FinalJob
from inturn.verify.ledger import Ledger
from inturn.verify.plan import Settings
from inturn.verify.recovery import recoveries
from inturn.verify.report import late
from inturn.verify.rules import judge

SETTINGS = Settings(run="r", store="", folder="", seed=1)
A, B, C = (UUID(int=number) for number in (1, 2, 3))
LANE = 7


class Story:
    """A history told in a few words; every step is a second after the one before it."""

    def __init__(self) -> None:
        self.said: list[tuple[str, history.Event]] = []
        self.now = 100.0
        self.calls = 0
        self.jobs: dict[UUID, FinalJob] = {}
        self.effects: list[tuple[UUID, int]] = []
        self.check: tuple[str, ...] = ()
        self.ends: dict[str, int] = {}
        self.is_drained = True

    def say(self, who: str, event: history.Event) -> None:
        self.now += 1.0
        self.said.append((who, msgspec.structs.replace(event, at=self.now)))

    def submit(
        self, *jobs: history.Planned, answer: bool = True, position: int | None = None
    ) -> None:
        self.calls += 1
        self.say("producer-1-1", history.Submitting(call=self.calls, jobs=jobs))
        if not answer:
            return
        lane = None if position is None else LANE
        places = tuple(history.Place(job.id, lane, position, False) for job in jobs)
        self.say("producer-1-1", history.Accepted(call=self.calls, places=places))

    def claim(
        self,
        who: str,
        token: int,
        *jobs: tuple[UUID, int, int],
        key: str | None = "k",
        alone: bool = False,
    ) -> None:
        lease = history.Leased(token, None if key is None else LANE, key, alone, jobs)
        self.say(
            who,
            history.Claimed(
                asked_at=self.now + 0.9, queue=SETTINGS.queue, lease_seconds=2.0, leases=(lease,)
            ),
        )

    def run(self, who: str, token: int, job: UUID, *, ok: bool = True, ends: bool = True) -> None:
        self.say(who, history.Started(job=job, token=token, attempt=1, pid=1))
        if ends:
            self.say(who, history.Ended(job=job, token=token, ok=ok))

    def settle(
        self,
        who: str,
        token: int,
        job: UUID,
        said: history.Said = "done",
        *,
        answer: bool = True,
        key: str | None = "k",
    ) -> None:
        self.calls += 1
        verdict = history.Verdict(job, token, None if key is None else LANE, said)
        self.say(who, history.Settling(call=self.calls, verdicts=(verdict,)))
        if answer:
            self.say(who, history.Settled(call=self.calls))

    def done(self, who: str, token: int, job: UUID, position: int = 1) -> None:
        """Let a job be claimed, run and settled, and be done in the end."""
        self.claim(who, token, (job, position, 1))
        self.run(who, token, job)
        self.settle(who, token, job)
        self.end(job)

    def end(self, job: UUID, state: JobState = JobState.DONE, reason: str | None = None) -> None:
        self.jobs[job] = FinalJob(state, 1, reason)

    def ledger(self) -> Ledger:
        final = Final(
            settings=SETTINGS,
            store="sqlite",
            faults=(),
            is_drained=self.is_drained,
            is_interrupted=False,
            seconds=1.0,
            jobs=self.jobs,
            effects=tuple(self.effects),
            check=self.check,
            ends=self.ends,
        )
        return Ledger(self.said, final)

    def broken(self) -> set[str]:
        """Return the rules that this story breaks."""
        ledger = self.ledger()
        found = {one.rule for one in judge(ledger)}
        return found | {one.rule for one in late(list(recoveries(ledger)))}


def job(id: UUID, **about: object) -> history.Planned:
    fields: dict[str, object] = {
        "id": id,
        "kind": "plain",
        "queue": SETTINGS.queue,
        "key": "k",
        "round": 0,
        "delay_seconds": 0.0,
        "attempts_max": 2,
        "dedupe": None,
        "after": (),
    }
    return history.Planned(**(fields | about))  # type: ignore[arg-type]


def prolong(story: Story, token: int) -> None:
    kept = ((token, LANE),)
    story.say(
        "worker-1-1", history.Extended(asked_at=story.now + 0.9, lease_seconds=9.0, kept=kept)
    )


def stopped_at_start(*, starts_before: int = 0, late_seconds: float = 0.0) -> Story:
    """A worker is stopped with a job in hand, and starts it when another has the key's next."""
    story = Story()
    story.submit(job(A))
    story.submit(job(B))
    story.submit(job(C, key=None))
    story.claim("worker-1-1", 1, (C, 3, 1), key=None)
    story.claim("worker-1-1", 2, (A, 1, 1))
    story.say("run", history.Fault(name="stop-worker", target="worker-1-1", detail="8 s"))
    story.now += 3.0
    story.done("worker-2-1", 3, A)
    story.claim("worker-2-1", 4, (B, 2, 1))
    prolong(story, 4)
    story.run("worker-2-1", 4, B, ends=False)
    story.say("run", history.Mended(name="stop-worker", target="worker-1-1"))
    for _ in range(starts_before):
        story.now -= 0.999
        story.run("worker-1-1", 1, C, ends=False)
    story.now -= 0.999 - late_seconds
    story.run("worker-1-1", 2, A)
    story.say("worker-2-1", history.Ended(job=B, token=4, ok=True))
    story.settle("worker-2-1", 4, B)
    story.end(B)
    story.done("worker-2-1", 5, C)
    return story


def sound() -> Story:
    """Two jobs of a key, one after the other."""
    story = Story()
    story.submit(job(A))
    story.submit(job(B))
    story.done("worker-1-1", 1, A, 1)
    story.done("worker-2-1", 2, B, 2)
    return story
