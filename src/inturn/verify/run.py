"""A run: starts producers and workers on a store, lets faults happen, drains, and judges."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from uuid import UUID

import msgspec

from inturn.model.errors import BadInput, InturnError, StoreError
from inturn.model.job import JobState
from inturn.model.lane import QueueSettings
from inturn.store.address import connect
from inturn.store.store import Store
from inturn.verify import faults as fault_kinds
from inturn.verify import history
from inturn.verify.crew import LOG_NAME, Crew, Member
from inturn.verify.detour import Detour, server_of
from inturn.verify.driver import Driver
from inturn.verify.faults import Injector, Reach, Switch
from inturn.verify.final import NAME as FINAL_NAME
from inturn.verify.final import Final, read_effects, read_jobs
from inturn.verify.plan import (
    BACKLOG_MAX,
    LEASE_SECONDS,
    SWEEP_SECONDS,
    Settings,
    planned_faults,
)
from inturn.verify.proxy import Proxy
from inturn.verify.report import Report, report_of
from inturn.verify.rules import ENDS

TICK_SECONDS = 0.1
START_SECONDS_MAX = 60.0
KEEP_SECONDS = 7 * 86_400.0


class CouldNotRun(StoreError):
    """The run could not be made, so that nothing was verified."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is to be."""

    store: str | None  # None: a SQLite file of its own
    seed: int
    jobs: int | None = 2_000
    seconds: float | None = None
    workers: int = 3
    producers: int = 2
    faults: tuple[str, ...] = ()
    gap_seconds: float = 1.0  # between faults
    drain_seconds_max: float = 180.0
    stop_seconds_max: float = 60.0  # for processes that were told to stop
    lease_seconds: float = LEASE_SECONDS
    folder: Path | None = None  # where the history is kept; None: only if something is wrong
    spoil: str | None = None


class Progress(msgspec.Struct):
    """How far a run is."""

    phase: str = "starting"
    seconds: float = 0.0
    accepted: int = 0
    faults: int = 0
    unfinished: int = 0


class Verification:
    """One run, from its first process to its report."""

    def __init__(
        self,
        wanted: Wanted,
        *,
        switch: Switch | None = None,
        shown: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self._wanted, self._switch, self._shown = wanted, switch, shown
        self._run = secrets.token_hex(4)
        self.folder = wanted.folder or Path(tempfile.mkdtemp(prefix="inturn-verify-"))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.folder).close()
        except OSError as error:
            raise BadInput(
                f"{self.folder} cannot be the folder of a history: {error.strerror}. Name one "
                f"that can be written to."
            ) from error
        if any(self.folder.glob("*.jsonl")):
            raise BadInput(
                f"{self.folder} holds a history already, which another must not be mixed with. "
                f"Name a folder that is empty, or not there yet."
            )
        self._is_own = wanted.store is None
        self._url = wanted.store or f"sqlite:///{self.folder / 'verify.db'}"
        self._progress = Progress()
        self._ids: set[UUID] = set()
        self._interrupts = 0
        self._began_at = monotonic()

    def interrupt(self) -> None:
        """Submit no more and drain; the second time, do not even drain."""
        self._interrupts += 1

    @property
    def has_history(self) -> bool:
        """Whether its folder holds a history that can be checked."""
        return (self.folder / FINAL_NAME).exists()

    async def run(self) -> Report:
        """Do it all, and report.

        A folder of its own is gone after an error, unless it holds a history that can be checked.
        """
        try:
            return await self._verify()
        except BaseException:
            if self._wanted.folder is None and not self.has_history:
                shutil.rmtree(self.folder, ignore_errors=True)
            raise

    async def _verify(self) -> Report:
        async with AsyncExitStack() as stack:
            store = connect(self._url)
            stack.push_async_callback(store.close)
            if self._is_own:
                await store.migrate()
            await store.open()
            with suppress(NotImplementedError, RuntimeError, ValueError):  # not on this thread
                loop = asyncio.get_running_loop()
                for number in (signal.SIGINT, signal.SIGTERM):
                    loop.add_signal_handler(number, self.interrupt)
                    stack.callback(loop.remove_signal_handler, number)
            proxy, detour = await stack.enter_async_context(self._proxied())
            settings = self._settings(detour)
            await self._prepare(store, settings)
            final = await self._go(store, settings, proxy)
            final.write(self.folder)
            self._show("checking")
            report = await asyncio.to_thread(report_of, self.folder)
            if not report.violations:
                await _clean(store, final)
        return msgspec.structs.replace(report, folder=str(self.folder))

    def _settings(self, detour: Detour | None) -> Settings:
        wanted = self._wanted
        return Settings(
            run=self._run,
            store=_named(self._url, f"inturn-verify-{self._run}"),
            folder=str(self.folder),
            seed=wanted.seed,
            workers=wanted.workers,
            producers=wanted.producers,
            lease_seconds=wanted.lease_seconds,
            sweep_seconds=SWEEP_SECONDS,
            handlers=tuple(
                kind.handler
                for kind in fault_kinds.KINDS
                if kind.handler is not None and kind.name in wanted.faults
            ),
            detour=detour,
            spoil=wanted.spoil,
        )

    @asynccontextmanager
    async def _proxied(self) -> AsyncIterator[tuple[Proxy | None, Detour | None]]:
        """Stand between the processes and their server, if connections are to be cut."""
        server = server_of(self._url)
        if "cut-connection" not in self._wanted.faults or server is None:
            yield None, None
            return
        host, port = server
        async with Proxy.before(host, port) as proxy:
            yield proxy, Detour(host=host, port=port, through=proxy.port)

    async def _prepare(self, store: Store, settings: Settings) -> None:
        try:
            async with store.transaction() as transaction:
                await transaction.execute(
                    f"create table {settings.table} "
                    f"(job varchar(36) not null, token bigint not null)"
                )
        except InturnError:
            raise
        except Exception as error:  # of the driver: which, depends on the store
            raise CouldNotRun(
                f"the table {settings.table}, of the effects of a run, cannot be made: {error}. "
                f"Name a user who may make tables."
            ) from error
        for queue in (settings.queue, settings.rounds):
            await store.configure(queue, QueueSettings(keep_done_seconds=KEEP_SECONDS))

    async def _go(self, store: Store, settings: Settings, proxy: Proxy | None) -> Final:
        """Run the crew until all is done; return the store's last word."""
        written = history.History(self.folder, "run")
        crew = Crew(settings, started=self._greet, stop_seconds_max=self._wanted.stop_seconds_max)
        driver = Driver(store, settings, written)
        reach = Reach(proxy=proxy, switch=self._switch, kill_backends=driver.kill_backends)
        kinds, left_out = self._kinds(reach)
        names = [kind.name for kind in kinds if kind.handler is None]
        plan = planned_faults(self._wanted.seed, names, gap_seconds=self._wanted.gap_seconds)
        injector = Injector(crew, written, plan, reach=reach, lease_seconds=settings.lease_seconds)
        reader = history.Reader(self.folder)
        over = asyncio.Event()
        try:
            await crew.start()
            await self._until_begun(reader, crew)
            injecting = asyncio.create_task(injector.run(over))
            await self._produce(reader, crew, driver, injecting)
            over.set()
            await injecting
            await crew.stop_producers()
            is_drained = await self._drain(reader, driver)
            await crew.stop_workers()
        finally:
            await crew.close()
        return Final(
            settings=settings,
            store=self._url.partition(":")[0],
            faults=tuple(kind.name for kind in kinds),
            left_out=tuple(kind.name for kind in left_out),
            is_drained=is_drained,
            is_interrupted=self._interrupts > 0,
            seconds=monotonic() - self._began_at,
            jobs=await read_jobs(store, settings),
            effects=await read_effects(store, settings),
            check=tuple(await store.check()),
            ends=crew.ends,
        )

    def _kinds(self, reach: Reach) -> tuple[list[fault_kinds.Kind], list[fault_kinds.Kind]]:
        """Return the faults that are wanted and can be, and those that lack what they need."""
        wanted = [
            kind
            for kind in fault_kinds.KINDS
            if kind.name in self._wanted.faults and kind.is_for(self._url)
        ]
        can_be = [
            kind
            for kind in wanted
            if fault_kinds.is_possible(
                kind.name,
                workers=self._wanted.workers,
                has_switch=reach.switch is not None,
                has_server=reach.proxy is not None,
            )
        ]
        return can_be, [kind for kind in wanted if kind not in can_be]

    def _greet(self, member: Member) -> None:
        if member.role == "producer" and self._progress.unfinished < BACKLOG_MAX:
            member.tell("go")

    async def _until_begun(self, reader: history.Reader, crew: Crew) -> None:
        """Wait until a worker and a producer are up."""
        give_up_at = monotonic() + START_SECONDS_MAX
        roles: set[str] = set()
        while roles != {"worker", "producer"}:
            if monotonic() > give_up_at or len(crew.ends) > 3 * len(crew.workers):
                log = (self.folder / LOG_NAME).read_text(errors="replace")[-1500:]
                raise CouldNotRun(f"the processes of the run did not begin to work. {log}")
            for who, event in reader.news():
                self._count(event)
                if isinstance(event, history.Began):
                    roles.add(who.partition("-")[0])
            await asyncio.sleep(TICK_SECONDS)

    async def _produce(
        self, reader: history.Reader, crew: Crew, driver: Driver, injecting: asyncio.Task[None]
    ) -> None:
        """Let producers submit, no faster than workers can follow, until there is enough."""
        began_at, is_open = monotonic(), True
        while not self._interrupts and not injecting.done():
            self._look(reader, "running")
            if self._is_enough(monotonic() - began_at):
                return
            self._progress.unfinished = await driver.look()
            if (self._progress.unfinished < BACKLOG_MAX) is not is_open:
                is_open = not is_open
                for member in crew.producers:
                    member.tell("go" if is_open else "pause")
            await asyncio.sleep(TICK_SECONDS)

    def _is_enough(self, seconds: float) -> bool:
        """Whether as much was submitted as was wanted, for as long."""
        wanted = self._wanted
        return len(self._ids) >= (wanted.jobs or 0) and seconds >= (wanted.seconds or 0.0)

    async def _drain(self, reader: history.Reader, driver: Driver) -> bool:
        """Wait until nothing is left to run; return False if that does not happen."""
        give_up_at = monotonic() + self._wanted.drain_seconds_max
        while monotonic() < give_up_at and self._interrupts < 2:
            self._look(reader, "draining")
            self._progress.unfinished = await driver.look()
            if driver.is_done:
                return True
            await asyncio.sleep(TICK_SECONDS)
        return False

    def _look(self, reader: history.Reader, phase: str) -> None:
        for _, event in reader.news():
            self._count(event)
        self._show(phase)

    def _count(self, event: history.Event) -> None:
        if isinstance(event, history.Accepted):
            self._ids.update(place.id for place in event.places)
            self._progress.accepted = len(self._ids)
        elif isinstance(event, history.Fault):
            self._progress.faults += 1

    def _show(self, phase: str) -> None:
        self._progress.phase = phase
        self._progress.seconds = monotonic() - self._began_at
        self._shown(self._progress)


async def _clean(store: Store, final: Final) -> None:
    """Take away what the run made; its jobs that ended go with the next prune."""
    settings = final.settings
    unfinished = [id for id, job in final.jobs.items() if job.state not in ENDS]
    await _cancel(store, unfinished, seconds_max=3 * settings.lease_seconds)
    async with store.transaction() as transaction:
        await transaction.execute(f"drop table {settings.table}")
    for queue in (settings.queue, settings.rounds):
        while rows := (await store.dead_letters(queue=queue, rows_max=1_000)).rows:
            await store.dead_drop([letter.job.id for letter in rows], by="verify")
        await store.configure(queue, QueueSettings(keep_done_seconds=0.0))


async def _cancel(store: Store, jobs: list[UUID], *, seconds_max: float) -> None:
    """Cancel what a run that was cut short left; what a worker held, when its lease ran out."""
    give_up_at = monotonic() + seconds_max
    while jobs and monotonic() < give_up_at:
        await store.reclaim()
        states = {job: await store.cancel(job, by="verify") for job in jobs}
        jobs = [job for job, state in states.items() if state is JobState.RUNNING]
        await asyncio.sleep(TICK_SECONDS)


def _named(url: str, name: str) -> str:
    """Return a PostgreSQL URL whose connections are called by a name."""
    if url.startswith("sqlite:"):
        return url
    parts = urlsplit(url)
    options = {**dict(parse_qsl(parts.query)), "application_name": name}
    return urlunsplit(parts._replace(query=urlencode(options)))
