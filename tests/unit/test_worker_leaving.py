"""A loop that something else than its own work wants to leave."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from inturn.worker.leaving import _run_to_its_end


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    one = asyncio.new_event_loop()
    yield one
    one.close()


def fail_with(error: BaseException) -> None:
    raise error


async def work(error: BaseException, done: list[str]) -> None:
    asyncio.get_running_loop().call_soon(fail_with, error)
    await asyncio.sleep(0.01)
    done.append("done")


def test_what_raises_system_exit_on_the_loop_is_named_in_the_log_and_the_work_goes_on(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []
    _run_to_its_end(loop, work(SystemExit(3), done))
    assert done == ["done"]
    [said] = caplog.records
    assert "that a handler started raised SystemExit: 3. It has ended with that" in said.message
    assert said.exc_info is not None, "where it was raised"


def test_what_raises_system_exit_in_the_moment_in_which_the_work_ends_is_not_its_end(
    loop: asyncio.AbstractEventLoop,
) -> None:
    async def end() -> None:
        asyncio.get_running_loop().call_soon(fail_with, SystemExit(3))

    _run_to_its_end(loop, end())


def test_the_works_own_exit_ends_it(loop: asyncio.AbstractEventLoop) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        _run_to_its_end(loop, leave())


def test_ctrl_c_ends_the_work_where_python_itself_hears_it(
    loop: asyncio.AbstractEventLoop,
) -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        _run_to_its_end(loop, work(KeyboardInterrupt(), done))
    for left in asyncio.all_tasks(loop):
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(left)
    assert not done
