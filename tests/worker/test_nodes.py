"""Workers for some nodes: which queues a worker serves, told and untold, local and not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from inturn.model.lane import QueueSettings
from inturn.queue.app import App
from inturn.queue.extensions import Extension
from inturn.store.store import Store
from inturn.worker.worker import Worker
from tests.worker.conftest import until, working

LOCAL = QueueSettings(local=True)
SWEEP_SECONDS = 0.1


class Nodes(Extension):
    has_nodes = True


def made(url: str, ran: list[str], *, has_nodes: bool = True) -> App:
    app = App(url)

    @app.job(queue="mail")
    async def step(name: str) -> None:
        ran.append(name)

    if has_nodes:
        app.extensions["nodes"] = Nodes(app)
    return app


async def submit(app: App, *names: str) -> None:
    """Submit a job to the node of each name."""
    job = app.jobs["step"]
    await app.submit_many([job.using(queue=f"node:{name}").call(name=name) for name in names])


async def configure(app: App, settings: QueueSettings, *nodes: str) -> None:
    async def configured(store: Store) -> None:
        for node in nodes:
            await store.configure(f"node:{node}", settings)

    await app.run(configured)


async def serves(app: App, **options: object) -> list[str]:
    worker = Worker(app, **options)  # type: ignore[arg-type]
    await worker.run(until_empty=True)
    return worker.queues


@pytest.mark.parametrize(
    ("options", "queues"),
    [
        ({}, ["mail", "node:b"]),
        ({"nodes": ["a"]}, ["mail", "node:b", "node:a"]),
        ({"nodes": ["b"]}, ["mail", "node:b"]),
        ({"queues": ["mail"]}, ["mail"]),
        ({"queues": ["mail"], "nodes": ["a"]}, ["mail", "node:a"]),
        ({"queues": ["node:a"]}, ["node:a"]),
    ],
    ids=str,
)
async def test_a_worker_serves_what_it_is_told_and_every_node_that_is_not_local(
    url: str, options: dict[str, Iterable[str]], queues: list[str]
) -> None:
    """(B-04)"""
    ran: list[str] = []
    async with made(url, ran) as app:
        await configure(app, LOCAL, "a")
        await submit(app, "a", "b")
        assert await serves(app, **options) == queues
    assert sorted(ran) == sorted(one.removeprefix("node:") for one in queues if one != "mail")


async def test_without_an_application_that_has_nodes_none_is_looked_for(url: str) -> None:
    async with made(url, [], has_nodes=False) as app:
        await submit(app, "b")
        assert await serves(app) == ["mail"]
        assert await serves(app, nodes=["b"]) == ["mail", "node:b"]


async def test_a_local_queue_is_not_served_by_those_who_do_not_name_it(url: str) -> None:
    ran: list[str] = []
    async with made(url, ran) as app:
        app.queue("mail", local=True)
        await app.jobs["step"].submit(name="here")
        assert await serves(app) == []
        assert ran == []
        assert await serves(app, queues=["mail"]) == ["mail"]
    assert ran == ["here"]


async def test_nodes_that_come_and_go_are_heard_of_at_the_next_sweep(url: str) -> None:
    ran: list[str] = []
    async with made(url, ran) as app:
        async with working(app, sweep_seconds=SWEEP_SECONDS) as worker:
            await until(lambda: worker.queues == ["mail"])
            await submit(app, "late")
            await until(lambda: ran == ["late"])
            assert worker.queues == ["mail", "node:late"]
            await configure(app, LOCAL, "late")
            await until(lambda: worker.queues == ["mail"])
            await submit(app, "late")
            await asyncio.sleep(5 * SWEEP_SECONDS)
        assert ran == ["late"]


async def test_explain_says_that_nobody_serves_a_local_node(url: str) -> None:
    """(B-04)"""
    async with made(url, []) as app:
        await configure(app, LOCAL, "pg 1")
        ticket = await app.jobs["step"].using(queue="node:pg 1").submit(name="x")
        async with working(app, sweep_seconds=SWEEP_SECONDS):
            said = await app.run(lambda store: store.explain(ticket.id))
        assert "queue 'node:pg 1' is local, and no live worker that serves it" in said
        assert "start one with --node 'pg 1'" in said
