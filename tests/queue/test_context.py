"""What a handler says through its context."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.model.errors import OutOfBounds
from inturn.queue.context import Context


class Said:
    """A store that keeps what it was told."""

    def __init__(self) -> None:
        self.fractions: list[float] = []

    async def progress(self, fraction: float, note: str) -> None:
        self.fractions.append(fraction)


def context(said: Any) -> Context:
    leased: Any = None
    return Context(leased, 1, None, said)


async def test_progress_that_was_added_up_may_be_a_rounding_more_than_all() -> None:
    said = Said()
    for fraction in (sum([0.1] * 3) / 0.3, 1, 0.3 - 0.1 * 3):
        await context(said).progress(fraction)
    assert said.fractions == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("fraction", [1.001, -0.001, float("nan"), float("inf")])
async def test_progress_that_is_none_is_refused(fraction: float) -> None:
    with pytest.raises(OutOfBounds, match="fraction"):
        await context(Said()).progress(fraction)
