"""A job that dies or is cancelled has a cause, and no more is counted against it than may be."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import msgspec
import pytest

from inturn.model.job import JobState
from inturn.verify import history
from inturn.verify.final import FinalJob
from tests.verify.story import A, B, C, Story, job

W1, W2, W3 = "worker-1-1", "worker-2-1", "worker-3-1"


def failed(*, attempts_max: int, said: history.Said, answer: bool = True) -> Story:
    """A job is run once, and fails."""
    story = Story()
    story.submit(job(A, attempts_max=attempts_max))
    story.claim(W1, 1, (A, 1, 1))
    story.run(W1, 1, A, ok=False)
    story.settle(W1, 1, A, said, answer=answer)
    return story


def poisoned(*, alone: int, attempts_max: int = 2) -> Story:
    """A job kills its worker in company, and then some more while it is alone."""
    story = Story()
    story.submit(job(A, attempts_max=attempts_max))
    story.claim(W1, 1, (A, 1, 1))
    story.now -= 0.9
    story.say("run", history.Fault(name="kill-worker", target=W1))
    for number in range(1, alone + 1):
        story.now += 3.0
        story.claim(W2, 1 + number, (A, 1, number), alone=True)
    story.now += 3.0
    return story


def finish(story: Story, who: str, token: int, id: UUID) -> None:
    """Let a job that was claimed be run and settled."""
    story.run(who, token, id)
    story.settle(who, token, id)
    story.end(id)


def die(story: Story, id: UUID, attempts: int, reason: str) -> None:
    story.jobs[id] = FinalJob(JobState.DEAD, attempts, reason)


def died(crashes: int) -> str:
    often = "once" if crashes == 1 else f"{crashes} times"
    return f"its worker died {often} while running it alone"


@pytest.mark.parametrize(("said", "answer"), [("bury", True), ("retry", True), ("bury", False)])
def test_a_job_whose_last_attempt_failed_may_be_dead(said: history.Said, answer: bool) -> None:
    story = failed(attempts_max=1, said=said, answer=answer)
    die(story, A, 1, "failed: no such article")
    assert story.broken() == set()


def test_a_job_that_waits_for_what_is_cancelled_may_be_dead() -> None:
    story = Story()
    story.submit(job(A), job(B, after=(A,)))
    story.say("producer-1-1", history.Cancelling(job=A))
    story.end(A, JobState.CANCELLED, "cancelled by its producer")
    die(story, B, 0, f"waits for job {A}, which was cancelled by its producer")
    assert story.broken() == set()


@pytest.mark.parametrize("answer", [True, False])
def test_a_job_that_waits_for_what_is_dropped_may_be_dead(answer: bool) -> None:
    """A dead letter that is not dropped may be put back, and is waited for."""
    story = failed(attempts_max=1, said="bury")
    die(story, A, 1, "failed: no such article")
    story.submit(job(B, after=(A,)))
    die(story, B, 0, f"waits for job {A}, which was dropped by verify")
    assert story.broken() == {"causes"}
    story.end(A, JobState.CANCELLED, "dropped by verify")
    if answer:
        story.say("run", history.Dropped(job=A, attempts=1, reason="failed: no such article"))
    assert story.broken() == set()


def test_a_poison_job_dies_of_crashes_at_which_it_was_alone() -> None:
    story = poisoned(alone=2)
    die(story, A, 2, died(2))
    assert story.broken() == set()


def causeless() -> Iterator[tuple[str, Story]]:
    story = failed(attempts_max=5, said="retry")
    die(story, A, 1, "failed: no answer, this time")
    yield "the first failure of five", story

    story = failed(attempts_max=5, said="bury")
    die(story, A, 1, "failed: no answer, this time")
    yield "a worker that gives up at the first of five", story

    story = failed(attempts_max=1, said="bury", answer=False)
    story.say(W1, history.Refused(call=story.calls, error="LeaseLost"))
    die(story, A, 0, "failed: no such article")
    yield "a failure that the store would not have", story

    story = Story()
    story.submit(job(A))
    die(story, A, 0, "failed: no such article")
    yield "a job that waits", story

    story = poisoned(alone=1, attempts_max=5)
    die(story, A, 1, died(1))
    yield "one crash of five", story

    story = Story()
    story.submit(job(A))
    story.submit(job(B, after=(A,)))
    story.done(W1, 1, A)
    die(story, B, 0, f"waits for job {A}, which was cancelled by ann")
    yield "what it waits for is done", story

    story = Story()
    story.submit(job(A))
    story.end(A, JobState.CANCELLED, "cancelled by ann")
    yield "nobody cancelled it", story

    story = Story()
    story.submit(job(A))
    story.say("producer-1-1", history.Cancelling(job=A))
    story.say("producer-1-1", history.Cancelled(job=A, state="running"))
    story.end(A, JobState.CANCELLED, "cancelled by its producer")
    yield "it was too late to cancel it", story

    story = Story()
    story.submit(job(A))
    story.end(A, JobState.CANCELLED, "dropped by verify")
    yield "it was no dead letter to be dropped", story


CAUSELESS = dict(causeless())


@pytest.mark.parametrize("story", CAUSELESS.values(), ids=CAUSELESS)
def test_an_end_without_a_cause_is_told(story: Story) -> None:
    assert story.broken() == {"causes"}


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_crash_in_company_does_not_count(attempt: int) -> None:
    story = poisoned(alone=0)
    story.claim(W2, 9, (A, 1, attempt), alone=True)
    finish(story, W2, 9, A)
    assert story.broken() == ({"charges"} if attempt > 1 else set())


def test_a_crash_alone_counts() -> None:
    story = poisoned(alone=1)
    story.claim(W2, 9, (A, 1, 2), alone=True)
    finish(story, W2, 9, A)
    assert story.broken() == set()


@pytest.mark.parametrize(("said", "broken"), [("release", {"charges"}), ("retry", set())])
def test_what_is_given_back_does_not_count(said: history.Said, broken: set[str]) -> None:
    story = Story()
    story.submit(job(A))
    story.claim(W1, 1, (A, 1, 1), alone=True)
    story.settle(W1, 1, A, said)
    story.claim(W2, 2, (A, 1, 2))
    finish(story, W2, 2, A)
    assert story.broken() == broken


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_failure_of_which_no_answer_came_may_count(attempt: int) -> None:
    story = failed(attempts_max=5, said="retry", answer=False)
    story.now += 5.0
    story.claim(W2, 2, (A, 1, attempt), alone=attempt == 1)
    finish(story, W2, 2, A)
    assert story.broken() == set()


def test_a_dead_letter_has_no_more_attempts_than_count() -> None:
    story = failed(attempts_max=1, said="bury")
    die(story, A, 2, "failed 2 times")
    assert story.broken() == {"charges"}


@pytest.mark.parametrize("lost", ["kill-worker", "cut-connection", None])
@pytest.mark.parametrize("attempt", [2, 3])
def test_a_crash_counts_under_a_lease_that_nobody_wrote_down(
    lost: str | None, attempt: int
) -> None:
    """There is time for two, and each needs a worker or a connection that was lost."""
    story = poisoned(alone=0, attempts_max=5)
    if lost is not None:
        story.say("run", history.Fault(name=lost, target=W2))
    story.now += 3.0
    story.claim(W3, 9, (A, 1, attempt), alone=True)
    finish(story, W3, 9, A)
    forgiven = int(lost is not None)
    assert story.broken() == ({"charges"} if attempt > 1 + forgiven else set())


@pytest.mark.parametrize(("seconds", "broken"), [(0.5, {"charges"}), (5.0, set())])
def test_a_lease_that_nobody_wrote_down_has_to_run_out_as_well(
    seconds: float, broken: set[str]
) -> None:
    story = Story()
    story.submit(job(A))
    story.claim(W1, 1, (A, 1, 1))
    story.settle(W1, 1, A, "release")
    story.say("run", history.Fault(name="kill-worker", target=W2))
    story.now += seconds - 3.0
    story.claim(W3, 9, (A, 1, 2))
    finish(story, W3, 9, A)
    assert story.broken() == broken


@pytest.mark.parametrize(("seconds", "broken"), [(0.0, {"charges"}), (3.0, set())])
def test_of_two_leases_that_nobody_wrote_down_each_has_to_run_out(
    seconds: float, broken: set[str]
) -> None:
    story = poisoned(alone=0, attempts_max=5)
    for who in (W2, "worker-4-1"):
        story.now -= 1.0
        story.say("run", history.Fault(name="kill-worker", target=who))
    story.now += seconds
    story.claim(W3, 9, (A, 1, 3), alone=True)
    finish(story, W3, 9, A)
    assert story.broken() == broken


@pytest.mark.parametrize(("token", "broken"), [(6, {"charges"}), (7, set())])
def test_a_lease_that_nobody_wrote_down_has_a_token_of_its_time(
    token: int, broken: set[str]
) -> None:
    """Those from 1 to 4 are missing as well, and were given before."""
    story = Story()
    story.submit(job(A))
    story.claim(W1, 5, (A, 1, 1))
    story.now += 3.0
    story.say("run", history.Fault(name="kill-worker", target=W2))
    story.now += 3.0
    story.claim(W3, token, (A, 1, 2), alone=True)
    finish(story, W3, token, A)
    assert story.broken() == broken


@pytest.mark.parametrize(("seconds", "broken"), [(-1.0, {"charges"}), (3.0, set())])
def test_nobody_is_alone_the_first_time(seconds: float, broken: set[str]) -> None:
    story = Story()
    story.submit(job(A))
    story.say("run", history.Fault(name="kill-worker", target=W2))
    story.now += seconds
    story.claim(W3, 9, (A, 1, 2), alone=True)
    finish(story, W3, 9, A)
    assert story.broken() == broken


@pytest.mark.parametrize(("token", "broken"), [(3, {"charges"}), (4, set())])
def test_a_lease_that_nobody_wrote_down_counts_against_one_job(
    token: int, broken: set[str]
) -> None:
    """Behind the first there is a token for one such lease, or for two."""
    story = Story()
    story.submit(job(A, key=None), job(B, key=None))
    story.claim(W1, 1, (A, 1, 1), (B, 2, 1), key=None)
    story.now += 3.0
    story.say("run", history.Fault(name="kill-worker", target=W2))
    story.now += 3.0
    for number, id in enumerate((A, B)):
        story.claim(W3, token + number, (id, 1, 2), key=None, alone=True)
        story.run(W3, token + number, id)
        story.settle(W3, token + number, id, key=None)
        story.end(id)
    assert story.broken() == broken


def test_no_lease_runs_out_in_its_time_by_a_clock_that_is_wrong() -> None:
    story = poisoned(alone=0)
    story.said.insert(2, (W1, history.Fault(name="clock-step", target=W1, at=story.said[1][1].at)))
    story.claim(W2, 9, (A, 1, 2), alone=True)
    finish(story, W2, 9, A)
    assert story.broken() == set()


def test_leases_count_in_the_order_in_which_they_were_given() -> None:
    """A worker that stood still writes down when it goes on what it was given before."""
    story = poisoned(alone=1)
    stood_still = story.said.pop()
    story.claim(W3, 9, (A, 1, 2), alone=True)
    finish(story, W3, 9, A)
    story.now += 1.0
    who, event = stood_still
    story.said.append((who, msgspec.structs.replace(event, at=story.now)))
    assert "charges" not in story.broken()


@pytest.mark.parametrize("killed", [True, False])
def test_a_crash_that_nobody_wrote_down_is_one_that_a_worker_died_of(killed: bool) -> None:
    story = poisoned(alone=1)
    if killed:
        story.say("run", history.Fault(name="kill-worker", target=W2))
    story.now += 5.0
    story.submit(job(B, key=None))
    story.done(W3, 9, B)
    die(story, A, 2, died(2))
    assert story.broken() == (set() if killed else {"suspects", "charges", "causes"})


@pytest.mark.parametrize(
    ("ends", "broken"), [(False, {"suspects"}), (True, set())], ids=["beside it", "after it"]
)
@pytest.mark.parametrize("kinds", [("plain", "plain"), ("isolated", "plain"), ("plain", "eats")])
def test_a_suspect_begins_beside_nothing_that_runs(
    kinds: tuple[str, str], ends: bool, broken: set[str]
) -> None:
    story = Story()
    story.submit(job(A, key=None, kind=kinds[0]), job(C, key=None, kind=kinds[1]))
    story.claim(W1, 1, (A, 1, 1), key=None)
    story.run(runner(kinds[0]), 1, A, ends=ends)
    story.now -= 1.5  # the lease of the first has not run out
    story.claim(W1, 2, (C, 1, 1), key=None, alone=True)
    story.run(runner(kinds[1]), 2, C, ends=False)
    story.is_drained = False
    assert story.broken() - {"drained", "accounted"} == broken


def runner(kind: str) -> str:
    """Return who writes down that a job of the first worker runs."""
    return W1 if kind == "plain" else f"child-{kind}"


@pytest.mark.parametrize("kind", ["plain", "isolated"])
def test_a_process_of_a_job_is_killed_with_its_lease_and_writes_no_end(kind: str) -> None:
    story = Story()
    story.submit(job(A, key=None, kind=kind), job(C, key=None))
    story.claim(W1, 1, (A, 1, 1), key=None)
    story.run(runner(kind), 1, A, ends=False)
    story.now += 5.0
    story.claim(W1, 2, (C, 1, 1), key=None, alone=True)
    story.run(W1, 2, C, ends=False)
    story.is_drained = False
    broken = {"suspects"} if kind == "plain" else set()
    assert story.broken() - {"drained", "accounted"} == broken


@pytest.mark.parametrize(("seconds", "broken"), [(0.5, {"suspects"}), (5.0, set())])
def test_nothing_begins_beside_a_suspect_under_its_lease(seconds: float, broken: set[str]) -> None:
    story = Story()
    story.submit(job(A, key=None), job(C, key=None))
    story.claim(W1, 1, (A, 1, 1), key=None)
    story.claim(W1, 2, (C, 1, 1), key=None, alone=True)
    story.run(W1, 2, C, ends=False)
    story.now += seconds - 1.0
    story.run(W1, 1, A)
    assert story.broken() - {"drained", "accounted"} == broken
