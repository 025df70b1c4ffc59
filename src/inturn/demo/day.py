"""A day at the shop: jobs accepted, a worker killed, a dead letter mended, and all of it judged."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from inturn.demo import shop
from inturn.demo.crew import LEASE_SECONDS, Crew
from inturn.demo.diary import VARIABLE, Diary, Entry
from inturn.demo.screen import CUSTOMERS, Screen, content
from inturn.demo.summary import Summary, duplicates, order_violations, taken_over
from inturn.model.job import JobState, NewJob
from inturn.model.lane import OnDead, QueueSettings
from inturn.store.address import connect
from inturn.store.store import Store

ORDERS = 4
MAILS = 6
WORKERS = ("worker-1", "worker-2", "worker-3")
LOOK_SECONDS = 0.02
DEMO_SECONDS_MAX = 60.0


class DemoFailed(Exception):
    """The demo could not be played to its end."""


async def play(screen: Screen) -> Summary:
    """Let a day pass at the shop, in a folder that is gone afterwards."""
    with TemporaryDirectory(prefix="inturn-demo-") as name, _diary_in(Path(name)) as diary:
        url = f"sqlite:///{Path(name) / 'shop.db'}"
        store = connect(url)
        await store.open()
        crew = Crew(url, diary.path)
        day = Day(store, crew, diary, screen)
        try:
            await day.accept()
            for worker in WORKERS:
                await crew.start(worker)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DEMO_SECONDS_MAX):
                    await day.watch()
            return await day.judge(await crew.stop())
        finally:
            await crew.stop()
            await store.close()


@contextlib.contextmanager
def _diary_in(folder: Path) -> Iterator[Diary]:
    """Give the diary of this process, as the workers have it from their environment."""
    path = folder / "diary.jsonl"
    os.environ[VARIABLE] = str(path)
    try:
        yield Diary(path)
    finally:
        del os.environ[VARIABLE]


class Day:
    """What is accepted, what the diary says of it, and what the people at the shop do."""

    def __init__(self, store: Store, crew: Crew, diary: Diary, screen: Screen) -> None:
        self._store, self._crew, self._diary, self._screen = store, crew, diary, screen
        self._accepted: dict[UUID, NewJob] = {}
        self._entries: list[Entry] = []
        self._done: list[UUID] = []
        self._died: set[UUID] = set()
        self._killed = ""

    async def accept(self) -> None:
        """Accept a day's jobs in one transaction: orders by customer, mails, and one that waits."""
        await self._store.configure(shop.QUEUE, QueueSettings(on_dead=OnDead.HALT))
        orders = {
            (customer, number): shop.order.using(key=customer).call(customer, number)
            for customer in CUSTOMERS
            for number in range(1, ORDERS + 1)
        }
        mails = [shop.mail.call(number) for number in range(1, MAILS + 1)]
        last = shop.receipt.using(after=[orders["ada", ORDERS]]).call("ada")
        jobs = [call.new for call in (*orders.values(), *mails, last)]
        await self._store.enqueue(jobs)
        self._accepted = {job.id: job for job in jobs}
        self._screen.accepted(len(orders), len(mails), len(WORKERS))

    async def watch(self) -> None:
        """Follow the diary until everything is done; kill one worker, and mend what died."""
        while len(set(self._done)) < len(self._accepted):
            for entry in self._diary.news():
                self._entries.append(entry)
                await self._tell(entry)
            if gone := set(self._crew.dead()) - {self._killed}:
                raise DemoFailed(f"{gone} ended by itself:\n{self._crew.said()}")
            if not self._died:
                await self._look_for_the_dead()
            await asyncio.sleep(LOOK_SECONDS)

    async def _tell(self, entry: Entry) -> None:
        worker, job = self._crew.name_of(entry.pid), self._accepted[entry.job]
        customer, number = content(job)
        is_doras = (customer, number) == ("dora", 2)
        match entry.event:
            case "started" if is_doras and not self._killed:
                await self._until_settled(entry.pid)
                self._killed = worker
                await self._crew.kill(worker)
                self._screen.say(worker, "killed with -9 in the middle of it", job, style="red")
                self._screen.say("", f"its lease is good for {LEASE_SECONDS:g} s", style="dim")
            case "started" if is_doras:
                self._screen.say(worker, "takes it over, alone", job, style="bold magenta")
            case "done":
                self._done.append(entry.job)
                said = "done" if entry.attempt == 1 else f"done, at attempt {entry.attempt}"
                self._screen.say(worker, said, job)
            case "failed":
                self._screen.say(worker, f"failed: {entry.note}", job, style="red")
                if entry.attempt < shop.ATTEMPTS_MAX:
                    said = f"again in 1 s; only {customer}'s lane waits"
                    self._screen.say("", said, style="dim")

    async def _until_settled(self, pid: int) -> None:
        """Wait until the store knows what a worker did: if it is killed first, it is done again."""
        left = [one.job for one in self._entries if one.pid == pid and one.event == "done"]
        while left:
            if (await self._store.job(left[-1])).state is JobState.DONE:
                left.pop()
            else:
                await asyncio.sleep(LOOK_SECONDS)

    async def _look_for_the_dead(self) -> None:
        """Look at a dead letter, mend its cause, and put it back."""
        letters = (await self._store.dead_letters(queue=shop.QUEUE)).rows
        for letter in letters:
            self._died.add(letter.job.id)
            self._screen.dead(letter)
            ids = list(self._accepted)
            why = await self._store.explain(ids[ids.index(letter.job.id) + 1])
            self._screen.say("operator", f"and the order behind it? {why}", style="bold")
            shop.add_article()
            for ask in ("adds the article, retries it", "asks for the same again"):
                put_back = len(await self._store.dead_retry([letter.job.id]))
                self._screen.say("operator", f"{ask}: {put_back} put back", style="bold")

    async def judge(self, exit_codes: Sequence[int]) -> Summary:
        """Count what happened, from the diary and from what the store says now."""
        accepted = list(self._accepted.values())
        done = await self._store.jobs(state=JobState.DONE, queue=shop.QUEUE, rows_max=1000)
        dead = await self._store.dead_letters(queue=shop.QUEUE)
        summary = Summary(
            accepted=len(accepted),
            done=len(done.rows),
            failed=sum(entry.event == "failed" for entry in self._entries),
            died=len(self._died),
            dead=len(dead.rows),
            killed=int(bool(self._killed)),
            taken_over=taken_over(self._entries),
            duplicates=duplicates(self._entries),
            order_violations=order_violations(accepted, self._entries),
            exit_codes=list(exit_codes),
            check=await self._store.check(),
            seconds=round(self._screen.seconds(), 2),
        )
        self._screen.judged(summary, self._numbers_done())
        return summary

    def _numbers_done(self) -> dict[str, list[int]]:
        """Return, for each customer, the numbers of the orders in which they were done."""
        numbers: dict[str, list[int]] = {customer: [] for customer in CUSTOMERS}
        for id in self._done:
            customer, number = content(self._accepted[id])
            if customer is not None:
                numbers[customer].append(number)
        return numbers
