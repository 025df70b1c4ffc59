"""What the model says is what PostgreSQL does, verb by verb."""

from __future__ import annotations

from collections import Counter

import pytest

from inturn.store.postgres.store import PostgresStore
from tests.concurrency.support import sound
from tests.model.engines import ACCEPTED, CLAIMED, ENGINES, SETTLED, Engine, spoil
from tests.model.promises import broken
from tests.model.replay import Replay
from tests.model.rules import Bounds, Rules
from tests.model.state import is_end
from tests.model.verbs import HELD_UP, LOST, OPEN, OVER, REFUSED
from tests.model.worlds import OLD, ONE

LIFE = Bounds(producers=((ONE, OLD, ONE), (OLD, ONE, OLD)), attempts_max=2)
WALKS = 20
VERBS_MAX = 60

END = (*CLAIMED, *SETTLED)


async def test_walks_by_chance_come_out_alike(store: PostgresStore, postgres_url: str) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(WALKS):
        async with Replay(store, postgres_url, f"walk {seed}", LIFE) as replay:
            await replay.wander(seed, VERBS_MAX)
        outcomes += replay.outcomes
    assert min(outcomes[one] for one in (OPEN, OVER, LOST, REFUSED, HELD_UP)) >= 10, outcomes
    await sound(store)


async def test_a_lane_is_not_put_to_sleep_while_a_producer_adds_to_it(
    store: PostgresStore, postgres_url: str
) -> None:
    """The race of deactivation: the producer saw the lane active, and is not visible yet."""
    bounds = Bounds(producers=((ONE,), (ONE,)))
    async with Replay(store, postgres_url, "race", bounds) as replay:
        await replay.follow(*ACCEPTED, "producer 2: enqueue", *CLAIMED, *SETTLED)
        assert replay.play.state.lanes[0].active
        await replay.follow("producer 2: commit", *END)
        assert is_end(replay.play.state)
    await sound(store)


async def test_a_producer_waits_for_who_puts_its_lane_to_sleep(
    store: PostgresStore, postgres_url: str
) -> None:
    """The other side of the race: the tail is taken first by the consumer."""
    bounds = Bounds(producers=((ONE,), (ONE,)))
    async with Replay(store, postgres_url, "race", bounds) as replay:
        await replay.follow(*ACCEPTED, *CLAIMED, "worker 1: settle done")
        await replay.follow("producer 2: enqueue => held up", "worker 1: commit")
        await replay.follow("producer 2: commit", *END)
        assert is_end(replay.play.state)
    await sound(store)


@pytest.mark.parametrize("engine", ENGINES, ids=str)
async def test_an_engine_without_a_rule_goes_wrong_as_the_model_says(
    store: PostgresStore, postgres_url: str, engine: Engine
) -> None:
    await spoil(store, engine)
    rules = Rules().without(engine.rule)
    async with Replay(store, postgres_url, "spoilt", engine.bounds, rules) as replay:
        await replay.follow(*engine.schedule)
        wrong = broken(replay.play.state, engine.bounds, frozenset())
        assert wrong is not None
        assert wrong[0] == engine.breaks
    async with Replay(store, postgres_url, "taken for sound", engine.bounds) as replay:
        with pytest.raises(AssertionError, match=r"the model: .*\nPostgreSQL: "):
            await replay.follow(*engine.schedule)
