"""When a process that died is started again: at once, unless it keeps dying young."""

from __future__ import annotations

YOUNG_SECONDS = 10.0
RESTART_SECONDS_MIN = 0.1
RESTART_SECONDS_MAX = 30.0


def died_young(lived_seconds: float, deaths: int) -> int:
    """Return how many young deaths in a row there have been, this one with ``deaths`` before it."""
    return deaths + 1 if lived_seconds < YOUNG_SECONDS else 0


def restart_seconds(young_deaths: int) -> float:
    """Return how long to wait, doubled with each young death in a row after the first."""
    doublings = min(max(young_deaths - 1, 0), 16)
    return min(RESTART_SECONDS_MIN * 2.0**doublings, RESTART_SECONDS_MAX)
