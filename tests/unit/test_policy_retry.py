"""Retry policy: exponential backoff with jitter and a cap, and who decides otherwise.

Promise P9 of ARCHITECTURE.md.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from inturn.model.errors import BadInput
from inturn.policy.retry import (
    CRASH_DELAY_SECONDS_MAX,
    Reject,
    RetryLater,
    RetryPolicy,
    after_failure,
    crash_delay_seconds,
)
from inturn.policy.verdict import Bury, Retry

PLAIN = RetryPolicy(attempts_max=5, base_seconds=0.2, cap_seconds=5.0, jitter=0.0)


def test_delays_are_200_400_800_milliseconds_and_so_on_up_to_the_cap() -> None:
    """(001-12)"""
    delays = [PLAIN.delay_seconds(attempt, Random(1)) for attempt in range(1, 9)]
    assert delays == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"attempts_max": 0}, "attempts_max is 0; it may be 1 to 1000"),
        ({"attempts_max": 2.0}, "attempts_max must be a whole number"),
        ({"base_seconds": -1}, "base_seconds is -1; it may be 0 to"),
        ({"base_seconds": float("nan")}, "base_seconds must be a finite number"),
        ({"cap_seconds": float("inf")}, "cap_seconds must be a finite number"),
        ({"base_seconds": 600}, "base_seconds is 600, and cap_seconds 300: .* Raise cap_seconds"),
        ({"jitter": 1.5}, "jitter is 1.5; it may be 0 to 1"),
        ({"permanent": ValueError}, "permanent must be a tuple of classes of errors"),
        ({"permanent": (ValueError("no"),)}, "permanent must be a tuple of classes of errors"),
    ],
)
def test_a_policy_that_no_job_could_be_tried_by_is_refused_at_once(
    wrong: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        RetryPolicy(**wrong)


@given(
    attempt=some.integers(1, 10_000),
    seed=some.integers(),
    base=some.floats(0.001, 60),
    cap=some.floats(0.001, 3_600),
    jitter=some.floats(0, 1),
)
def test_a_delay_lies_between_its_jitter_and_its_doubling_and_is_capped(
    attempt: int, seed: int, base: float, cap: float, jitter: float
) -> None:
    """(001-12)"""
    cap = max(cap, base)
    policy = RetryPolicy(base_seconds=base, cap_seconds=cap, jitter=jitter)
    delay = policy.delay_seconds(attempt, Random(seed))
    longest = min(cap, base * 2.0 ** min(attempt - 1, 64))
    assert longest * (1 - jitter) * 0.999 <= delay <= longest


def test_jobs_that_failed_together_do_not_come_back_together() -> None:
    """(001-12)"""
    policy = RetryPolicy(base_seconds=1.0, jitter=1.0)
    random = Random(7)
    delays = [policy.delay_seconds(4, random) for _ in range(4_000)]
    assert len(set(delays)) == len(delays)
    # Drawn evenly from nothing to eight seconds.
    for quarter in range(4):
        inside = [delay for delay in delays if quarter * 2 <= delay < quarter * 2 + 2]
        assert 850 < len(inside) < 1_150


@pytest.mark.parametrize("attempt", [1, 2, 3, 4])
def test_a_failed_attempt_is_retried_with_its_error(attempt: int) -> None:
    verdict = after_failure(attempt, ValueError("no such SKU"), policy=PLAIN, random=Random(1))
    assert verdict == Retry(PLAIN.delay_seconds(attempt, Random(1)), "ValueError: no such SKU")


@pytest.mark.parametrize("attempt", [5, 6, 100])
def test_the_last_failed_attempt_buries(attempt: int) -> None:
    verdict = after_failure(attempt, ValueError("no such SKU"), policy=PLAIN, random=Random(1))
    assert verdict == Bury(
        "ValueError: no such SKU",
        reason=f"failed {attempt} times, the last time: ValueError: no such SKU",
    )


def test_a_rejected_job_is_buried_at_once() -> None:
    verdict = after_failure(1, Reject("unknown SKU"), policy=PLAIN, random=Random(1))
    assert verdict == Bury("rejected: unknown SKU")
    assert after_failure(1, Reject(), policy=PLAIN, random=Random(1)) == Bury("rejected")


def test_a_handler_that_knows_when_is_obeyed() -> None:
    """(001-13)"""
    later = RetryLater(after=3_600, reason="HTTP 429")
    verdict = after_failure(1, later, policy=PLAIN, random=Random(1))
    assert isinstance(verdict, Retry)
    assert (verdict.delay_seconds, verdict.counted) == (3_600, True)
    assert "HTTP 429" in verdict.error


def test_coming_later_counts_unless_it_says_otherwise() -> None:
    counted = RetryLater(after=1)
    assert isinstance(after_failure(5, counted, policy=PLAIN, random=Random(1)), Bury)
    free = RetryLater(after=1, counted=False)
    for attempt in (1, 5, 500):
        verdict = after_failure(attempt, free, policy=PLAIN, random=Random(1))
        assert isinstance(verdict, Retry)
        assert not verdict.counted


def test_a_job_that_kills_its_worker_waits_longer_each_time_up_to_a_minute() -> None:
    delays = [crash_delay_seconds(crashes) for crashes in range(1, 9)]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]
    assert crash_delay_seconds(10_000) == CRASH_DELAY_SECONDS_MAX


def test_errors_of_permanent_classes_are_buried_at_once() -> None:
    """(004-14)"""
    policy = RetryPolicy(attempts_max=5, permanent=(LookupError,))
    verdict = after_failure(1, KeyError("gone"), policy=policy, random=Random(1))
    assert verdict == Bury("KeyError: 'gone'")
    assert isinstance(after_failure(1, ValueError(), policy=policy, random=Random(1)), Retry)
