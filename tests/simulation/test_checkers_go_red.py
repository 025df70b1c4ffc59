"""Every checker was seen red: a store that breaks its promise on purpose is named by it alone."""

from __future__ import annotations

import pytest

from tests.simulation.broken import as_store, every_broken_store
from tests.simulation.broken.store import Broken
from tests.simulation.checker import CHECKS, Violation
from tests.simulation.run import run
from tests.simulation.stores import Stores

SEEDS_MAX = 30


@pytest.mark.parametrize("broken", every_broken_store(), ids=lambda broken: broken.__name__)
async def test_a_broken_promise_is_named_by_its_checker(broken: type[Broken]) -> None:
    found = await first_violation(broken)
    assert found is not None, f"no checker noticed a store that {broken.__doc__}"
    assert list(found.found) == [broken.checker], found


async def test_a_wrapped_store_that_breaks_nothing_is_not_accused() -> None:
    stores = Stores()
    async with stores.empty() as (store, clock):
        await run(as_store(Broken(store)), clock, seed=1)


def test_every_checker_has_a_store_that_breaks_its_promise() -> None:
    assert {broken.checker for broken in every_broken_store()} == CHECKS.keys()


async def first_violation(broken: type[Broken]) -> Violation | None:
    stores = Stores()
    for seed in range(broken.seed, broken.seed + SEEDS_MAX):
        async with stores.empty() as (store, clock):
            try:
                await run(as_store(broken(store)), clock, seed)
            except Violation as violation:
                return violation
    return None
