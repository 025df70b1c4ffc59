"""A fault that lasts ends with its process, and what comes after it is judged again.

Some faults are mended by the process that has them: should it die before, nobody says so.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inturn.verify import history
from inturn.verify.orders import SteppedClock, step_clock
from inturn.verify.recovery import Recovery, recoveries
from tests.verify.story import A, B, C, Story, job

LONG = 120.0  # longer than any bound of these stories
TARGETS = {
    "stop-worker": "worker-1-1",
    "stall": "producer-1-1",
    "full-disk": "producer-1-1",
    "clock-step": "worker-1-1",
}


def begin(story: Story, name: str) -> None:
    story.say("run", history.Fault(name=name, target=TARGETS[name]))


def kill(story: Story, who: str) -> None:
    story.say("run", history.Fault(name=f"kill-{who.partition('-')[0]}", target=who))


def come_up(story: Story, who: str) -> None:
    """Let a process be up: whoever was in its place before is dead."""
    story.say(who, history.Began(name=who, pid=1))


def be_killed(story: Story, who: str) -> None:
    kill(story, who)
    come_up(story, who.removesuffix("1") + "2")


def die_at_a_point(story: Story, who: str) -> None:
    story.say(who, history.Fault(name="kill-at", target=who, detail="before-settle"))
    come_up(story, who.removesuffix("1") + "2")


def die_unseen(story: Story, who: str) -> None:
    """Let it die, and the one after it, before that is up."""
    come_up(story, who.removesuffix("1") + "3")


def die_like_its_successor(story: Story, who: str) -> None:
    """Let it die, and the one after it be killed before that is up."""
    kill(story, who.removesuffix("1") + "2")


def leave(story: Story, who: str) -> None:
    story.say(who, history.Left())


Death = Callable[[Story, str], None]
DEATHS = (be_killed, die_at_a_point, die_unseen, die_like_its_successor, leave)
deaths = pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.__name__)


def with_dead_clock(death: Death = be_killed) -> Story:
    """A worker dies while its clock is wrong. Who is in its place is told to set it right."""
    story = Story()
    begin(story, "clock-step")
    death(story, "worker-1-1")
    story.say("worker-1-2", history.Mended(name="clock-step", target="worker-1-2"))
    return story


def lease_twice(story: Story, *, between: Callable[[Story], None] | None = None) -> None:
    """Let a key be leased to two workers within a second, each of which starts a job of it."""
    story.submit(job(A), job(B))
    story.claim("worker-2-1", 1, (A, 1, 1))
    soon(story)
    story.run("worker-2-1", 1, A, ends=False)
    if between is not None:
        between(story)
    soon(story)
    story.claim("worker-3-1", 2, (B, 2, 1))
    soon(story)
    story.run("worker-3-1", 2, B, ends=False)


def soon(story: Story) -> None:
    """Let the next step be a tenth of a second after the last."""
    story.now -= 0.9


def lose(story: Story, who: str, *, waits: float) -> None:
    """Let a worker be killed that has a job, and another be given it after a while."""
    story.submit(job(C, key=None))
    story.claim(who, 8, (C, 3, 1), key=None)
    kill(story, who)
    story.now += waits
    story.claim("worker-3-1", 9, (C, 3, 1), key=None, alone=True)


def only_recovery(story: Story) -> Recovery:
    [found] = recoveries(story.ledger())
    return found


# A wrong clock


@deaths
def test_two_leases_after_the_death_of_a_wrong_clock_are_told(death: Death) -> None:
    story = with_dead_clock(death)
    lease_twice(story)
    assert {"one lease", "at once"} <= story.broken()


@deaths
def test_a_delay_that_is_cut_short_after_the_death_of_a_wrong_clock_is_told(death: Death) -> None:
    story = with_dead_clock(death)
    story.submit(job(A, delay_seconds=60.0))
    story.done("worker-2-1", 1, A)
    assert "delays" in story.broken()


@deaths
def test_a_recovery_after_the_death_of_a_wrong_clock_has_no_longer_bound(death: Death) -> None:
    story, without = with_dead_clock(death), Story()
    for told in (story, without):
        lose(told, "worker-2-1", waits=1.0)
    assert only_recovery(story).seconds_max == only_recovery(without).seconds_max


def test_a_lease_that_a_wrong_clock_wrote_may_be_over_early_after_its_death() -> None:
    story = Story()
    story.submit(job(A))
    begin(story, "clock-step")
    story.claim("worker-1-1", 1, (A, 1, 1))
    soon(story)
    kill(story, "worker-1-1")
    soon(story)
    come_up(story, "worker-1-2")
    soon(story)
    story.claim("worker-2-1", 2, (A, 1, 1))
    assert "one lease" not in story.broken()
    story.said = [said for said in story.said if not isinstance(said[1], history.Fault)]
    assert "one lease" in story.broken()


def wrong_for_a_moment(story: Story) -> None:
    soon(story)
    begin(story, "clock-step")
    soon(story)
    be_killed(story, "worker-1-1")


def test_a_lease_that_was_there_may_have_been_taken_back_by_a_wrong_clock_that_died() -> None:
    story = Story()
    lease_twice(story, between=wrong_for_a_moment)
    assert not {"one lease", "at once"} & story.broken()


def test_a_killed_worker_may_act_until_another_is_up_in_its_place() -> None:
    """A kill is written down before it is done."""
    story = Story()
    begin(story, "clock-step")
    kill(story, "worker-1-1")
    lease_twice(story, between=lambda story: come_up(story, "worker-1-2"))
    assert not {"one lease", "at once"} & story.broken()


def test_a_job_that_a_wrong_clock_let_in_may_begin_early_after_its_death() -> None:
    story = Story()
    story.submit(job(A, delay_seconds=60.0))
    begin(story, "clock-step")
    be_killed(story, "worker-1-1")
    story.done("worker-2-1", 1, A)
    assert "delays" not in story.broken()


def test_the_jobs_of_a_worker_that_died_with_a_wrong_clock_may_come_back_later() -> None:
    story, without = Story(), Story()
    begin(story, "clock-step")
    for told in (story, without):
        lose(told, "worker-1-1", waits=1.0)
        come_up(told, "worker-1-2")
    assert only_recovery(story).seconds_max > only_recovery(without).seconds_max


OTHERS = ("worker-1-1", "worker-1-0", "worker-2-2", "worker-11-2", "producer-1-2")


@pytest.mark.parametrize("who", OTHERS)
def test_only_a_successor_tells_of_a_death(who: str) -> None:
    """A process may be told to set its clock wrong before it is up; and others come and go."""
    story = Story()
    begin(story, "clock-step")
    come_up(story, who)
    lease_twice(story)
    assert not {"one lease", "at once"} & story.broken()


def test_a_clock_is_wrong_only_while_its_history_says_so() -> None:
    seen: list[tuple[str, float]] = []
    clock = SteppedClock()

    class Watched(history.History):
        def __init__(self) -> None:
            self.name = "worker-1-1"

        def write(self, event: history.AnyEvent) -> history.AnyEvent:
            seen.append((type(event).__name__, clock.seconds_off))
            return event

    step = step_clock(clock, Watched())
    step("2.5")
    assert clock.seconds_off == 2.5
    step("0")
    assert seen == [("Fault", 0.0), ("Mended", 0.0)]


# Standing still, and a full disk


@deaths
@pytest.mark.parametrize("name", ["stop-worker", "stall", "full-disk"])
def test_a_late_recovery_after_the_death_of_what_was_held_up_is_told(
    name: str, death: Death
) -> None:
    story = Story()
    begin(story, name)
    death(story, TARGETS[name])
    lose(story, "worker-2-1", waits=LONG)
    assert "recovery" in story.broken()


def test_who_was_stopped_and_killed_does_not_stand_still_any_more() -> None:
    """Even if nobody takes its place, and it is said to go on when it is dead."""
    story = Story()
    story.submit(job(A, key=None))
    story.claim("worker-1-1", 1, (A, 1, 1), key=None)
    begin(story, "stop-worker")
    kill(story, "worker-1-1")
    story.now += LONG
    story.say("run", history.Mended(name="stop-worker", target="worker-1-1"))
    story.claim("worker-2-1", 2, (A, 1, 1), key=None, alone=True)
    assert "recovery" in story.broken()


@pytest.mark.parametrize("name", ["stop-worker", "stall", "full-disk"])
def test_the_time_that_something_was_held_up_until_it_was_killed_does_not_count(name: str) -> None:
    story = Story()
    story.submit(job(C, key=None))
    story.claim("worker-2-1", 8, (C, 3, 1), key=None)
    kill(story, "worker-2-1")
    begin(story, name)
    story.now += LONG
    kill(story, TARGETS[name])
    story.claim("worker-3-1", 9, (C, 3, 1), key=None, alone=True)
    assert "recovery" not in story.broken()


def test_a_server_that_is_down_has_no_successor() -> None:
    story = Story()
    story.submit(job(C, key=None))
    story.claim("worker-2-1", 8, (C, 3, 1), key=None)
    kill(story, "worker-2-1")
    story.say("run", history.Fault(name="stop-server", target="server"))
    story.say("run", history.Fault(name="cut-connection", target="proxy"))
    story.now += LONG
    story.say("run", history.Mended(name="stop-server", target="server"))
    story.claim("worker-3-1", 9, (C, 3, 1), key=None, alone=True)
    assert "recovery" not in story.broken()
