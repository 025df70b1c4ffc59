"""What handlers leave in their worker's process does not keep it from ending."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.processes import rude
from tests.processes.support import Place, until

LEAVING = [
    pytest.param(rude.leave_thread, [], id="thread"),
    pytest.param(rude.leave_thread, ["--processes", "2"], id="thread, one of several processes"),
    pytest.param(rude.leave_task, [], id="task"),
    pytest.param(rude.leave_process, [], id="process"),
    pytest.param(rude.fill_pool, [], id="pool"),
]


@pytest.mark.parametrize(("job", "arguments"), LEAVING)
def test_a_worker_ends_although_a_handler_left_something(
    sqlite_place: Place, job: Any, arguments: list[str]
) -> None:
    worker = sqlite_place.work(*arguments, target="tests.processes.rude:app")
    sqlite_place.submit(job.call("something"))
    until(lambda: not sqlite_place.left())
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    [left] = worker.events("left_behind")
    assert left["worker"].startswith(worker.name)
    [name] = left["names"]
    assert "something" in name
    assert sqlite_place.effects("stopped", "hook")
    assert not sqlite_place.effects("ended", "something")
    assert not sqlite_place.views()
