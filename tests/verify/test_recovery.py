"""How long the jobs of a lost worker may wait, and what they may wait for besides."""

from __future__ import annotations

from uuid import UUID

import pytest

from inturn.verify import history
from inturn.verify.recovery import recoveries
from tests.verify.story import A, B, C, Story, job, prolong

KILLED = history.Fault(name="kill-worker", target="worker-1-1")
STOPPED = history.Fault(name="stop-worker", target="worker-1-1", detail="4.00 s")
RESUMED = history.Mended(name="stop-worker", target="worker-1-1")
LONG = 120.0  # longer than any bound of these stories
SHORT = 15.0  # shorter, though not a few times over


def lost(*, key: str | None, fault: history.Fault = KILLED) -> Story:
    """A worker is lost with two jobs in hand; a third job is in nobody's."""
    story = Story()
    story.submit(job(A, key=key), job(B, key=key), job(C, key=None))
    story.claim("worker-1-1", 1, (A, 1, 1), (B, 2, 1), key=key)
    story.say("run", fault)
    return story


def give(
    story: Story, token: int, given: UUID, *, after: float, key: str | None, alone: bool = True
) -> None:
    """Let a job be given to another worker after a while, and fail there."""
    story.now += after
    story.claim("worker-2-1", token, (given, 1 if given == A else 2, token), key=key, alone=alone)
    story.settle("worker-2-1", token, given, "retry", key=key)


def is_late(story: Story) -> bool:
    return "recovery" in story.broken()


@pytest.mark.parametrize("key", [None, "k"], ids=["without a key", "of a key"])
@pytest.mark.parametrize("late", [A, B, None], ids=["the first", "the second", "none"])
def test_every_job_of_a_killed_worker_is_given_out_again_in_time(
    key: str | None, late: UUID | None
) -> None:
    story = lost(key=key)
    for token, given in ((2, A), (3, B)):
        give(story, token, given, after=LONG if given == late else 1.0, key=key)
    assert is_late(story) is (late is not None)


def test_a_suspect_waits_for_those_before_it() -> None:
    story = lost(key=None)
    give(story, 2, A, after=1.0, key=None)
    for token in range(3, 12):
        give(story, token, C, after=SHORT, key=None)
    assert not is_late(story)
    give(story, 12, B, after=SHORT, key=None)
    assert not is_late(story)


@pytest.mark.parametrize(("key", "is_excused"), [("k", True), (None, False)])
def test_only_in_its_own_lane_a_job_waits_for_one_that_is_no_suspect_any_more(
    key: str | None, is_excused: bool
) -> None:
    story = lost(key=key)
    give(story, 2, A, after=1.0, key=key)
    for token in range(3, 12):
        give(story, token, A, after=SHORT, key=key, alone=False)
    give(story, 12, B, after=SHORT, key=key)
    assert is_late(story) is not is_excused


@pytest.mark.parametrize("waits", [SHORT, LONG])
def test_a_suspect_whose_worker_was_killed_comes_back_too(waits: float) -> None:
    story = Story()
    story.submit(job(A))
    story.claim("worker-1-1", 1, (A, 1, 1), alone=True)
    story.say("run", KILLED)
    give(story, 2, A, after=waits, key="k")
    assert is_late(story) is (waits == LONG)


@pytest.mark.parametrize("waits", [SHORT, LONG])
def test_the_jobs_of_a_worker_that_stood_still_are_given_out_again_in_time(waits: float) -> None:
    story = lost(key=None, fault=STOPPED)
    story.now += LONG
    story.say("run", RESUMED)
    for token, given in ((2, A), (3, B)):
        give(story, token, given, after=waits, key=None)
    assert is_late(story) is (waits == LONG)


def test_a_worker_that_holds_on_after_it_stood_still_has_not_lost_its_jobs() -> None:
    story = lost(key="k", fault=STOPPED)
    story.say("run", RESUMED)
    prolong(story, 1)
    for token, given in ((2, A), (3, B)):
        give(story, token, given, after=LONG, key="k")
    assert not is_late(story)


def test_a_worker_that_stood_still_and_then_died_is_lost_when_it_dies() -> None:
    story = lost(key=None, fault=STOPPED)
    story.say("run", RESUMED)
    story.now += LONG
    story.say("run", KILLED)
    for token, given in ((2, A), (3, B)):
        give(story, token, given, after=1.0, key=None)
    assert not is_late(story)


def test_a_job_that_others_had_before_its_worker_died_is_not_its_any_more() -> None:
    story = lost(key=None, fault=STOPPED)
    for token, given in ((2, A), (3, B)):
        give(story, token, given, after=1.0, key=None)
    story.say("run", RESUMED)
    story.say("run", KILLED)
    give(story, 4, A, after=LONG, key=None, alone=False)
    assert not is_late(story)


def test_time_that_something_stood_still_is_no_recovery_time() -> None:
    story = Story()
    story.submit(job(A))
    story.claim("worker-1-1", 1, (A, 1, 1))
    story.say("run", KILLED)
    story.say("run", history.Fault(name="stop-server", target="server"))
    story.now += LONG
    story.say("run", history.Mended(name="stop-server", target="server"))
    story.done("worker-2-1", 2, A)
    assert story.broken() == set()
    [found] = recoveries(story.ledger())
    assert found.seconds < 10.0
