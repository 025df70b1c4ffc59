"""Both stores are told the same by Hypothesis, and show the same after every step.

``INTURN_TEST_HYPOTHESIS=long`` looks further. A failure prints a blob to reproduce it with.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.differential.machine import Differential
from tests.differential.pair import Pair

settings.register_profile(
    "differential",
    max_examples=30,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    print_blob=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile(
    "differential-long",
    settings.get_profile("differential"),
    max_examples=1_000,
    stateful_step_count=60,
    derandomize=False,
)


def chosen_profile() -> settings:
    long = os.environ.get("INTURN_TEST_HYPOTHESIS") == "long"
    return settings.get_profile("differential-long" if long else "differential")


@pytest.mark.timeout(900)  # a failure is made small before it is shown
def test_both_stores_show_the_same_after_every_step(postgres_url: str) -> None:
    pair = Pair(postgres_url)

    class OnThisPair(Differential):
        def __init__(self) -> None:
            super().__init__(pair)

    try:
        run_state_machine_as_test(OnThisPair, settings=chosen_profile())
    finally:
        pair.close()
