"""When a failed job runs again: exponential backoff with full jitter and a cap."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from random import Random

from inturn.model import bounds
from inturn.model.admissible import check_number, check_whole, shown
from inturn.model.error import Portable
from inturn.model.errors import BadInput, OutOfBounds
from inturn.policy.raised import describe, with_words, words_of
from inturn.policy.verdict import Bury, Retry, Verdict


class Reject(Portable):
    """Raised by a handler: this job can never succeed, do not run it again."""


class RetryLater(Portable):
    """Raised by a handler that knows when to come back, such as from ``Retry-After``.

    ``counted=False`` uses no attempt. A time that is too long or past is taken for the nearest that
    can be; what is no number of seconds is refused.
    """

    def __init__(self, *, after: float, reason: str = "asked to come later", counted: bool = True):
        self.after, self.reason, self.counted = _seconds(after), reason, counted
        super().__init__(f"{reason} (after {self.after:g} s)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, and how long between: ``base`` doubled per attempt, capped, jittered.

    With ``jitter`` 1.0 ("full") a delay is drawn evenly from nothing to the doubled base, so that
    jobs which failed together do not come back together. 0.0 gives the plain doubling. Errors of
    the ``permanent`` classes, as ``Reject``, are never retried.
    """

    attempts_max: int = 5
    base_seconds: float = 1.0
    cap_seconds: float = 300.0
    jitter: float = 1.0
    permanent: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no job could be tried by, where it is written and not when a job fails."""
        check_whole("attempts_max", self.attempts_max, 1, bounds.ATTEMPTS_MAX)
        check_number("base_seconds", self.base_seconds, 0.0, bounds.DELAY_SECONDS_MAX)
        check_number("cap_seconds", self.cap_seconds, 0.0, bounds.DELAY_SECONDS_MAX)
        if self.base_seconds > self.cap_seconds:
            raise OutOfBounds(
                f"base_seconds is {self.base_seconds:g}, and cap_seconds {self.cap_seconds:g}: no "
                f"delay would be as long as the first is to be. Raise cap_seconds as well."
            )
        check_number("jitter", self.jitter, 0.0, 1.0)
        permanent: object = self.permanent
        if not isinstance(permanent, tuple) or not all(
            isinstance(one, type) and issubclass(one, BaseException) for one in permanent
        ):
            raise BadInput("permanent must be a tuple of classes of errors.")

    def delay_seconds(self, attempt: int, random: Random) -> float:
        """Return how long to wait after the given attempt (the first is 1) has failed."""
        doublings = min(attempt - 1, 64)
        longest = min(self.cap_seconds, self.base_seconds * 2.0**doublings)
        return longest * (1.0 - self.jitter * random.random())


def after_failure(
    attempt: int,
    error: BaseException,
    *,
    policy: RetryPolicy,
    random: Random,
    attempts_max: int | None = None,
) -> Verdict:
    """Decide what becomes of a job whose attempt has just failed.

    ``attempts_max``: the job's own, if it was accepted with others than the policy's.
    """
    attempts_max = policy.attempts_max if attempts_max is None else attempts_max
    if isinstance(error, Reject):
        return Bury(with_words("rejected", error))
    if isinstance(error, RetryLater):
        asked = words_of(error) or describe(error)
        if error.counted and attempt >= attempts_max:
            return _spent(attempt, asked)
        return Retry(delay_seconds=error.after, error=asked, counted=error.counted)
    described = describe(error)
    if isinstance(error, policy.permanent):
        return Bury(described)
    if attempt >= attempts_max:
        return _spent(attempt, described)
    return Retry(delay_seconds=policy.delay_seconds(attempt, random), error=described)


def _seconds(after: float) -> float:
    """Return a time to come back after, or refuse it where it is said, not where it is slept."""
    try:
        if not isnan(after):
            return float(after)
    except (TypeError, ValueError, OverflowError):  # of another type, or beyond every float
        pass
    raise OutOfBounds(f"after must be a number of seconds, not {shown(after)}.")


def _spent(attempt: int, error: str) -> Bury:
    return Bury(error, reason=spent_reason(attempt, error))


def spent_reason(attempts: int, error: str) -> str:
    """Say why a job whose attempts are spent is dead."""
    return (
        f"failed {attempts} times, the last time: {error}" if attempts > 1 else f"failed: {error}"
    )


CRASH_DELAY_SECONDS_MAX = 60.0


def crash_delay_seconds(crashes: int) -> float:
    """Return how long a job that was alone when its worker died waits before it runs again.

    The same formula stands in the PostgreSQL function ``inturn.crash_delay``; the contract suite
    compares the two stores.
    """
    return float(min(CRASH_DELAY_SECONDS_MAX, 2.0 ** min(crashes - 1, 10)))
