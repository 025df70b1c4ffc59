"""What ``inturn demo`` shows: a small shop whose orders fail, die, change hands, and stay in turn.

Nothing is staged but the faults: one order fails once, one cannot succeed until a person helps, and
one worker stops in the middle. What is printed is what the store answered, and the summary is
counted from that.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from uuid import UUID

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inturn.model.errors import LeaseLost
from inturn.model.job import DeadLetter, Job, JobState, LeasedJob, NewJob
from inturn.model.lane import OnDead, QueueSettings
from inturn.model.lease import Claim
from inturn.model.payload import encode_payload
from inturn.policy.retry import RetryPolicy, after_failure
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Retry, Verdict
from inturn.store.address import connect
from inturn.store.protocol import Store

QUEUE = "shop"
CUSTOMERS = {"dora": "magenta", "ada": "green", "ben": "blue", "cleo": "yellow"}
ORDERS = 4
MAILS = 6
ATTEMPTS_MAX = 2
POLICY = RetryPolicy(attempts_max=ATTEMPTS_MAX, base_seconds=0.7, jitter=0.0)

ORDER_SECONDS = 0.1
STALLED_LEASE_SECONDS = 1.0
DEMO_SECONDS_MAX = 30.0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What happened, counted."""

    accepted: int
    done: int  # as the store says
    retried: int
    died: int  # dead letters there were on the way
    dead: int  # dead letters there are now
    leases_lost: int
    duplicates: int  # jobs that the store took as done more than once
    order_violations: int
    check: Sequence[str]
    seconds: float

    def faults(self) -> list[str]:
        """Return a sentence for everything that is not as promised."""
        wanted = {
            "every accepted job is done": self.done == self.accepted > 0,
            "the failed order was retried": self.retried > 0,
            "the hopeless order became a dead letter": self.died == 1,
            "no dead letter is left": self.dead == 0,
            "the late worker was refused": self.leases_lost == 1,
            "no job was done twice": self.duplicates == 0,
            "no job overtook another of its key": self.order_violations == 0,
            "store.check() found nothing": not self.check,
        }
        return [f"not so: {promise}" for promise, kept in wanted.items() if not kept]


def run(*, as_json: bool = False) -> None:
    """Run the shop, print what happens, and leave with 1 if a promise was not kept."""
    screen = Screen(Console(quiet=as_json, highlight=False))
    try:
        summary = asyncio.run(_demo(screen))
    except KeyboardInterrupt:
        screen.console.print("\nStopped. Its temporary file is gone.")
        raise typer.Exit(130) from None
    faults = summary.faults()
    if as_json:
        shown = msgspec.to_builtins(summary) | {"faults": faults}
        typer.echo(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode())
    for fault in faults:
        typer.echo(fault, err=True)
    raise typer.Exit(1 if faults else 0)


async def _demo(screen: Screen) -> Summary:
    with TemporaryDirectory(prefix="inturn-demo-") as folder:
        url = f"sqlite:///{Path(folder) / 'shop.db'}"
        async with _opened(url) as store:
            shop = Shop(store, screen)
            await shop.accept()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DEMO_SECONDS_MAX):
                    await _run_crew(url, shop)
            return await shop.judge()


async def _run_crew(url: str, shop: Shop) -> None:
    """Let two workers, one that stalls, and an operator at the shop, each with its own store."""
    async with contextlib.AsyncExitStack() as stores, asyncio.TaskGroup() as crew:
        store = await stores.enter_async_context(_opened(url))
        taken = await store.claim(
            QUEUE, jobs_max=2, worker="worker-3", lease_seconds=STALLED_LEASE_SECONDS
        )
        crew.create_task(shop.stall(store, "worker-3", taken))
        for name in ("worker-1", "worker-2"):
            store = await stores.enter_async_context(_opened(url))
            crew.create_task(shop.work(store, name))
        crew.create_task(shop.operate())


@contextlib.asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Store]:
    store = connect(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


class Shop:
    """The work, those who do it, and a record of what the store answered them."""

    def __init__(self, store: Store, screen: Screen) -> None:
        self.store, self.screen = store, screen
        self.accepted: list[NewJob] = []
        self.done: list[UUID] = []
        self.died: set[UUID] = set()
        self.retried = self.leases_lost = 0
        self.article_known = False
        self.taken_over = asyncio.Event()
        self.buried = asyncio.Event()

    async def accept(self) -> None:
        """Accept a day's jobs in one transaction: orders by customer, mails, and one that waits."""
        await self.store.configure(QUEUE, QueueSettings(on_dead=OnDead.HALT))
        orders = {
            (customer, number): _new_job("order", customer, number, key=customer)
            for customer in CUSTOMERS
            for number in range(1, ORDERS + 1)
        }
        mails = [_new_job("mail", None, number) for number in range(1, MAILS + 1)]
        last = frozenset({orders["ada", ORDERS].id})
        self.accepted = [*orders.values(), *mails, _new_job("receipt", "ada", 1, after=last)]
        await self.store.enqueue(self.accepted)
        self.screen.accepted(len(orders), len(mails))

    async def work(self, store: Store, worker: str) -> None:
        """Claim and settle until everything is done; take back what others have lost."""
        while len(set(self.done)) < len(self.accepted):
            reclaimed = await store.reclaim()
            if reclaimed.leases:
                self.screen.say(
                    worker,
                    f"a lease ran out: {reclaimed.suspects} job to run alone",
                    style="bold magenta",
                )
            claims = await store.claim(QUEUE, jobs_max=3, worker=worker)
            for claim in claims:
                await self._run_claim(store, worker, claim)
            if not claims:
                await store.wait([QUEUE], timeout_seconds=0.1)

    async def _run_claim(self, store: Store, worker: str, claim: Claim) -> None:
        """Run the jobs of a claim in turn; in a keyed lane, stop at the first that is not done."""
        for job in claim.jobs:
            verdict, seconds = await self._run_job(job)
            settlement = Settlement(claim.lease, [Outcome(job, verdict, seconds)])
            await store.settle([settlement], worker=worker)
            self._record(worker, job, verdict)
            if claim.lease.key is not None and not isinstance(verdict, Done):
                return  # the rest of the run went back to the lane with it

    async def _run_job(self, job: LeasedJob) -> tuple[Verdict, float]:
        """Do what a job says, and decide what becomes of it."""
        started = time.monotonic()
        verdict: Verdict = Done()
        try:
            await asyncio.sleep(ORDER_SECONDS if job.kind == "order" else ORDER_SECONDS / 2)
            customer, number = _content(job)
            if (customer, number) == ("ben", 2) and job.attempt == 1:
                raise TimeoutError("no answer from the bank")
            if (customer, number) == ("cleo", 2) and not self.article_known:
                raise LookupError("no article 4711")
        except Exception as error:
            verdict = after_failure(job.attempt, error, policy=POLICY, random=Random(0))
        return verdict, time.monotonic() - started

    def _record(self, worker: str, job: LeasedJob, verdict: Verdict) -> None:
        self.screen.settled(worker, job, verdict)
        match verdict:
            case Done():
                self.done.append(job.id)
                if _content(job) == ("dora", 2):
                    self.taken_over.set()
            case Retry():
                self.retried += 1
            case Bury():
                self.died.add(job.id)
                self.buried.set()

    async def stall(self, store: Store, worker: str, claims: Sequence[Claim]) -> None:
        """Finish the first job of a claim, stop in the second, and come back when it is too late.

        A worker that is really gone never comes back. One that was only slow does, and is the
        harder case: it believes that the job is still its own.
        """
        [claim] = claims
        first, second = claim.jobs
        await store.settle([Settlement(claim.lease, [Outcome(first, Done())])], worker=worker)
        self._record(worker, first, Done())
        self.screen.say(worker, "stops in the middle of its next order", second, style="red")
        await self.taken_over.wait()
        self.screen.say(worker, "comes back and says: done", second, style="red")
        try:
            await store.settle([Settlement(claim.lease, [Outcome(second, Done())])], worker=worker)
        except LeaseLost as error:
            self.leases_lost += 1
            self.screen.say(worker, f"refused, LeaseLost: {error}", style="bold red")
        else:
            self._record(worker, second, Done())

    async def operate(self) -> None:
        """Look at the dead letter, mend its cause, and put it back."""
        await self.buried.wait()
        [letter] = (await self.store.dead_letters(queue=QUEUE)).rows
        self.screen.dead(letter)
        behind = self.accepted[[job.id for job in self.accepted].index(letter.job.id) + 1]
        why = await self.store.explain(behind.id)
        self.screen.say("operator", f"and the order behind it? {why}", style="bold")
        await asyncio.sleep(0.5)
        self.article_known = True
        for ask in ("adds the article, retries it", "asks for the same again"):
            put_back = len(await self.store.dead_retry([letter.job.id]))
            self.screen.say("operator", f"{ask}: {put_back} put back", style="bold")

    async def judge(self) -> Summary:
        """Count what happened, from the record and from what the store says now."""
        done = await self.store.jobs(state=JobState.DONE, queue=QUEUE, rows_max=1000)
        dead = await self.store.dead_letters(queue=QUEUE)
        summary = Summary(
            accepted=len(self.accepted),
            done=len(done.rows),
            retried=self.retried,
            died=len(self.died),
            dead=len(dead.rows),
            leases_lost=self.leases_lost,
            duplicates=sum(count - 1 for count in Counter(self.done).values()),
            order_violations=order_violations(self.accepted, self.done),
            check=await self.store.check(),
            seconds=round(self.screen.seconds(), 2),
        )
        self.screen.judged(summary, _numbers_done(self.accepted, self.done))
        return summary


def order_violations(accepted: Sequence[NewJob], done: Sequence[UUID]) -> int:
    """Count the jobs that were done before one they had to come after.

    That is the one accepted before it under its key, and each it was told to wait for.
    """
    when = {job: place for place, job in reversed(list(enumerate(done)))}
    never = len(done)
    count = 0
    before: dict[str, UUID] = {}
    for job in accepted:
        earlier = set(job.after)
        if job.key is not None:
            earlier |= {before[job.key]} if job.key in before else set()
            before[job.key] = job.id
        count += any(when.get(job.id, never) < when.get(one, never) for one in earlier)
    return count


def _new_job(
    kind: str,
    customer: str | None,
    number: int,
    *,
    key: str | None = None,
    after: frozenset[UUID] = frozenset(),
) -> NewJob:
    payload = encode_payload({"customer": customer, "number": number})
    return NewJob(
        queue=QUEUE, kind=kind, payload=payload, key=key, after=after, attempts_max=ATTEMPTS_MAX
    )


def _content(job: Job | NewJob) -> tuple[str | None, int]:
    content = msgspec.json.decode(job.payload)
    return content["customer"] if job.kind == "order" else None, content["number"]


def _numbers_done(accepted: Sequence[NewJob], done: Sequence[UUID]) -> dict[str, list[int]]:
    """Return, for each customer, the numbers of the orders in the order in which they were done."""
    jobs = {job.id: job for job in accepted}
    numbers: dict[str, list[int]] = {customer: [] for customer in CUSTOMERS}
    for id in done:
        customer, number = _content(jobs[id])
        if customer is not None:
            numbers[customer].append(number)
    return numbers


class Screen:
    """Prints what happens, as it happens."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._started = time.monotonic()

    def seconds(self) -> float:
        """Return how long the demo has run."""
        return time.monotonic() - self._started

    def accepted(self, orders: int, mails: int) -> None:
        """Say what was accepted, and what is going to happen to it."""
        self.console.rule("[bold]inturn demo[/]: a small shop, on a SQLite file")
        self.console.print(
            f"\nAccepted in one transaction: {orders} orders of {len(CUSTOMERS)} customers, "
            f"{mails} mails, and a receipt\nthat waits for ada's last order. "
            f"The orders of one customer run in turn.\n"
        )
        for customer, fate in (
            ("ben", "order 2 fails once"),
            ("cleo", "order 2 cannot succeed until a person helps"),
            ("dora", "the worker of order 2 stops in the middle"),
            ("ada", "and the mails must not notice any of it"),
        ):
            self.console.print(f"  [{CUSTOMERS[customer]}]{customer:<5}[/] {fate}")
        self.console.print()

    def settled(self, worker: str, job: LeasedJob, verdict: Verdict) -> None:
        """Say what became of a job."""
        customer, _ = _content(job)
        match verdict:
            case Done():
                said = "done" if job.attempt == 1 else f"done, at attempt {job.attempt}"
                self.say(worker, said, job)
            case Retry(delay_seconds=delay, error=error):
                self.say(worker, f"failed: {error}", job, style="red")
                self.say("", f"again in {delay:g} s; only {customer}'s lane waits")
            case Bury(error=error):
                self.say(worker, f"dead: {error}", job, style="bold red")

    def dead(self, letter: DeadLetter) -> None:
        """Show a dead letter with the history of its errors."""
        what = f"finds a dead letter, after {letter.attempts} attempts:"
        self.say("operator", what, letter.job, style="bold")
        for error in letter.errors:
            self.say("", f"attempt {error.attempt} on {error.worker}: {error.error}", style="dim")

    def say(self, who: str, what: str, job: Job | NewJob | None = None, *, style: str = "") -> None:
        """Print one line: when, who, which job, what. Without who, the line above goes on."""
        line = Table.grid(padding=(0, 2))
        for width in (7, 8, 14):
            line.add_column(width=width, no_wrap=True)
        line.add_column()
        line.add_row(
            Text(f"{self.seconds():5.2f} s" if who else "", "dim"),
            who,
            _named(job),
            Text(what, style),
        )
        self.console.print(line)

    def judged(self, summary: Summary, numbers: Mapping[str, Sequence[int]]) -> None:
        """Print the summary."""
        self.console.print()
        self.console.rule("what happened")
        table = Table.grid(padding=(0, 3))
        table.add_column(justify="right")
        table.add_column(width=34)
        table.add_column(justify="right")
        table.add_column()
        for left, right in (
            ((summary.accepted, "jobs accepted"), (summary.leases_lost, "late settle refused")),
            ((summary.done, "jobs done"), (summary.duplicates, "done twice")),
            ((summary.retried, "attempts retried"), (summary.order_violations, "out of order")),
            ((summary.died, "dead letter, put back"), (summary.dead, "dead letters left")),
        ):
            table.add_row(f"[bold]{left[0]}[/]", left[1], f"[bold]{right[0]}[/]", right[1])
        self.console.print(table)
        self.console.print()
        for customer, done in numbers.items():
            shown = " ".join(str(number) for number in done)
            self.console.print(f"  [{CUSTOMERS[customer]}]{customer:<5}[/] done in turn: {shown}")
        sound = "nothing wrong" if not summary.check else "; ".join(summary.check)
        verdict = "[red]not as promised[/]" if summary.faults() else "[green]all as promised[/]"
        self.console.print(f"\n  store.check(): {sound}")
        self.console.print(f"  {verdict}, in {summary.seconds:.1f} s\n")


def _named(job: Job | NewJob | None) -> Text:
    if job is None:
        return Text()
    customer, number = _content(job)
    if customer is None:
        return Text(job.kind if job.kind == "receipt" else f"{job.kind} {number}", "dim")
    return Text(f"{customer:<5} {job.kind} {number}", CUSTOMERS[customer])
