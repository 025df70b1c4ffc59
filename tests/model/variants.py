"""The protocol without one of its rules, a variant each, and the promise that it then breaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.model import promises
from tests.model.explorer import Explored, explore
from tests.model.rules import Batch, Bounds, Rules
from tests.model.worlds import BOTH, CROSSWISE, OLD, ONE, OTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A broken protocol: all rules but one, in a world just large enough to show it."""

    rule: str
    breaks: str
    bounds: Bounds
    aside: frozenset[str] = frozenset()
    """Promises that are broken on the way, and not what the variant is to show."""

    def __str__(self) -> str:
        return f"{self.breaks} without {self.rule}"

    def explore(self) -> Explored:
        """Look for the shortest way to break a promise without the rule."""
        return explore(self.bounds, Rules().without(self.rule), aside=self.aside)

    def explore_whole(self) -> Explored:
        """Look through the same world with every rule kept."""
        return explore(self.bounds)


def _world(*producers: Batch, **options: Any) -> Bounds:
    """A world without faults, save those that are named."""
    calm = {"crashes": False, "stalls": False, "turns": False}
    return Bounds(producers=tuple((batch,) for batch in producers), **calm | options)


VARIANTS = (
    Variant(
        rule="positions_under_the_tail_lock",
        breaks=promises.LOSS,
        bounds=_world(ONE, ONE),
        aside=frozenset({promises.ORDER, promises.STRANDED}),
    ),
    Variant(rule="positions_read_after_the_lock", breaks=promises.ORDER, bounds=_world(ONE, ONE)),
    Variant(rule="active_read_after_the_lock", breaks=promises.STRANDED, bounds=_world(ONE, ONE)),
    Variant(
        rule="tails_locked_in_order",
        breaks=promises.STUCK,
        bounds=_world(BOTH, CROSSWISE, lanes=2),
    ),
    Variant(rule="rests_under_the_tail_lock", breaks=promises.STRANDED, bounds=_world(ONE, ONE)),
    Variant(rule="rests_after_a_second_look", breaks=promises.STRANDED, bounds=_world(ONE, ONE)),
    Variant(rule="rests_write_the_tail", breaks=promises.STRANDED, bounds=_world(ONE, OLD)),
    Variant(
        rule="transactions_leave_tails_alone",
        breaks=promises.STUCK,
        bounds=_world(ONE, OTHER, lanes=2, followers=2, failures=False),
    ),
    Variant(rule="tails_tried_by_consumers", breaks=promises.STUCK, bounds=_world(ONE, ONE)),
    Variant(
        rule="one_lease_a_lane",
        breaks=promises.SINGLE,
        bounds=_world(ONE, ONE),
        aside=frozenset({promises.LOSS}),
    ),
    Variant(
        rule="claims_count_attempts", breaks=promises.ATTEMPTS, bounds=_world(ONE, crashes=True)
    ),
    Variant(
        rule="suspects_leased_alone",
        breaks=promises.SUSPECTS,
        bounds=_world(ONE, ONE, crashes=True),
    ),
    Variant(rule="settles_fenced", breaks=promises.FENCE, bounds=_world(ONE, stalls=True)),
    Variant(
        rule="settles_fenced",
        breaks=promises.TWICE,
        bounds=_world(ONE, stalls=True, failures=False),
        aside=frozenset({promises.FENCE}),
    ),
    Variant(rule="tokens_new", breaks=promises.FENCE, bounds=_world(ONE, stalls=True)),
    Variant(rule="buries_atomic", breaks=promises.LOSS, bounds=_world(ONE, crashes=True)),
)
