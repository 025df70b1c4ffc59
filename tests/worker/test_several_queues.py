"""A worker of several queues: none of them waits for another that keeps waking it."""

from __future__ import annotations

from inturn.queue.app import App
from tests.worker.conftest import working


async def test_work_in_a_later_queue_is_found_whatever_wakes_the_worker(app: App) -> None:
    @app.job(queue="a")
    async def first() -> None: ...

    @app.job(queue="b")
    async def second() -> int:
        return 2

    for _ in range(10):  # each time anew: a worker that begins looks at every queue at once
        async with working(app):
            assert await (await second.submit()).result(timeout=60) == 2
