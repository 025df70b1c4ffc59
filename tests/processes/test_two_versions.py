"""Two versions of inturn at work on one database: a deploy that stops nothing."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

import inturn
from tests.cli.support import COMMAND
from tests.processes.jobs import count
from tests.processes.support import ROOT, Place, WorkerProcess, is_in_turn, until

KEYS = ("a", "b", "c", "d")


@pytest.fixture
def newer(tmp_path: Path) -> str:
    """The folder of a newer inturn: other SQL functions, and one migration more, on which this one
    still works.
    """
    package = tmp_path / "newer" / "inturn"
    shutil.copytree(Path(inturn.__file__).parent, package)
    module = package / "__init__.py"
    module.write_text(module.read_text().replace(inturn.__version__, "9.9.9"))
    function = package / "store/postgres/functions/enqueue.sql"
    function.write_text(function.read_text().replace("this job cannot be", "by 9.9.9 this is not"))
    for engine, table in (("sqlite", "worker"), ("postgres", "inturn.worker")):
        folder = package / "store" / engine / "migrations"
        last = max(int(file.name[:4]) for file in folder.glob("*.sql"))
        (folder / f"{last + 1:04}_newer.sql").write_text(
            f"-- A column that only the newer program knows.\n"
            f"-- oldest version that still works: {last}\n"
            f"alter table {table} add column newer text;\n"
        )
    return str(package.parent)


def migrate(place: Place) -> int:
    """Run `inturn store migrate` as the version that the place stands for."""
    ran = subprocess.run(
        [*COMMAND, "store", "migrate", "--store", place.url, "--json"],
        cwd=ROOT,
        env=place.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout)
    version: int = answer["schema_version"]
    return version


def said_by_sql(url: str) -> str:
    """Return what the public SQL function says of a job that it refuses."""
    with psycopg.connect(url) as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute("select inturn.enqueue('', 'send')")
    return str(refused.value)


def test_two_versions_work_on_one_database_at_once(place: Place, newer: str) -> None:
    """The old one's `store migrate` undoes nothing of the newer. (B-03)"""

    def submit(first: int) -> None:
        place.submit(*(count.using(key=key).call(key, first + n) for n in range(5) for key in KEYS))

    def works(worker: WorkerProcess, since: int) -> bool:
        return worker.pid in {one.pid for one in place.effects()[since:]}

    before = migrate(place)
    old = place.work("--concurrency", "1")
    submit(0)
    until(lambda: len(place.effects()) == 20)

    place.environment["PYTHONPATH"] = newer
    assert migrate(place) == before + 1
    new = place.work("--concurrency", "1")
    until(lambda: {view.version for view in place.views()} == {inturn.__version__, "9.9.9"})
    submit(5)
    place.until_done()

    del place.environment["PYTHONPATH"]
    assert migrate(place) == before + 1
    started = place.work(
        "--concurrency", "1"
    )  # the old one may start again: a deploy is taken back
    since, number = len(place.effects()), 10
    while not all(works(worker, since) for worker in (old, new, started)):
        submit(number)
        number += 5
        place.until_done()
    for key in KEYS:
        ran = place.effects("count", key)
        assert len(ran) == number
        assert is_in_turn(ran)
    if place.url.startswith("postgresql"):
        assert re.search(r"by 9\.9\.9 this is not", said_by_sql(place.url))
