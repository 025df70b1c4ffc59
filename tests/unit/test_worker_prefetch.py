"""Prefetch: quick jobs ahead, slow and large ones as slots are free."""

from __future__ import annotations

from inturn.worker.prefetch import CHARS_AHEAD_MAX, HORIZON_SECONDS, Prefetch

SLOTS, QUICK = 10, 100_000.0
SMALL, LARGE = "x" * 100, "x" * (CHARS_AHEAD_MAX // 2)


def quick() -> Prefetch:
    return Prefetch(SLOTS, 2_000, ended_per_second=QUICK)


def test_slow_jobs_are_claimed_for_free_slots_only() -> None:
    assert Prefetch(SLOTS, 2_000).wanted(in_hand=4, busy=4) == SLOTS - 4


def test_quick_jobs_are_claimed_ahead_within_the_bound() -> None:
    assert Prefetch(SLOTS, 2_000, 1_000.0).wanted(0, 0) == SLOTS + int(1_000 * HORIZON_SECONDS)
    assert quick().wanted(0, 0) == 2_000
    assert quick().wanted(1_990, SLOTS) == 10


def test_small_payloads_do_not_count() -> None:
    prefetch = quick()
    prefetch.claimed([SMALL] * 100)
    assert prefetch.wanted(0, 0) == 2_000


def test_large_payloads_are_not_held_for_later_and_are_forgotten_by_and_by() -> None:
    prefetch = quick()
    prefetch.claimed([SMALL] * 9)
    prefetch.claimed([LARGE])
    assert prefetch.wanted(0, 0) == SLOTS + 2
    assert prefetch.wanted(SLOTS + 2, SLOTS) == 0
    for _ in range(60):
        prefetch.claimed([SMALL] * 9)
    assert prefetch.wanted(0, 0) == 2_000
