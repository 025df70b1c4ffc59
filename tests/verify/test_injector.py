"""What becomes of a run whose faults cannot be made."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import psycopg
import pytest

from inturn.queue.app import App
from inturn.verify.run import Verification, Wanted
from tests.verify.support import explained

pytestmark = pytest.mark.timeout(600)


class StuckSwitch:
    """A switch that moves nothing."""

    def choose(self, random: Random) -> str:
        return "fast"

    async def stop(self, how: str) -> None:
        raise RuntimeError("the switch is stuck")

    async def start(self) -> None: ...


def test_a_fault_that_could_not_be_made_is_told_and_the_run_is_not_good(
    tmp_path: Path, postgres_url: str
) -> None:
    asyncio.run(App(postgres_url).migrate())
    wanted = Wanted(
        store=postgres_url,
        seed=1,
        jobs=None,
        seconds=1.5,
        workers=1,
        producers=1,
        faults=("stop-server",),
        gap_seconds=0.3,
        folder=tmp_path,
    )
    report = asyncio.run(Verification(wanted, switch=StuckSwitch()).run())
    assert (report.violations, report.is_good) == ([], False)
    [failure] = report.failures
    assert "stop-server, which could not be made: RuntimeError: the switch is stuck" in failure
    assert failure in explained(report)
    with psycopg.connect(postgres_url) as connection:  # no promise was broken: nothing stays
        left = connection.execute("select 1 from pg_class where relname like 'inturn_verify_%'")
        assert left.fetchall() == []
