"""What Hypothesis may choose from: few queues, keys and kinds, so that jobs meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from inturn.model.lane import OnDead, QueueSettings
from inturn.policy.verdict import Bury, Done, Release, Retry, Verdict

SKIPS, HALTS = "skips", "halts"
QUEUES = (SKIPS, HALTS)
KEYS = ("a", "b")
KINDS = ("k", "l")
SETTINGS = {
    SKIPS: QueueSettings(aging_seconds=10.0, keep_done_seconds=50.0),
    HALTS: QueueSettings(on_dead=OnDead.HALT, depth_max=25, lane_depth_max=6),
}

queues = st.sampled_from(QUEUES)
keys = st.sampled_from(KEYS)
kinds = st.one_of(st.none(), st.sampled_from(KINDS))
index = st.integers(min_value=0, max_value=1_000)

verdicts: st.SearchStrategy[Verdict] = st.one_of(
    st.builds(Done, st.sampled_from((None, "1"))),
    st.builds(Done),
    st.builds(Retry, st.sampled_from((0.0, 3.0, 40.0)), st.sampled_from(("boom", "bang"))),
    st.builds(Retry, st.sampled_from((0.0, 3.0)), st.just("later"), st.just(False)),
    st.builds(Bury, st.just("hopeless")),
    st.builds(Release),
)


@st.composite
def batches(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Options of a batch's jobs: all of one lane, so that no two lanes have the same rank."""
    options: dict[str, Any] = {
        "queue": draw(queues),
        "key": draw(st.one_of(st.none(), keys)),
        "kind": draw(st.sampled_from(KINDS)),
        "priority": draw(st.sampled_from((0, 0, 2))),
        "round": draw(st.sampled_from((0, 0, 1, 2))),
        "attempts_max": draw(st.integers(1, 3)),
    }
    if not options["round"] and draw(st.integers(0, 5)) == 0:
        options["delay_seconds"] = draw(st.sampled_from((2.0, 30.0)))
    if draw(st.integers(0, 5)) == 0:
        options["dedupe"] = draw(st.sampled_from(("d1", "d2")))
        options["dedupe_seconds"] = draw(st.sampled_from((10.0, 100.0)))
    options["payload"] = draw(st.sampled_from(("1", "2", '{"a": 1}')))
    return [options] * draw(st.integers(1, 4))
