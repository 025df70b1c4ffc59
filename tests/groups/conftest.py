"""An app on each sort of store with three nodes, and jobs whose effects a test can see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from inturn import App, Effect, RetryPolicy, Worker
from inturn.groups.group import Group, GroupResult

SECONDS_MAX = 60.0
SOON = RetryPolicy(attempts_max=3, base_seconds=0.01, cap_seconds=0.02)


class Nodes:
    """What is there on the nodes, and what was done there, in order.

    ``fail``: what happens to an action the next times it runs: an error to raise, a number of
    seconds to sleep, or ``late``: it is applied, and then raises.
    """

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.done: list[str] = []
        self.fail: dict[str, list[Any]] = {}
        self.answers: dict[str, list[Any]] = {}
        self.running: dict[str, int] = {}
        self.most_running: dict[str, int] = {}

    async def happen(self, action: str, name: str, *, applies: bool) -> None:
        self.done.append(f"{action} {name}")
        failures = self.fail.get(f"{action} {name}", [])
        failure = failures.pop(0) if failures else None
        if isinstance(failure, float):
            await asyncio.sleep(failure)
        if isinstance(failure, Exception):
            raise failure
        (self.there.add if applies else self.there.discard)(name)
        if failure == "late":
            raise TimeoutError("nobody answered")

    def effects(self) -> list[str]:
        """What was done and undone, without the verifies."""
        return [one for one in self.done if not one.startswith("verify")]


class Jobs:
    """The jobs of the app: ``do``, ``undo``, ``verify``, each with the name of what it is about."""

    def __init__(self, app: App, nodes: Nodes) -> None:
        self.app, self.nodes = app, nodes

        @app.job(retry=SOON)
        async def do(name: str) -> None:
            await nodes.happen("do", name, applies=True)

        @app.job(retry=SOON)
        async def undo(name: str) -> None:
            await nodes.happen("undo", name, applies=False)

        @app.job
        async def verify(name: str) -> str:
            nodes.done.append(f"verify {name}")
            answers = nodes.answers.get(name, [])
            answer = answers.pop(0) if answers else None
            if isinstance(answer, Exception):
                raise answer
            if answer is not None:
                return str(answer)
            return Effect.APPLIED if name in nodes.there else Effect.NOT_APPLIED

        self.do, self.undo, self.verify = do, undo, verify
        for node in ("n1", "n2", "n3"):
            app.node(node)

    def step(
        self, group: Group, name: str, node: str = "n1", *, verified: bool = False, **options: Any
    ) -> Any:
        """Add a step whose effect is its name."""
        if not options.get("irreversible"):
            options.setdefault("undo", self.undo.call(name))
        if verified:
            options["verify"] = self.verify.call(name)
        return group.step(name, node=node, do=self.do.call(name), **options)

    @asynccontextmanager
    async def working(self, **options: Any) -> AsyncIterator[Worker]:
        """Let a worker work meanwhile."""
        worker = Worker(self.app, sweep_seconds=0.5, **options)
        running = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            async with asyncio.timeout(SECONDS_MAX):
                await running

    async def result(self, group: Group) -> GroupResult:
        """Run a group to its end."""
        async with self.working():
            return await group.result(timeout=SECONDS_MAX)


@pytest_asyncio.fixture(params=["sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[App]:
    """An app with nothing declared on it; afterwards its store must hold together."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'work.db'}"
    else:
        url = request.getfixturevalue("migrated_url")
    app = App(url)
    yield app
    assert await app.run(lambda store: store.check()) == []
    await app.close()


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
def jobs(app: App, nodes: Nodes) -> Jobs:
    return Jobs(app, nodes)


async def until(condition: Callable[[], Any]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            found = condition()
            if isinstance(found, Awaitable):
                found = await found
            if found:
                return
            await asyncio.sleep(0.01)


def states(result: GroupResult) -> dict[str, str]:
    """Return the state of each step."""
    return {step.name: step.state.value for step in result.steps}
