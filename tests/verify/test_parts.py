"""The parts of a run, each alone: the history, the workload, the proxy, the switch."""

from __future__ import annotations

import asyncio
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from inturn.model.job import NewJob
from inturn.verify.crew import Member
from inturn.verify.faults import CommandSwitch
from inturn.verify.history import Ended, Failed, History, Reader, Started, read_all
from inturn.verify.orders import FULL_BYTES
from inturn.verify.plan import FIRST_TROUBLE, MISBEHAVING, Settings, Workload
from inturn.verify.points import Points
from inturn.verify.proxy import Proxy
from inturn.verify.recovery import Recovery
from inturn.verify.report import slowest_of
from tests.worker.conftest import until

A = UUID(int=1)


def test_a_history_is_read_as_it_grows_and_half_a_line_is_left_for_later(tmp_path: Path) -> None:
    history, reader = History(tmp_path, "worker-1-1"), Reader(tmp_path)
    first = history.write(Started(job=A, token=1, attempt=1, pid=7))
    assert list(reader.news()) == [("worker-1-1", first)]
    assert list(reader.news()) == []
    [path] = tmp_path.iterdir()
    with path.open("ab") as file:
        file.write(b'{"event":"ended","at":1.0,"job":')
    assert list(reader.news()) == []
    with path.open("ab") as file:
        file.write(b'"00000000-0000-0000-0000-000000000001","token":1,"ok":true}\n')
    assert list(reader.news()) == [("worker-1-1", Ended(at=1.0, job=A, token=1, ok=True))]


def test_a_file_that_may_not_grow_is_followed_by_another(tmp_path: Path) -> None:
    def write() -> list[Started]:
        history = History(tmp_path, "worker-1-1")
        count = 2 * FULL_BYTES // 100
        return [history.write(Started(job=A, token=n, attempt=1, pid=7)) for n in range(count)]

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_BYTES, hard))
    try:
        written = write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(list(tmp_path.iterdir())) > 1
    assert [event for _, event in read_all(tmp_path)] == written


def test_the_same_seed_submits_the_same_jobs() -> None:
    def seen(seed: int) -> list[list[tuple[object, ...]]]:
        settings = Settings(run="r", store="", folder="", seed=seed, handlers=("raises", "exits"))
        batches = islice(Workload(settings, "producer-1-1"), 200)
        return [[_content(job) for job in batch.jobs] for batch in batches]

    assert seen(1) == seen(1)
    assert seen(1) != seen(2)
    flat = [job for batch in seen(1) for job in batch]
    assert {kind for kind, *_ in flat} >= {"plain", "effect", "flaky", "hopeless", "isolated"}


@pytest.mark.parametrize("seed", range(10))
def test_each_sort_of_trouble_comes_soon_and_is_not_cancelled(seed: int) -> None:
    handlers = tuple({handler for handler, _, _ in MISBEHAVING})
    settings = Settings(run="r", store="", folder="", seed=seed, handlers=handlers)
    first = islice(Workload(settings, "producer-1-1"), FIRST_TROUBLE + len(MISBEHAVING))
    seen = {job.kind for batch in first for job in batch.jobs if job.id not in batch.cancels}
    assert {job.kind for _, _, job in MISBEHAVING} <= seen


def test_trouble_that_is_not_wanted_does_not_come() -> None:
    settings = Settings(run="r", store="", folder="", seed=1, handlers=("blocks",))
    batches = islice(Workload(settings, "producer-1-1"), 200)
    seen = {job.kind for batch in batches for job in batch.jobs}
    assert seen & {job.kind for _, _, job in MISBEHAVING} == {"blocks"}


def test_the_longest_recovery_is_shown_beside_its_own_bound() -> None:
    def took(seconds: float, seconds_max: float) -> Recovery:
        return Recovery(
            worker="worker-1-1",
            how="kill-worker",
            job=A,
            since="that",
            seconds=seconds,
            seconds_max=seconds_max,
        )

    longest = took(9.0, 20.0)
    assert slowest_of([took(1.0, 40.0), longest, took(3.0, 10.0)]) is longest
    assert slowest_of([]) is None


def _content(job: NewJob) -> tuple[object, ...]:
    """Return what of a job comes from the seed: its id does not."""
    return job.kind, job.payload, job.queue, job.key, job.round, job.delay_seconds, len(job.after)


def test_a_process_dies_at_the_point_it_was_told_and_says_so(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from inturn.verify.history import History; from inturn.verify.points import Points\n"
        "points = Points(History(Path(sys.argv[1]), 'worker-1-1'))\n"
        "points.die_at('after-claim')\n"
        "points.reach('before-claim'); points.reach('after-claim'); print('still there')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (-9, b"")
    [(_, fault)] = read_all(tmp_path)
    assert (fault.name, fault.detail) == ("kill-at", "after-claim")  # type: ignore[union-attr]


def test_a_point_that_nobody_named_is_passed(tmp_path: Path) -> None:
    points = Points(History(tmp_path, "worker-1-1"))
    points.reach("in-handler")
    assert read_all(tmp_path) == []


def test_an_order_that_cannot_be_obeyed_is_written_down_and_the_next_is_heard(
    tmp_path: Path,
) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from inturn.verify.history import History; from inturn.verify.orders import Orders\n"
        "Orders(History(Path(sys.argv[1]), 'worker-1-1'), {'clock': float, 'say': print}).start()\n"
        "time.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        input=b"clock wise\nsay still here\n",
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    [(who, failed)] = read_all(tmp_path)
    assert isinstance(failed, Failed)
    assert (who, failed.name) == ("worker-1-1", "clock")
    assert "ValueError" in failed.error


async def test_a_server_is_stopped_and_started_by_commands(tmp_path: Path) -> None:
    running = tmp_path / "running"
    switch = CommandSwitch([f"rm {running}", f"rm -f {running}"], f"touch {running}")
    await switch.start()
    assert running.exists()
    await switch.stop(switch.choose(Random(1)))
    assert not running.exists()


@asynccontextmanager
async def echoing() -> AsyncIterator[tuple[int, bytearray]]:
    """A server that answers with what it hears; yields its port and all that it heard."""
    heard = bytearray()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(1024):
            heard.extend(chunk)
            writer.write(chunk)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], heard


@pytest.mark.parametrize(("cut", "reaches"), [("request", b"hel"), ("answer", b"hello!")])
async def test_a_proxy_cuts_in_the_middle_of_a_request_or_before_its_answer(
    cut: str, reaches: bytes
) -> None:
    cuts: list[str] = []
    async with echoing() as (server, heard), Proxy.before("localhost", server) as proxy:
        port = proxy.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"before")
        assert await reader.readexactly(6) == b"before"
        proxy.cut("request" if cut == "request" else "answer", cutting=lambda: cuts.append(cut))
        assert cuts == []
        writer.write(b"hello!")
        async with asyncio.timeout(30):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(6)
        await until(lambda: bytes(heard) == b"before" + reaches, 30)
        writer.close()
        again, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"after")
        assert await again.readexactly(5) == b"after"
        writer.close()
    assert cuts == [cut]


async def test_a_signal_leaves_the_exit_code_to_who_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To look whether a process has ended, as ``Popen`` does before a signal, takes its code."""
    member = Member("worker", 1)
    member.process = await asyncio.create_subprocess_exec("sleep", "600")
    looked: list[int] = []
    monkeypatch.setattr(subprocess.Popen, "poll", lambda process: looked.append(process.pid))
    member.signal(signal.SIGTERM)
    assert await member.process.wait() == -signal.SIGTERM
    assert looked == []
    member.signal(signal.SIGTERM)  # nobody is there any more
