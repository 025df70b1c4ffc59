"""What may be stored at all, decided before a store is touched."""

from __future__ import annotations

import math
import random
from typing import Any
from uuid import UUID

import pytest

from inturn.model import bounds
from inturn.model.admissible import (
    check_jobs,
    check_name,
    check_number,
    check_whole,
)
from inturn.model.errors import BadInput, DependencyCycle, InvalidName, OutOfBounds
from inturn.model.ids import new_id
from inturn.model.job import NewJob


@pytest.mark.parametrize("name", ["", "x" * 51, "é" * 51, "a\x00b", "a\udfff"])
def test_a_name_that_cannot_be_kept_is_refused(name: str) -> None:
    check_name("kind", "é" * 50, 50)
    with pytest.raises(InvalidName, match="the kind"):
        check_name("kind", name, 50)


@pytest.mark.parametrize("name", [None, 7, b"x"])
def test_a_name_is_text(name: Any) -> None:
    with pytest.raises(InvalidName, match="must be text"):
        check_name("queue", name, 50)


@pytest.mark.parametrize("value", [0, 11, 10**30, 1.5, "1", None, True])
def test_a_whole_number_is_one_and_in_its_range(value: Any) -> None:
    check_whole("round", 1, 1, 10)
    check_whole("round", 10, 1, 10)
    with pytest.raises(OutOfBounds, match="round"):
        check_whole("round", value, 1, 10)


@pytest.mark.parametrize("value", [-0.001, 10.001, math.nan, math.inf, "1", None, True])
def test_a_number_is_finite_and_in_its_range(value: Any) -> None:
    check_number("delay", 0, 0, 10)
    check_number("delay", 10.0, 0, 10)
    with pytest.raises(OutOfBounds, match="delay"):
        check_number("delay", value, 0, 10)


@pytest.mark.parametrize(
    "options",
    [
        {"priority": bounds.PRIORITY_MIN - 1},
        {"priority": bounds.PRIORITY_MAX + 1},
        {"round": bounds.ROUND_MAX + 1},
        {"round": -1},
        {"attempts_max": 0},
        {"attempts_max": bounds.ATTEMPTS_MAX + 1},
        {"timeout_seconds": 0},
        {"timeout_seconds": bounds.TIMEOUT_SECONDS_MAX * 2},
        {"delay_seconds": -0.001},
        {"delay_seconds": bounds.DELAY_SECONDS_MAX * 2},
        {"delay_seconds": 1, "round": 1},
        {"delay_seconds": 1, "after": frozenset({new_id()})},
        {"dedupe": "d", "dedupe_seconds": 0},
        {"dedupe": "d", "dedupe_seconds": math.inf},
        {"after": frozenset(new_id() for _ in range(bounds.AFTER_MAX + 1))},
        {"payload": "x"},
        {"kind": ""},
        {"queue": ""},
        {"key": ""},
        {"dedupe": ""},
    ],
    ids=lambda options: ",".join(options),
)
def test_an_option_beyond_its_bound_refuses_the_batch(options: dict[str, Any]) -> None:
    bad = NewJob(**{"kind": "k", **options})
    with pytest.raises(BadInput):
        check_jobs([bad])
    with pytest.raises(BadInput):
        check_jobs([NewJob(kind="k"), bad])


def test_a_batch_is_bounded_and_its_ids_are_different() -> None:
    one = NewJob(kind="k")
    check_jobs([])
    check_jobs([NewJob(kind="k") for _ in range(1_000)])
    with pytest.raises(OutOfBounds, match="same id"):
        check_jobs([one, NewJob(kind="k", id=one.id)])
    with pytest.raises(OutOfBounds, match="50,001 jobs; the bound is 50,000"):
        check_jobs([one] * (bounds.ENQUEUE_JOBS_MAX + 1))


def test_what_a_batch_weighs_is_bounded() -> None:
    heavy = f'"{"x" * (bounds.PAYLOAD_BYTES_MAX - 2)}"'
    most = bounds.ENQUEUE_CHARS_MAX // len(heavy)
    check_jobs([NewJob(kind="k", payload=heavy) for _ in range(most)])
    with pytest.raises(OutOfBounds, match="characters together; the bound is 67,108,864"):
        check_jobs([NewJob(kind="k", payload=heavy) for _ in range(most + 1)])


def chain(waits: dict[UUID, set[UUID]]) -> list[NewJob]:
    return [NewJob(kind="k", id=one, after=frozenset(on)) for one, on in waits.items()]


@pytest.mark.parametrize("length", [1, 2, 5_000])
def test_a_circle_of_any_length_is_refused(length: int) -> None:
    """(000-04)"""
    ids = [new_id() for _ in range(length)]
    jobs = chain({one: {ids[number - 1]} for number, one in enumerate(ids)})
    with pytest.raises(DependencyCycle) as cycle:
        check_jobs(jobs)
    assert cycle.value.cycle[0] == cycle.value.cycle[-1]
    assert set(cycle.value.cycle) == set(ids)
    assert str(ids[0]) in str(cycle.value)


@pytest.mark.parametrize("seed", range(20))
def test_a_circle_is_found_exactly_where_there_is_one(seed: int) -> None:
    """(000-04)"""
    chance = random.Random(seed)
    ids = [new_id() for _ in range(30)]
    # Waiting only for what stands before is never a circle.
    waits = {one: set(chance.sample(ids[:place], min(place, 3))) for place, one in enumerate(ids)}
    jobs = chain(waits)
    chance.shuffle(jobs)
    check_jobs(jobs)
    # Make one job wait for another that waits for it, however far off.
    first = chance.choice(ids[:20])
    reach = next(one for one in reversed(ids) if first in _behind(waits, one))
    waits[first].add(reach)
    with pytest.raises(DependencyCycle) as cycle:
        check_jobs(chain(waits))
    for waiting, on in zip(cycle.value.cycle, cycle.value.cycle[1:], strict=False):
        assert on in waits[waiting]


def _behind(waits: dict[UUID, set[UUID]], start: UUID) -> set[UUID]:
    """Return everything a job waits for, near or far, and the job itself."""
    found, todo = {start}, [start]
    while todo:
        for one in waits[todo.pop()] - found:
            found.add(one)
            todo.append(one)
    return found


def test_the_nil_uuid_is_no_id() -> None:
    with pytest.raises(BadInput, match="all zeros"):
        check_jobs([NewJob(kind="k", id=UUID(int=0))])


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (NewJob(kind="mail", key="c-7", priority=400), "job 2 of 3 (kind 'mail', key 'c-7'): "),
        (NewJob(kind="mail", payload="no json"), "job 2 of 3 (kind 'mail'): "),
        (NewJob(kind="", key="c-7"), "job 2 of 3 (kind '', key 'c-7'): "),
        ("no job", "job 2 of 3: a batch holds 'no job'"),
    ],
)
def test_a_refusal_says_which_job_of_a_batch_it_is_about(wrong: Any, named: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_jobs([NewJob(kind="k"), wrong, NewJob(kind="k")])
    assert str(refused.value).startswith(named)
    with pytest.raises(BadInput) as alone:
        check_jobs([wrong])
    assert "job 1" not in str(alone.value)
