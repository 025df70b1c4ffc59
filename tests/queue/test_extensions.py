"""Where applications attach: by name, once for each app, imported when they are first used."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from inturn import App
from inturn.model.errors import BadInput
from inturn.worker.worker import Worker
from tests.queue.sample_extension import Greetings
from tests.worker.conftest import until, working

SAMPLE = "tests.queue.sample_extension"


def test_an_application_is_attached_once_for_each_app_from_however_many_threads() -> None:
    one, other = App("sqlite:///:memory:"), App("sqlite:///:memory:")
    with ThreadPoolExecutor(8) as threads:
        attached = {id(found) for found in threads.map(lambda _: one.extension(SAMPLE), range(50))}
    assert attached == {id(one.extension(SAMPLE))}
    assert other.extension(SAMPLE) is not one.extension(SAMPLE)
    assert list(one.jobs) == list(other.jobs) == ["greetings.greet"]


async def test_a_worker_runs_the_jobs_of_an_application_that_is_attached() -> None:
    app = App("sqlite:///:memory:")
    greetings: Greetings = app.extension(SAMPLE)
    async with app:
        await greetings.greet.submit(name="Ada")
        await Worker(app).run(until_empty=True)
    assert greetings.greeted == ["Ada"]


@pytest.mark.parametrize("name", ["tree", "not_there", "not_there.either"])
def test_an_application_that_is_not_installed_is_named(name: str) -> None:
    with pytest.raises(BadInput, match=f"no application {name!r}"):
        App("sqlite:///:memory:").extension(name)


def test_an_app_imports_no_application_before_it_is_used() -> None:
    script = (
        "import sys, inturn; inturn.App('sqlite:///:memory:'); inturn.Worker; "
        "ours = [f'inturn.{name}' for name in ('groups', 'shards', 'tree', 'poll')]; "
        "assert not set(ours) & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


async def test_a_worker_attaches_an_application_once_the_store_has_a_queue_of_it(url: str) -> None:
    """One that is installed and not used costs nothing; its first use reaches workers that run."""
    app, other, ran = App(url), App(url), list[str]()

    async def note() -> None:
        ran.append("note")

    for one in (app, other):
        one.job(note)
    await app.migrate()  # makes the tables of what is installed
    async with app, other, working(app, sweep_seconds=0.1) as worker:
        store = await other.lend()
        await until(store.workers)
        assert (app.extensions, worker.kinds, worker.queues) == ({}, ("note",), ["default"])
        other.node("n1")
        async with other.group("first") as group:
            group.step("s", node="n1", do=other.jobs["note"].call(), irreversible=True)
        await until(lambda: ran)

        async def holds_its_duty() -> bool:
            [seen] = await store.workers()
            return seen.duties == ("groups.prune",)

        await until(holds_its_duty)
    assert set(app.extensions) == {"inturn.groups"}
    assert set(worker.kinds) == set(app.jobs)
