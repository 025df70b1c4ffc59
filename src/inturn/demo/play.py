"""Plays the demo: jobs are submitted, one worker is killed, a dead job is mended, all is checked.

Nothing is staged but the faults. What is printed is what the handlers wrote down and the store
answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import msgspec
from rich.console import Console

from inturn.demo import shop
from inturn.model.job import JobState, NewJob
from inturn.model.lane import OnDead, QueueSettings
from inturn.store.address import connect
from inturn.store.store import Store

CUSTOMERS = {"ada": "green", "ben": "blue", "cleo": "yellow", "dora": "magenta"}
ORDERS, MAILS, WORKERS = 4, 6, 3
LEASE, SECONDS_MAX = "5s", 90.0


def run(*, as_json: bool = False) -> None:
    """Play, print, and exit with 1 if something was not as promised."""
    with TemporaryDirectory(prefix="inturn-demo-") as folder:
        demo = Demo(Path(folder), Console(quiet=as_json, highlight=False))
        try:
            found = asyncio.run(demo.play())
        except (KeyboardInterrupt, asyncio.CancelledError):
            print("Stopped.", file=sys.stderr)
            sys.exit(130)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    sys.exit(1 if found["faults"] else 0)


class Demo:
    """A store in a folder, workers on it, and what has happened so far."""

    def __init__(self, folder: Path, console: Console) -> None:
        self._folder, self._console = folder, console
        self._url = f"sqlite:///{folder / 'shop.db'}"
        self._began = time.monotonic()
        self._workers: dict[int, tuple[str, asyncio.subprocess.Process]] = {}
        self._jobs: dict[str, NewJob] = {}
        self._log: list[shop.Entry] = []
        self._read = 0
        self._killed = 0
        self._mended = False

    async def play(self) -> dict[str, Any]:
        """Play it all; return what was counted."""
        playing = asyncio.current_task()
        assert playing is not None
        for ending in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(ending, playing.cancel)
        store = connect(self._url)
        await store.open()
        try:
            await self._submit(store)
            for number in range(1, WORKERS + 1):
                await self._start(f"worker-{number}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SECONDS_MAX):
                    while len(self._of("done")) < len(self._jobs):
                        await self._follow(store)
                        await asyncio.sleep(0.02)
            await self._stop()
            return await self._judge(store)
        finally:
            await self._stop()
            await store.close()

    async def _submit(self, store: Store) -> None:
        await store.configure("shop", QueueSettings(on_dead=OnDead.HALT))
        calls = [
            shop.order.using(key=customer).call(customer, number)
            for customer in CUSTOMERS
            for number in range(1, ORDERS + 1)
        ]
        mails = [shop.mail.call(number) for number in range(1, MAILS + 1)]
        new = [call.new for call in (*calls, *mails)]
        await store.enqueue(new)
        self._jobs = {str(job.id): job for job in new}
        say = self._console.print
        say(f"\n[bold]{len(calls)} orders and {MAILS} mails, on {WORKERS} workers.[/]")
        say("Orders of one customer run in order, one at a time.\n")
        say("  [blue]ben[/]    order 2 fails once")
        say("  [yellow]cleo[/]   order 2 fails until someone helps")
        say("  [magenta]dora[/]   the worker that runs order 2 is killed")
        say("  [green]ada[/]    and the mails are not held up by any of it\n")

    async def _start(self, name: str) -> None:
        """Start ``inturn work`` in the folder."""
        command = ("work", "inturn.demo.shop:app", "--store", self._url, "--name", name)
        with (self._folder / "workers.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "inturn", *command),
                *("-c", "1", "--lease", LEASE, "--sweep", "0.5"),
                cwd=self._folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C is for the demo, which stops them
            )
        self._workers[process.pid] = (name, process)

    async def _stop(self) -> None:
        for _, process in self._workers.values():
            if process.returncode is None:
                process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(10.0):
                await asyncio.gather(*(process.wait() for _, process in self._workers.values()))
        for _, process in self._workers.values():
            if process.returncode is None:
                process.kill()

    async def _follow(self, store: Store) -> None:
        """Print what came to the log; kill a worker, or mend a dead job, when it is time."""
        for entry in self._news():
            self._log.append(entry)
            job, again = self._jobs[entry.job], self._began_before(entry)
            is_doras = _content(job) == ("dora", 2)
            match entry.event:
                case "started" if is_doras and not self._killed:
                    await self._kill(store, entry)
                case "started" if is_doras and again:
                    self._say(entry.pid, job, "takes it over", "bold magenta")
                case "done":
                    self._say(entry.pid, job, "done")
                case "failed":
                    self._say(entry.pid, job, f"failed: {entry.note}", "red")
        if not self._mended and (found := (await store.dead_letters(queue="shop")).rows):
            await self._mend(store, found[0].job.id)

    async def _kill(self, store: Store, entry: shop.Entry) -> None:
        """Kill the worker with SIGKILL, once the store knows what it did before."""
        done = [UUID(one.job) for one in self._of("done") if one.pid == entry.pid]
        while done:
            if (await store.job(done[-1])).state is JobState.DONE:
                done.pop()
            await asyncio.sleep(0.02)
        (self._folder / "killed").touch()
        self._killed = entry.pid
        self._say(entry.pid, self._jobs[entry.job], "killed with kill -9 while it runs", "red")
        os.kill(entry.pid, signal.SIGKILL)

    async def _mend(self, store: Store, job: UUID) -> None:
        """Do what a person would: see why it died, mend that, retry it."""
        self._mended = True
        behind = sum(lane.depth for lane in (await store.lanes("shop", key="cleo")).rows) - 1
        self._say("you", self._jobs[str(job)], "is dead after 2 attempts: no article 4711", "bold")
        self._say("you", None, f"{behind} orders of cleo wait behind it; nothing else does")
        (self._folder / "article-4711").touch()
        await store.retry_lane("shop", "cleo")
        self._say("you", None, "add the article; inturn lanes retry shop cleo", "bold")

    def _news(self) -> Iterator[shop.Entry]:
        path = self._folder / "log.jsonl"
        text = path.read_bytes()[self._read :] if path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        return (msgspec.json.decode(line, type=shop.Entry) for line in whole.splitlines())

    def _of(self, event: str) -> list[shop.Entry]:
        return [one for one in self._log if one.event == event]

    def _began_before(self, entry: shop.Entry) -> bool:
        begun = [one for one in self._of("started") if one.job == entry.job]
        return entry in begun[1:]

    def _say(self, who: int | str, job: NewJob | None, what: str, style: str = "") -> None:
        name = who if isinstance(who, str) else self._workers[who][0]
        customer, number = (None, 0) if job is None else _content(job)
        said = f"{customer or 'mail'} {number}" if job is not None else ""
        colour = CUSTOMERS.get(customer or "", "dim")
        at = time.monotonic() - self._began
        shown = f"[{style}]{what}[/]" if style else what
        self._console.print(f"[dim]{at:5.1f} s[/]  {name:<9} [{colour}]{said:<7}[/] {shown}")

    async def _judge(self, store: Store) -> dict[str, Any]:
        """Count what happened, and say what was not as promised."""
        done = Counter(one.job for one in self._of("done"))
        found = {
            "jobs": len(self._jobs),
            "done": len((await store.jobs(state=JobState.DONE, rows_max=1_000)).rows),
            "failed": len(self._of("failed")),
            "killed": int(bool(self._killed)),
            "twice": sum(number - 1 for number in done.values()),
            "out_of_order": self.out_of_order(),
            "problems": await store.check(),
            "seconds": round(time.monotonic() - self._began, 1),
        }
        expected = {"done": found["jobs"], "failed": 3, "killed": 1, "twice": 0, "out_of_order": 0}
        faults = [
            f"{name} is {found[name]}, and should be {number}"
            for name, number in (expected | {"problems": []}).items()
            if found[name] != number
        ]
        say = self._console.print
        say(
            f"\n[bold]{found['done']} of {found['jobs']} jobs done[/] in {found['seconds']} s: ",
            end="",
        )
        say(f"{found['failed']} attempts failed, {found['killed']} worker killed, ", end="")
        say(f"{found['twice']} done twice, {found['out_of_order']} out of order.")
        say("[red]Not as promised:[/] " + "; ".join(faults) if faults else "[green]As promised.[/]")
        say("\nNext: write your own in 15 lines, as README.md shows.\n")
        return found | {"faults": faults}

    def out_of_order(self) -> int:
        """Count the orders that began before their customer's last one was done."""
        count, done = 0, {one.job: at for at, one in enumerate(self._log) if one.event == "done"}
        begun: dict[str, int] = {}
        for at, one in enumerate(self._log):
            if one.event == "started":
                begun.setdefault(one.job, at)
        for customer in CUSTOMERS:
            lane = [id for id, job in self._jobs.items() if job.key == customer]
            for first, second in pairwise(lane):
                count += begun.get(second, 0) < done.get(first, len(self._log))
        return count


def _content(job: NewJob) -> tuple[str | None, int]:
    said = msgspec.json.decode(job.payload)
    return said.get("customer"), said["number"]
