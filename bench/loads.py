"""Loads: which jobs are enqueued, and whether what came out is what went in, and in order."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from bench.sizes import BATCH, PAYLOAD_BYTES
from inturn.model.job import LeasedJob

QUEUE = "bench"
KIND = "deliver"

Draft = tuple[str | None, str]
"""A job that is yet to be made: its key and its payload."""

Taken: TypeAlias = "tuple[float, array[int]]"
"""When a consumer got a batch, and the numbers of its jobs in the order it would run them."""


@dataclass(frozen=True, slots=True)
class Load:
    """A number of jobs, spread over keys in turn; without keys, all of them may run at once."""

    name: str
    jobs: int
    keys: int = 0

    def key(self, number: int) -> str | None:
        """Return the key of a job."""
        return f"customer-{number % self.keys}" if self.keys else None

    def drafts(self, first: int, count: int) -> list[Draft]:
        """Return jobs by their numbers, with payloads of exactly ``PAYLOAD_BYTES``."""
        return [(self.key(number), payload(number)) for number in range(first, first + count)]

    def batches(self, size: int = BATCH) -> Iterator[list[Draft]]:
        """Return all jobs in their order, in batches."""
        for first in range(0, self.jobs, size):
            yield self.drafts(first, min(size, self.jobs - first))


def payload(number: int) -> str:
    """Return a job's payload: JSON text of ``PAYLOAD_BYTES`` that says the job's number."""
    opening = f'{{"number":{number},"note":"'
    return f'{opening}{"x" * (PAYLOAD_BYTES - len(opening) - 2)}"}}'


def numbers_of(jobs: Iterable[LeasedJob]) -> array[int]:
    """Return the numbers that the payloads say, as they came back from the store."""
    return array("q", (json.loads(job.payload)["number"] for job in jobs))


def check_complete(load: Load, taken: Iterable[Taken]) -> None:
    """Refuse a drain that lost a job or gave one twice."""
    numbers = sorted(number for _, batch in taken for number in batch)
    if numbers != list(range(load.jobs)):
        raise AssertionError(
            f"{load.name}: {load.jobs} jobs went in, {len(numbers)} came out, "
            f"{len(set(numbers))} of them different"
        )


def out_of_order(load: Load, taken: Iterable[Taken]) -> int:
    """Count the jobs that a consumer got after a later job of the same key was given out.

    A lane's next lease is given after the one before it is settled, so the order in which batches
    arrived, over all consumers, is the order in which each key's jobs were run.
    """
    if not load.keys:
        return 0
    latest: dict[int, int] = {}
    wrong = 0
    for _, batch in sorted(taken, key=lambda one: one[0]):
        for number in batch:
            key = number % load.keys
            if number < latest.get(key, -1):
                wrong += 1
            latest[key] = max(number, latest.get(key, -1))
    return wrong
