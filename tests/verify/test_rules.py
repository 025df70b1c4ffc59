"""Every rule goes red for a history that breaks its promise, and for no other."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from uuid import UUID

import pytest

from inturn.model.job import JobState
from inturn.verify import history
from inturn.verify.rules import RULES
from tests.verify.story import SETTINGS, A, B, C, Story, job, prolong, sound, stopped_at_start


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
    story.submit(job(C, key=None))
    story.end(C, JobState.CANCELLED)
    yield "causes", story

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

    story = sound()
    story.run("worker-1-1", 1, A)
    yield "runs", story

    story = sound()
    story.run("worker-1-1", 9, A)
    yield "runs", story

    story = Story()
    story.submit(job(A))
    story.run("worker-1-1", 1, A)
    story.claim("worker-1-1", 1, (A, 1, 1))
    story.settle("worker-1-1", 1, A)
    story.end(A)
    yield "runs", story

    for ok, ends in ((False, True), (True, False)):
        story = Story()
        story.submit(job(A))
        story.claim("worker-1-1", 1, (A, 1, 1))
        story.run("worker-1-1", 1, A, ok=ok, ends=ends)
        story.settle("worker-1-1", 1, A)
        story.end(A)
        yield "runs", story

    story = Story()
    story.submit(job(A))
    story.claim("worker-1-1", 1, (A, 1, 1))
    story.settle("worker-1-1", 1, A)
    story.run("worker-1-1", 1, A)
    story.end(A)
    yield "runs", story

    story = Story()
    story.submit(job(A, kind="effect"))
    story.claim("worker-1-1", 1, (A, 1, 1))
    story.settle("worker-1-1", 1, A)
    story.end(A)
    story.effects.append((A, 1))
    yield "runs", story

    story = sound()
    story.submit(job(C, key=None))
    story.say("producer-1-1", history.Cancelled(job=C, state="cancelled"))
    story.claim("worker-1-1", 9, (C, 3, 1), key=None)
    story.end(C, JobState.CANCELLED)
    yield "runs", story

    story = Story()
    story.submit(job(A), job(B))
    story.claim("worker-1-1", 1, (A, 1, 1))
    story.run("worker-1-1", 1, A, ends=False)
    story.now -= 0.9
    story.claim("worker-2-1", 2, (B, 2, 1))
    story.now -= 0.9
    story.run("worker-2-1", 2, B, ends=False)
    yield "at once", story

    yield "at once", stopped_at_start(starts_before=1)
    yield "at once", stopped_at_start(late_seconds=0.5)

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
    story.now -= 0.5
    story.run("worker-1-1", 1, A)
    yield "suspects", story

    story = Story()
    story.submit(job(A))
    story.claim("worker-1-1", 1, (A, 1, 2))
    yield "charges", story

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


def test_a_job_that_a_sweep_buried_has_not_ended_by_a_settlement_that_came_later() -> None:
    """Its worker stood still, and was refused when it went on, after a connection was lost."""
    story = Story()
    story.submit(job(A, attempts_max=1))
    story.submit(job(B))
    story.claim("worker-1-1", 1, (A, 1, 1), alone=True)
    story.say("run", history.Fault(name="stop-worker", target="worker-1-1"))
    story.now += 5.0
    story.say("worker-2-1", history.Reclaimed(leases=1, suspects=0, buried=1))
    story.done("worker-2-1", 2, B, 2)
    story.say("run", history.Mended(name="stop-worker", target="worker-1-1"))
    story.run("worker-1-1", 1, A, ok=False)
    story.say("run", history.Fault(name="kill-backend", target="server"))
    story.settle("worker-1-1", 1, A, "bury", answer=False)
    story.say("worker-1-1", history.Refused(call=story.calls, error="LeaseLost"))
    story.end(A, JobState.DEAD, "its worker died once while running it alone")
    assert "order" not in story.broken()
    story.end(A, JobState.DEAD, "failed: no such article")
    assert "order" in story.broken()


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


def test_a_handler_that_settled_and_was_killed_is_not_running_any_more() -> None:
    """It commits its effect and its end together, and may die before it writes that it ended."""
    story = Story()
    story.submit(job(A, kind="effect"), job(B))
    story.claim("worker-1-1", 1, (A, 1, 1))
    story.now -= 0.9
    story.run("worker-1-1", 1, A, ends=False)
    story.now -= 0.9
    story.settle("worker-1-1", 1, A, answer=False)
    story.effects.append((A, 1))
    story.end(A)
    story.now -= 0.9
    story.done("worker-2-1", 2, B, 2)
    assert story.broken() == set()


def test_what_a_worker_was_about_to_start_when_it_was_stopped_is_held_against_nobody() -> None:
    assert not stopped_at_start().broken()


def test_a_worker_that_stood_still_past_its_lease_may_still_run() -> None:
    story = Story()
    story.submit(job(A))
    story.claim("worker-1-1", 1, (A, 1, 1))
    story.run("worker-1-1", 1, A, ends=False)
    story.now += 3.0
    story.done("worker-2-1", 2, A)
    story.say("worker-1-1", history.Ended(job=A, token=1, ok=True))
    assert story.broken() == set()
