"""The worlds that every test run explores whole, and what was counted in them."""

from __future__ import annotations

from dataclasses import dataclass

from tests.model.rules import Batch, Bounds

ONE = Batch()
OLD = Batch(repeatable_read=True)
OTHER = Batch(jobs=((1, 1),))
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
        name="one lane, a snapshot",
        bounds=Bounds(producers=((ONE,), (OLD,)), attempts_max=2),
        states=59_210,
    ),
    World(
        name="one lane, three jobs",
        bounds=Bounds(producers=((ONE, ONE), (ONE,))),
        states=87_141,
    ),
    World(
        name="two lanes",
        bounds=Bounds(producers=((ONE,), (OTHER,)), lanes=2),
        states=45_591,
    ),
    World(
        name="two lanes, crosswise",
        bounds=Bounds(
            producers=((BOTH,), (CROSSWISE,)), lanes=2, crashes=False, stalls=False, failures=False
        ),
        states=5_844,
    ),
    World(
        name="two lanes, transactions",
        bounds=Bounds(
            producers=((ONE,), (OTHER,)),
            lanes=2,
            followers=2,
            crashes=False,
            stalls=False,
            failures=False,
        ),
        states=16_229,
    ),
)
