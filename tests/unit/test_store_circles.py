"""Circles: found among many waits, each once, and never where there is none."""

from __future__ import annotations

from uuid import UUID

import pytest

from inturn.store.circles import circles, name_circles

Waits = list[tuple[int, int]]


def found(waits: Waits) -> list[set[int]]:
    made = circles((UUID(int=job), UUID(int=on_job)) for job, on_job in waits)
    assert all(len(set(circle)) == len(circle) for circle in made)
    return sorted(({job.int for job in circle} for circle in made), key=min)


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        ([], []),
        ([(2, 1)], []),
        ([(4, 2), (4, 3), (2, 1), (3, 1)], []),
        ([(1, 1)], [{1}]),
        ([(1, 2), (2, 1)], [{1, 2}]),
        ([(1, 2), (2, 3), (3, 1), (3, 4), (5, 1), (6, 5)], [{1, 2, 3}]),
        ([(1, 2), (2, 1), (3, 4), (4, 3), (5, 1), (5, 3)], [{1, 2}, {3, 4}]),
    ],
)
def test_each_circle_is_found_once(waits: Waits, expected: list[set[int]]) -> None:
    assert found(waits) == expected


def test_of_circles_that_lead_to_one_another_one_is_found() -> None:
    reached = found([(1, 1), (2, 1), (2, 3), (3, 2)])
    assert reached
    assert all(circle in ({1}, {2, 3}) for circle in reached)


def test_a_long_chain_is_no_circle_until_its_ends_meet() -> None:
    chain = [(number + 1, number) for number in range(50_000)]
    assert found(chain) == []
    assert found([*chain, (0, 50_000)]) == [set(range(50_001))]


def test_a_circle_is_named_from_job_to_job() -> None:
    one, two = UUID(int=1), UUID(int=2)
    said = name_circles([(one, two), (two, one)], sentences_max=20)
    assert said == [f"jobs wait for one another in a circle: {one} → {two} → {one}."]


def test_no_more_circles_are_named_than_asked_for() -> None:
    selves = [(UUID(int=number), UUID(int=number)) for number in range(30)]
    assert len(name_circles(selves, sentences_max=20)) == 20
