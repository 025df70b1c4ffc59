"""The worlds that every test run explores whole, and what was counted in them."""

from __future__ import annotations

from dataclasses import dataclass

from tests.model.rules import Batch, Bounds

ONE = Batch()
OLD = Batch(repeatable_read=True)
BOTH = Batch(jobs=((0, 1), (1, 1)))
CROSSWISE = Batch(jobs=((1, 1), (0, 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Bounds with a name, and how many states lie within them."""

    name: str
    bounds: Bounds
    states: int
    """As counted. Another number means that the model has changed: then say so in the docs."""


WORLDS = (
    World(
        name="snapshots",
        bounds=Bounds(producers=((ONE,), (OLD,)), attempts_max=2),
        states=59_210,
    ),
    World(
        name="three jobs",
        bounds=Bounds(producers=((ONE, ONE), (ONE,))),
        states=87_141,
    ),
    World(
        name="two lanes",
        bounds=Bounds(
            producers=((BOTH,), (CROSSWISE,)), lanes=2, crashes=False, failures=False, turns=False
        ),
        states=54_531,
    ),
)
