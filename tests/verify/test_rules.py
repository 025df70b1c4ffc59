"""Every rule goes red for a history that breaks its promise, and for no other."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from uuid import UUID

import msgspec
import pytest

from inturn.model.job import JobState
from inturn.verify import history
from inturn.verify.final import Final, FinalJob
from inturn.verify.ledger import Ledger
from inturn.verify.plan import Settings
from inturn.verify.recovery import recoveries
from inturn.verify.report import late
from inturn.verify.rules import RULES, judge

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


def sound() -> Story:
    """Two jobs of a key, one after the other."""
    story = Story()
    story.submit(job(A))
    story.submit(job(B))
    story.done("worker-1-1", 1, A, 1)
    story.done("worker-2-1", 2, B, 2)
    return story


def test_a_sound_story_breaks_nothing() -> None:
    assert sound().broken() == set()


def stories() -> Iterator[tuple[str, Story]]:
    """Yield stories, each with the rule that it breaks."""
    story = sound()
    del story.jobs[B]
    yield "accounted", story

    story = sound()
    story.submit(job(C, key=None))
    story.end(C)
    yield "accounted", story

    story = sound()
    story.submit(job(C, key=None))
    story.say("producer-1-1", history.Cancelled(job=C, state="cancelled"))
    story.claim("worker-1-1", 9, (C, 3, 1), key=None)
    story.settle("worker-1-1", 9, C, key=None)
    story.end(C)
    yield "accounted", story

    story = sound()
    story.end(B, JobState.DEAD, "it failed")
    yield "accounted", story

    story = sound()
    story.submit(job(C, key=None))
    story.end(C, JobState.WAITING)
    yield "accounted", story

    story = sound()
    story.is_drained = False
    yield "drained", story

    story = sound()
    story.check = ("lane 7 has a hole.",)
    yield "tables", story

    story = sound()
    story.settle("worker-3-1", 1, A)
    yield "once", story

    story = sound()
    story.claim("worker-3-1", 3, (A, 1, 1))
    yield "once", story

    story = sound()
    story.claim("worker-3-1", 3, (B, 3, 1))
    yield "once", story

    story = sound()
    story.submit(job(C))
    story.claim("worker-1-1", 3, (C, 3, 1))
    story.now += 5.0
    story.done("worker-2-1", 4, C, 4)
    yield "once", story

    story = Story()
    story.submit(job(A, kind="effect"))
    story.done("worker-1-1", 1, A)
    yield "effects", story

    story = Story()
    story.submit(job(A, kind="effect"))
    story.effects = [(A, 1)]
    story.end(A, JobState.DEAD, "it failed")
    yield "effects", story

    story = Story()
    story.submit(job(A, kind="effect"))
    story.done("worker-1-1", 1, A)
    story.effects = [(A, 1), (A, 1)]
    yield "effects", story

    story = Story()
    story.submit(job(A))
    story.submit(job(B))
    story.done("worker-1-1", 1, B, 1)
    story.done("worker-1-1", 2, A, 2)
    yield "places", story

    story = Story()
    story.submit(job(A), position=2)
    story.submit(job(B), position=1)
    yield "places", story

    story = Story()
    story.submit(job(A), job(B))
    story.claim("worker-1-1", 1, (A, 1, 1), (B, 2, 1))
    story.run("worker-1-1", 1, B)
    story.run("worker-1-1", 1, A)
    story.settle("worker-1-1", 1, A)
    story.settle("worker-1-1", 1, B)
    story.end(A)
    story.end(B)
    yield "order", story

    story = Story()
    story.submit(job(A), job(B))
    story.claim("worker-1-1", 1, (A, 1, 1), (B, 2, 1))
    story.run("worker-1-1", 1, A, ok=False)
    story.run("worker-1-1", 1, B)
    yield "order", story

    story = Story()
    story.submit(job(A), job(B))
    story.done("worker-1-1", 1, B, 2)
    story.done("worker-1-1", 2, A, 1)
    yield "order", story

    story = Story()
    story.submit(job(A), job(B))
    story.claim("worker-1-1", 1, (A, 1, 1))
    story.claim("worker-2-1", 2, (B, 2, 1))
    yield "one lease", story

    story = Story()
    story.submit(job(A), job(B))
    story.claim("worker-1-1", 1, (A, 1, 1), (B, 2, 1))
    prolong(story, 1)
    story.settle("worker-1-1", 1, A)
    story.claim("worker-2-1", 2, (B, 2, 1))
    yield "one lease", story

    story = Story()
    story.submit(job(A))
    story.claim("worker-1-1", 1, (A, 1, 1))
    story.now += 5.0
    story.claim("worker-2-1", 2, (A, 1, 1), alone=True)
    story.settle("worker-1-1", 1, A)
    story.end(A)
    yield "fence", story

    story = Story()
    story.submit(job(A))
    for token in (1, 2):
        story.claim("worker-1-1", token, (A, 1, 1))
        story.settle("worker-1-1", token, A, "retry")
    yield "attempts", story

    story = Story()
    story.submit(job(A))
    story.claim("worker-1-1", 1, (A, 1, 3))
    yield "attempts", story

    story = Story()
    story.submit(job(A))
    story.claim("worker-1-1", 1, (A, 1, 2))
    story.settle("worker-1-1", 1, A, "retry")
    story.end(A)
    yield "burying", story

    story = Story()
    story.submit(job(A))
    story.claim("worker-1-1", 1, (A, 1, 1))
    story.end(A, JobState.DEAD, "its worker died 2 times while running it alone")
    yield "suspects", story

    story = Story()
    story.submit(job(A), job(B))
    for token in (1, 2):
        story.claim("worker-1-1", token, (A, 1, 1), (B, 2, 1))
    story.end(A, JobState.DEAD, "its worker died 2 times while running it alone")
    yield "suspects", story

    story = Story()
    story.submit(job(A))
    for token in (1, 2):
        story.claim("worker-1-1", token, (A, 1, 1), alone=True)
        story.settle("worker-1-1", token, A, "retry")
    story.end(A, JobState.DEAD, "its worker died 2 times while running it alone")
    yield "suspects", story

    story = sound()
    story.submit(job(C, key=None))
    story.claim("worker-1-1", 8, (C, 1, 1), key=None, alone=True)
    story.run("worker-1-1", 8, C, ends=False)
    story.run("worker-1-1", 1, A)
    yield "suspects", story

    story = Story()
    story.submit(job(A), job(B, key=None, after=(A,)))
    story.claim("worker-1-1", 2, (B, 1, 1), key=None)
    story.run("worker-1-1", 2, B)
    story.done("worker-1-1", 3, A)
    yield "after", story

    story = Story()
    story.submit(job(A, queue=SETTINGS.rounds, round=1))
    story.done("worker-1-1", 1, A)
    yield "gates", story

    story = Story()
    story.submit(job(A, queue=SETTINGS.rounds, key=None))
    moved = history.GateMoved(asked_at=story.now + 0.9, queue=SETTINGS.rounds, before=0, round=1)
    story.say("run", moved)
    story.done("worker-1-1", 1, A)
    yield "gates", story

    story = Story()
    story.submit(job(A, delay_seconds=60.0))
    story.done("worker-1-1", 1, A)
    yield "delays", story

    story = Story()
    story.submit(job(A, dedupe="d"))
    story.submit(job(B, dedupe="d"))
    yield "dedupe", story

    story = sound()
    story.submit(job(C), job(UUID(int=4)), answer=False)
    story.end(C, JobState.WAITING)
    yield "batches", story

    story = sound()
    story.submit(job(C), answer=False)
    story.say("producer-1-1", history.Refused(call=story.calls, error="QueueFull"))
    story.end(C, JobState.WAITING)
    yield "batches", story

    story = sound()
    story.ends = {"worker-1-1": 1}
    yield "processes", story

    story = Story()
    story.submit(job(A))
    story.claim("worker-1-1", 1, (A, 1, 1))
    story.say("run", history.Fault(name="kill-worker", target="worker-1-1"))
    story.now += 120.0
    story.done("worker-2-1", 2, A)
    yield "recovery", story


STORIES = list(stories())


@pytest.mark.parametrize(
    ("rule", "story"), STORIES, ids=[f"{n}-{rule}" for n, (rule, _) in enumerate(STORIES)]
)
def test_a_story_that_breaks_a_promise_is_told_by_its_rule(rule: str, story: Story) -> None:
    assert rule in story.broken()


def test_every_rule_was_seen_to_fail() -> None:
    assert {rule for rule, _ in STORIES} == {*RULES, "recovery"}


def test_a_lost_answer_is_held_against_nobody() -> None:
    """A worker dies in the middle of a settle: another may run the job again, or nobody may."""
    story = sound()
    story.submit(job(C))
    story.claim("worker-1-1", 3, (C, 3, 1))
    story.run("worker-1-1", 3, C)
    story.settle("worker-1-1", 3, C, answer=False)
    story.end(C)
    assert story.broken() == set()
    story.now += 5.0
    story.done("worker-2-1", 4, C, 3)
    assert story.broken() == set()


def test_a_job_runs_again_after_a_lost_lease_and_only_its_last_holder_settles() -> None:
    story = sound()
    story.submit(job(C))
    story.claim("worker-1-1", 3, (C, 3, 1))
    story.run("worker-1-1", 3, C)
    story.now += 5.0
    story.claim("worker-2-1", 4, (C, 3, 1), alone=True)
    story.settle("worker-1-1", 3, C, answer=False)
    story.say("worker-1-1", history.Refused(call=story.calls, error="LeaseLost"))
    story.run("worker-2-1", 4, C)
    story.settle("worker-2-1", 4, C)
    story.end(C)
    assert story.broken() == set()


def test_a_settle_that_is_refused_after_a_lost_connection_may_have_happened() -> None:
    """The store settles again by itself, and finds the lease gone: the first time it did it."""
    story = sound()
    story.submit(job(C))
    story.claim("worker-1-1", 3, (C, 3, 1))
    story.run("worker-1-1", 3, C)
    story.settle("worker-1-1", 3, C, answer=False)
    refused = history.Refused(call=story.calls, error="LeaseLost")
    story.end(C)
    story.say("worker-1-1", refused)
    assert story.broken() == {"accounted"}
    story.said.pop()
    story.say("run", history.Fault(name="cut-connection", target="proxy"))
    story.say("worker-1-1", refused)
    assert story.broken() == set()


def test_a_worker_that_is_told_to_stop_while_it_still_begins_does_not_end_by_itself() -> None:
    story = sound()
    story.ends = {"worker-1-2": -signal.SIGTERM}
    assert story.broken() == set()


def test_a_lease_that_was_prolonged_when_it_had_run_out_may_be_taken_back_at_that_moment() -> None:
    story = Story()
    story.submit(job(A))
    story.claim("worker-1-1", 1, (A, 1, 1))
    story.now += 5.0
    prolong(story, 1)
    story.claim("worker-2-1", 2, (A, 1, 1))
    assert "one lease" not in story.broken()


@pytest.mark.parametrize(("waits", "times"), [(0.0, 1), (5.0, 2)], ids=["in time", "and again"])
def test_a_lease_that_was_prolonged_is_its_holders(waits: float, times: int) -> None:
    story = Story()
    story.submit(job(A))
    story.claim("worker-1-1", 1, (A, 1, 1))
    story.now += waits
    for _ in range(times):
        prolong(story, 1)
    story.claim("worker-2-1", 2, (A, 1, 1))
    assert "one lease" in story.broken()


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "under way"])
def test_a_lease_is_not_prolonged_while_a_settle_under_it_is_under_way(answered: bool) -> None:
    story = Story()
    story.submit(job(A), job(B))
    story.claim("worker-1-1", 1, (A, 1, 1), (B, 2, 1))
    story.now -= 0.9
    story.settle("worker-1-1", 1, A, answer=answered)
    story.now -= 0.9
    prolong(story, 1)
    story.say("worker-1-1", history.Settled(call=story.calls))
    story.claim("worker-2-1", 2, (B, 2, 1))
    assert ("one lease" in story.broken()) is answered


def test_a_wrong_clock_excuses_what_it_decides() -> None:
    story = Story()
    story.submit(job(A, delay_seconds=60.0))
    story.say("worker-1-1", history.Fault(name="clock-step", target="worker-1-1"))
    story.done("worker-1-1", 1, A)
    assert story.broken() == set()
    story.say("worker-1-1", history.Fault(name="clock-step", target="worker-1-1"))  # once more
    story.say("worker-1-1", history.Mended(name="clock-step", target="worker-1-1"))
    assert story.broken() == set()


def test_time_that_something_stood_still_is_no_recovery_time() -> None:
    story = Story()
    story.submit(job(A))
    story.claim("worker-1-1", 1, (A, 1, 1))
    story.say("run", history.Fault(name="kill-worker", target="worker-1-1"))
    story.say("run", history.Fault(name="stop-server", target="server"))
    story.now += 120.0
    story.say("run", history.Mended(name="stop-server", target="server"))
    story.done("worker-2-1", 2, A)
    assert story.broken() == set()
    [found] = recoveries(story.ledger())
    assert found.seconds < 10.0
