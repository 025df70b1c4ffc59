"""A few seeds of the simulation on each store; ``make chaos`` runs thousands."""

from __future__ import annotations

import pytest

from tests.simulation.actors import ACTORS
from tests.simulation.run import make_world, play, run
from tests.simulation.stores import Stores

SQLITE_SEEDS = range(30)
POSTGRES_SEEDS = (*range(1000, 1006), 34, 5381)
"""The last two found a lane that kept the kind and round of a cancelled job at its head."""


@pytest.mark.parametrize("seed", SQLITE_SEEDS)
async def test_every_promise_is_kept_on_sqlite(seed: int) -> None:
    async with Stores().empty() as (store, clock):
        await run(store, clock, seed)


async def test_every_promise_is_kept_on_postgres(postgres_url: str) -> None:
    stores = Stores(postgres_url)
    try:
        for seed in POSTGRES_SEEDS:
            async with stores.empty() as (store, clock):
                await run(store, clock, seed)
    finally:
        await stores.close()


async def test_a_seed_is_the_same_history_every_time() -> None:
    histories = []
    for _ in range(2):
        async with Stores().empty() as (store, clock):
            world = make_world(store, clock, seed=7)
            await play(world, steps=60)
            histories.append([repr(event) for event in world.history])
    assert histories[0] == histories[1]


async def test_a_few_seeds_show_everything_that_can_happen() -> None:
    """Each kind of event comes up, so that no checker sleeps because nobody acts."""
    seen: set[str] = set()
    for seed in range(100, 104):
        async with Stores().empty() as (store, clock):
            world = await run(store, clock, seed)
            seen |= {type(event).__name__ for event in world.history}
    assert len(ACTORS) >= 19
    assert seen >= {
        "Accepted", "Refused", "Claimed", "Settled", "SettleRefused", "Extended", "Crashed",
        "TakenBack", "Cancelled", "DeadRetried", "DeadDropped", "LaneDecided", "Held",
        "GateOpened", "GateAdvanced", "PrunedAll", "Audited", "TablesChecked", "Drained",
    }  # fmt: skip
