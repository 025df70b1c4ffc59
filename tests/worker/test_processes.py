"""Jobs in child processes: the same ends as elsewhere, killed in time, the worker unharmed."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio

from inturn.model.errors import BadInput, JobFailed, ResultLost
from inturn.model.job import JobState
from inturn.queue.app import App
from inturn.worker import suspects
from inturn.worker import worker as worker_module
from inturn.worker.worker import Worker
from tests.worker.conftest import take_leases, until, working

both_stores = pytest.mark.parametrize("jobs", ["sqlite", "postgres"], indirect=True)


@pytest_asyncio.fixture
async def jobs(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ModuleType]:
    """The module of jobs, its app on a store of this test; children find the same store."""
    url = f"sqlite:///{tmp_path / 'work.db'}"
    if getattr(request, "param", "sqlite") == "postgres":
        url = request.getfixturevalue("migrated_url")
    monkeypatch.setenv("INTURN_STORE", url)
    monkeypatch.delitem(sys.modules, "tests.worker.process_jobs", raising=False)
    module = importlib.import_module("tests.worker.process_jobs")
    yield module
    assert await module.app.run(lambda store: store.check()) == []
    await module.app.close()


async def result_of(job: Any, *arguments: Any) -> Any:
    return await (await job.submit(*arguments)).result(timeout=60)


async def reason_of(job: Any, *arguments: Any) -> str:
    with pytest.raises(JobFailed) as failed:
        await result_of(job, *arguments)
    return str(failed.value.reason)


async def test_a_child_runs_one_job_after_another_and_ends_with_its_worker(
    jobs: ModuleType,
) -> None:
    async with working(jobs.app, concurrency=2):
        ran = [await result_of(jobs.where, n) for n in range(3)]
        ran += [await result_of(jobs.where_async, n) for n in range(3)]
        assert [n for n, _ in ran] == [0, 1, 2, 0, 1, 2]
        [pid] = {pid for _, pid in ran}
        assert pid != os.getpid()
        assert is_alive(pid)
    await until(lambda: not is_alive(pid))


async def test_a_signal_to_all_processes_is_left_to_the_worker(jobs: ModuleType) -> None:
    async with working(jobs.app, concurrency=1):
        _, pid = await result_of(jobs.where, 1)
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(pid, number)
        assert await result_of(jobs.where, 2) == (2, pid)


async def test_as_many_children_as_run_at_once_and_no_more(jobs: ModuleType) -> None:
    async with working(jobs.app, concurrency=3):
        tickets = [await jobs.where.submit(n) for n in range(30)]
        pids = {(await ticket.result(timeout=60))[1] for ticket in tickets}
    assert 1 <= len(pids) <= 3


async def test_a_suspect_waits_until_its_worker_is_empty_though_it_has_a_process(
    jobs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ASK_SECONDS", "EMPTY_SECONDS", "TURN_SECONDS"):
        monkeypatch.setattr(suspects, name, 0.1)
    monkeypatch.setattr(worker_module, "POLL_SECONDS", 0.05)
    ran, path = tmp_path / "ran", tmp_path / "held"
    suspect = await jobs.comes_later.submit(str(ran))
    await jobs.app.run(lambda store: store.claim("default", jobs_max=1, worker="gone"))
    held = await jobs.holds.submit(str(path))
    async with working(jobs.app, concurrency=5) as worker:
        await until(path.exists)
        await take_leases(jobs.app, worker="gone")
        await until(lambda: ran.exists() or worker.record.counts.released > 1)
        assert not ran.exists(), "it was found, and given back"
        path.unlink()
        await held.result(timeout=60)
        assert await suspect.result(timeout=60) == "done"


@both_stores
async def test_a_context_works_over_the_line(jobs: ModuleType) -> None:
    async with working(jobs.app):
        said = await result_of(jobs.about)
    assert said.pop("token") > 0
    assert said == {"attempt": 1, "has_deadline": True, "is_last": False, "around": True}


async def test_a_transaction_is_refused_with_what_to_do(jobs: ModuleType) -> None:
    async with working(jobs.app):
        reason = await reason_of(jobs.transacts)
    assert "BadInput: a job with process=True has no ctx.transaction()" in reason


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("kill", "ChildDied: its process was killed by SIGKILL"),
        ("_exit", "ChildDied: its process ended with exit code 3"),
        ("exit", "SystemExit: it called sys.exit(3)"),
        ("raise", "ValueError: boom"),
    ],
)
async def test_however_a_child_ends_it_is_a_failed_attempt_and_the_worker_lives(
    jobs: ModuleType, how: str, said: str
) -> None:
    async with working(jobs.app):
        reason = await reason_of(jobs.ends, how)
        assert reason.startswith(f"failed 2 times, the last time: {said}")
        assert (await result_of(jobs.where, 7))[0] == 7


async def test_a_handler_in_a_child_decides_what_becomes_of_its_job(
    jobs: ModuleType, tmp_path: Path
) -> None:
    async with working(jobs.app):
        assert await reason_of(jobs.ends, "reject") == "rejected: no such customer"
        ticket = await jobs.comes_later.submit(str(tmp_path / "tried"))
        assert await ticket.result(timeout=60) == "done"
        assert (await ticket.status()).errors == ()


async def test_what_a_child_cannot_encode_is_done_and_not_kept(
    jobs: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(jobs.app):
        with pytest.raises(ResultLost):
            await result_of(jobs.unkeepable)
    assert "(unkeepable) is done, and its result is not kept" in caplog.text


async def test_a_child_is_killed_at_its_timeout_with_all_that_it_started(
    jobs: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "pids"
    async with working(jobs.app):
        while not path.exists():  # on a busy machine its time may be up before it has begun
            assert "TimeoutError: it took longer than 1 s" in await reason_of(jobs.hangs, str(path))
        pids = [int(pid) for pid in path.read_text().split()]
        await until(lambda: not any(map(is_alive, pids)))
        assert (await result_of(jobs.where, 7))[0] == 7


@both_stores
async def test_a_job_submitted_in_a_child_reaches_the_same_store(jobs: ModuleType) -> None:
    async with working(jobs.app):
        for n in range(2):
            await result_of(jobs.submits, n)
            await result_of(jobs.submits_sync, n)

        async def all_done() -> bool:
            done = await jobs.app.run(lambda store: store.jobs(kind="plain", state=JobState.DONE))
            return len(done.rows) == 4

        await until(all_done)


SCRIPT = """
import asyncio
import inturn

app = inturn.App()

@app.job(process=True)
def says(word: str) -> str:
    print(f"heard {word}", flush=True)
    return f"{word} {__name__}"

async def main():
    worker = inturn.Worker(app)
    running = asyncio.create_task(worker.run())
    print(await (await says.submit("hello")).result(timeout=60), flush=True)
    worker.stop()
    await running

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTURN_STORE", f"sqlite:///{tmp_path / 'work.db'}")
    path = tmp_path / "program.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize("arguments", [["program.py"], ["-m", "program"]], ids=["file", "module"])
def test_a_job_of_the_main_program_is_found_and_its_output_seen(
    script: Path, arguments: list[str]
) -> None:
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=script.parent, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["heard hello", "hello __mp_main__"]


def test_a_program_that_starts_a_worker_when_it_is_imported_is_told_of_the_guard(
    script: Path,
) -> None:
    declared, _, _ = SCRIPT.partition("async def main")
    script.write_text(f"{declared}asyncio.run(inturn.Worker(app).run())\n")
    ran = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=100, check=False
    )
    said = ran.stderr.splitlines()[-1]
    assert "below `if __name__ == '__main__':`, or leave out process=True." in said
    assert said.count("process=True") == 2, "it is said once, not inside itself"


def test_a_job_that_a_child_could_not_find_is_refused_when_it_is_declared() -> None:
    app = App("sqlite:///:memory:")

    def closure() -> None: ...

    with pytest.raises(BadInput, match="its function is defined inside another"):
        app.job(process=True)(closure)
    assert app.jobs == {}


async def test_a_job_that_stands_in_no_module_is_refused_when_a_worker_starts() -> None:
    app = App("sqlite:///:memory:")
    app.job(process=True)(is_alive)
    with pytest.raises(BadInput, match=r"neither it nor its app stands in module 'tests\.worker"):
        await Worker(app).run()
    await app.close()


async def test_a_module_that_a_child_cannot_import_is_refused_when_a_worker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTURN_STORE", "sqlite:///:memory:")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "once_only.py").write_text(
        textwrap.dedent("""
            import os, inturn
            app = inturn.App()
            @app.job(process=True)
            def work() -> None: ...
            if os.environ.get("INTURN_ONCE"):
                raise RuntimeError("only once")
        """)
    )
    module = importlib.import_module("once_only")
    monkeypatch.setenv("INTURN_ONCE", "1")
    with pytest.raises(BadInput, match=r"importing module 'once_only' failed with .*only once"):
        await Worker(module.app).run()
    await module.app.close()
    monkeypatch.delitem(sys.modules, "once_only")


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that ended and was not waited for does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
    except PermissionError:
        return True
