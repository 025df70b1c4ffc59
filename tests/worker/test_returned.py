"""What handlers return that cannot be kept, whatever it raises when it is looked at."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from inturn.model.errors import ResultLost
from inturn.model.job import JobState
from inturn.queue.app import App
from tests.worker.conftest import SECONDS_MAX, working


class _Model:
    """What is written by a method of its own, as a model of pydantic is."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def model_dump_json(self, **_: Any) -> str:
        raise self._error

    @classmethod
    def model_validate_json(cls, _text: str) -> _Model:
        raise AssertionError("nothing was written")


def _deep() -> Any:
    nest: Any = []
    for _ in range(sys.getrecursionlimit() * 20):
        nest = [nest]
    return nest


ODD = {
    "ZeroDivisionError: by zero": lambda: _Model(ZeroDivisionError("by zero")),
    "SystemExit: 3": lambda: _Model(SystemExit(3)),
    "nested": _deep,
}


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
@pytest.mark.parametrize("odd", ODD)
async def test_a_result_that_raises_when_it_is_written_does_not_run_the_job_again(
    app: App, odd: str, is_async: bool
) -> None:
    ran: list[int] = []

    if is_async:

        @app.job
        async def work() -> Any:
            ran.append(1)
            return ODD[odd]()
    else:

        @app.job
        def work() -> Any:
            ran.append(1)
            return ODD[odd]()

    async with working(app):
        ticket = await work.submit()
        with pytest.raises(ResultLost, match=odd):
            await ticket.result(timeout=SECONDS_MAX)
    status = await ticket.status()
    assert (ran, status.state, status.errors) == ([1], JobState.DONE, ())
