"""What runs when its event loop ends, without a word to the worker, is given back, not blamed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from inturn.model.job import JobState, JobView
from inturn.queue.app import App
from tests.worker import loop_ends
from tests.worker.conftest import SECONDS_MAX

ROOT = Path(__file__).parents[2]
COUNT = len(loop_ends.KEYS)


@pytest.mark.parametrize(
    "end",
    [
        loop_ends.returns_without_a_stop,
        loop_ends.is_interrupted_twice,
        loop_ends.returns_beside_its_worker,
        loop_ends.cancels_all_there_is,
    ],
)
async def test_what_runs_when_its_loop_ends_is_given_back_and_no_attempt_counted(
    url: str, end: object
) -> None:
    views, said = await _ended(url, end)
    assert [(one.state, one.attempt, one.reason) for one in views] == [
        (JobState.WAITING, 0, None)
    ] * COUNT
    assert "raised" not in said
    assert "is dead" not in said


async def test_a_def_that_cannot_be_cancelled_when_its_loop_ends_is_not_counted_either(
    url: str,
) -> None:
    views, _ = await _ended(url, loop_ends.returns_beside_a_thread)
    assert [one.attempt for one in views] == [0] * COUNT
    # For a second, in which its thread should be gone: that may be over by now.
    assert {one.state for one in views} <= {JobState.SCHEDULED, JobState.WAITING}


@pytest.mark.parametrize(
    "end",
    [
        loop_ends.has_a_job_that_cancels_all,
        loop_ends.has_a_job_that_cancels_all_others,
        loop_ends.has_a_job_whose_task_cancels_all,
    ],
)
async def test_the_attempts_that_a_handler_cancels_with_all_there_is_have_failed(
    url: str, end: object
) -> None:
    views, said = await _ended(url, end)
    assert [one.state for one in views] == [JobState.DEAD] * COUNT
    assert "the handler raised it by itself" in said


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'work.db'}"
    found: str = request.getfixturevalue("migrated_url")
    return found


async def _ended(url: str, end: object) -> tuple[list[JobView], str]:
    """Let a process end as it does; return its jobs as they are then, and what its log says."""
    command = [sys.executable, "-m", "tests.worker.loop_ends", url, getattr(end, "__name__", "")]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(SECONDS_MAX):
            out, log = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert (process.returncode, out) == (0, b"ended\n"), log.decode()
    async with App(url) as app:
        store = await app.lend()
        assert await store.check() == []
        return list((await store.jobs()).rows), log.decode()
