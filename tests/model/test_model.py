"""The protocol as it is breaks no promise, in whatever order its steps happen."""

from __future__ import annotations

import pytest

from tests.model.explorer import explore
from tests.model.worlds import WORLDS, World


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_every_state_keeps_the_promises_and_can_come_to_a_good_end(world: World) -> None:
    explored = explore(world.bounds)
    assert explored.counterexample is None, f"\n{explored.counterexample}"
    assert explored.ends > 0
    assert explored.states == world.states
