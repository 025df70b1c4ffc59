"""Prefetch: quick jobs ahead, slow and large ones as slots are free."""

from __future__ import annotations

import itertools

from inturn.worker.prefetch import (
    CHARS_AHEAD_MAX,
    CHARS_HELD_MAX,
    HORIZON_SECONDS,
    PACE_SECONDS,
    TURN_SECONDS_MAX,
    Prefetch,
)

SLOTS, QUICK, JOBS_MAX = 10, 100_000.0, 2_000
SMALL, LARGE = "x" * 100, "x" * (CHARS_AHEAD_MAX // 2)


def ramped(ended_per_second: float = 0.0, slots: int = SLOTS) -> Prefetch:
    """Return one that has claimed for a while."""
    return Prefetch(slots, JOBS_MAX, ended_per_second=ended_per_second, window=JOBS_MAX)


def quick() -> Prefetch:
    return ramped(QUICK)


def claim(prefetch: Prefetch, payload: str, seconds: float, *, in_hand: int = 0) -> int:
    """Claim as many as are wanted; let the loop turn; return how many that was."""
    wanted = prefetch.wanted(in_hand, in_hand)
    prefetch.claimed([payload] * wanted)
    prefetch.turned(wanted, seconds)
    return wanted


def test_slow_jobs_are_claimed_for_free_slots_only() -> None:
    assert ramped().wanted(in_hand=4, busy=4) == SLOTS - 4


def test_quick_jobs_are_claimed_ahead_within_the_bound() -> None:
    assert ramped(1_000.0).wanted(0, 0) == SLOTS + int(1_000 * HORIZON_SECONDS)
    assert quick().wanted(0, 0) == JOBS_MAX
    assert quick().wanted(1_990, SLOTS) == 10


def test_jobs_that_end_in_bursts_are_as_slow_as_those_that_end_one_by_one() -> None:
    evenly, in_bursts = ramped(), ramped()
    for _ in range(50):
        for _ in range(SLOTS):
            evenly.ended(1, 0.1 / SLOTS)
        in_bursts.ended(1, 0.1)
        for _ in range(SLOTS - 1):
            in_bursts.ended(1, 0.000_01)
    for prefetch in (evenly, in_bursts):
        assert abs(prefetch.ended_per_second - SLOTS / 0.1) <= 0.3 * SLOTS / 0.1


def test_jobs_that_have_become_slow_are_not_claimed_ahead_once_some_have_ended() -> None:
    prefetch = quick()
    prefetch.ended(SLOTS, 10 * PACE_SECONDS)
    assert prefetch.wanted(SLOTS, SLOTS) <= SLOTS


def test_when_what_was_claimed_ahead_found_no_slot_nothing_is_claimed_ahead() -> None:
    prefetch = quick()
    assert prefetch.wanted(SLOTS, SLOTS) > 0
    prefetch.slowed()
    assert prefetch.wanted(SLOTS, SLOTS) == 0
    assert prefetch.wanted(4, 4) == SLOTS - 4


def test_the_first_claims_are_small_and_grow_while_jobs_start_at_once() -> None:
    prefetch = Prefetch(100, JOBS_MAX)
    claims = [claim(prefetch, SMALL, seconds=0.001) for _ in range(8)]
    assert claims == [1, 2, 4, 8, 16, 32, 64, 100]


def test_nothing_more_is_claimed_until_what_was_claimed_has_had_its_turn() -> None:
    prefetch = Prefetch(SLOTS, JOBS_MAX, window=4)
    prefetch.claimed([SMALL] * 4)
    assert prefetch.wanted(4, 4) == 0
    prefetch.turned(4, HORIZON_SECONDS)
    assert prefetch.wanted(4, 4) == SLOTS - 4


def test_jobs_that_keep_the_loop_busy_are_claimed_one_by_one() -> None:
    prefetch = Prefetch(100, JOBS_MAX)
    assert [claim(prefetch, SMALL, seconds=1.0) for _ in range(5)] == [1] * 5


def test_a_claim_shrinks_at_once_when_jobs_begin_to_compute() -> None:
    prefetch = ramped(slots=100)
    assert claim(prefetch, SMALL, seconds=10 * TURN_SECONDS_MAX) == 100
    assert claim(prefetch, SMALL, seconds=10 * TURN_SECONDS_MAX) == 10
    assert claim(prefetch, SMALL, seconds=TURN_SECONDS_MAX) == 1


def test_a_worker_that_finds_little_work_does_not_make_ready_for_much() -> None:
    prefetch = Prefetch(100, JOBS_MAX)
    for _ in range(50):
        prefetch.claimed([SMALL])
        prefetch.turned(1, 0.001)
    assert prefetch.wanted(0, 0) <= 4


def test_large_payloads_are_bounded_from_the_first_claim_on() -> None:
    prefetch = Prefetch(slots=600, jobs_max=JOBS_MAX, ended_per_second=QUICK)
    large = "x" * 900_000
    in_hand, claims = 0, []
    while wanted := claim(prefetch, large, seconds=0.001, in_hand=in_hand):
        claims.append(wanted)
        in_hand += wanted
    assert max(claims) * len(large) <= CHARS_AHEAD_MAX
    assert in_hand * len(large) <= CHARS_HELD_MAX
    assert all(after <= 2 * before for before, after in itertools.pairwise(claims))


def test_large_results_are_claimed_as_few_as_large_payloads() -> None:
    prefetch = quick()
    assert prefetch.wanted(0, 0) == JOBS_MAX
    prefetch.returned(4, 4 * 1_000_000)
    assert 0 < prefetch.wanted(0, 0) <= CHARS_AHEAD_MAX / 1_000_000
    assert prefetch.wanted(CHARS_HELD_MAX // 1_000_000, 0) == 0
    prefetch.returned(0, 0)  # given back, which says nothing of results
    assert prefetch.wanted(0, 0) <= CHARS_AHEAD_MAX / 1_000_000
    for _ in range(100):
        prefetch.returned(4, 4)
    assert prefetch.wanted(0, 0) == JOBS_MAX, "they were small for a while"


def test_one_job_is_always_claimed_however_large() -> None:
    prefetch = ramped()
    prefetch.claimed(["x" * (CHARS_HELD_MAX + 1)])
    prefetch.turned(1, 0.0)
    assert prefetch.wanted(0, 0) == 1
    assert prefetch.wanted(1, 1) == 0


def test_small_payloads_do_not_count() -> None:
    prefetch = quick()
    prefetch.claimed([SMALL] * 100)
    prefetch.turned(100, 0.0)
    assert prefetch.wanted(0, 0) == JOBS_MAX


def test_large_payloads_are_not_held_for_later_and_are_forgotten_by_and_by() -> None:
    prefetch = quick()
    claim_of(prefetch, [SMALL] * 9)
    claim_of(prefetch, [LARGE])
    assert prefetch.wanted(0, 0) == 2
    assert prefetch.wanted(SLOTS + 1, SLOTS) == 1
    assert prefetch.wanted(SLOTS + 2, SLOTS) == 0
    for _ in range(80):
        claim_of(prefetch, [SMALL] * 9)
    assert prefetch.wanted(0, 0) == JOBS_MAX


def claim_of(prefetch: Prefetch, payloads: list[str]) -> None:
    prefetch.claimed(payloads)
    prefetch.turned(len(payloads), 0.0)
