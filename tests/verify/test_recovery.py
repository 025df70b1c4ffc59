"""How long the jobs of a worker that died or stood still may wait, and for what besides."""

from __future__ import annotations

from inturn.verify import history
from inturn.verify.recovery import recoveries
from tests.verify.story import A, Story, job


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
