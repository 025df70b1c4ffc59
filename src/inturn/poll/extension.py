"""The part of an App that schedules and sources are declared on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

from inturn.model import bounds
from inturn.model.admissible import check_name, check_number, check_whole, shown
from inturn.model.duration import parse_duration
from inturn.model.errors import BadInput
from inturn.model.job import Ticket
from inturn.model.lane import OnDead
from inturn.policy.retry import Reject, RetryPolicy
from inturn.poll import SCHEMA
from inturn.poll.page import Fields, SourceBroken
from inturn.poll.reconcile import reconcile as reconcile_source
from inturn.poll.rule import CatchUp, Cron, Every, Rule
from inturn.poll.run import read
from inturn.poll.schedules import (
    LOOK_SECONDS,
    Firing,
    Schedule,
    ScheduleView,
    pause_schedule,
    resume_schedule,
    run_schedule,
    schedules,
)
from inturn.poll.source import Source
from inturn.queue.app import App
from inturn.queue.argument_checks import is_model
from inturn.queue.context import Context
from inturn.queue.extensions import Extension
from inturn.queue.job import Job
from inturn.store.store import Store

AnyJob = TypeVar("AnyJob", bound=Job[..., Any])

NAME_CHARS_MAX = 100

RETRY = RetryPolicy(attempts_max=bounds.ATTEMPTS_MAX, base_seconds=2.0, cap_seconds=300.0)
"""Of a source's runs: one that fails is tried again, and meanwhile no other begins."""

PERIODS_MAX = 10
"""A run that fails is tried again after so many periods at the latest, so that a source that is
read every few seconds is read again soon after an outage."""

FETCH_SECONDS_MAX = 300.0
"""A run that takes longer hangs: by itself it hands over to another long before."""

DUTY = "poll.schedules"


class Poll(Extension):
    """The schedules and sources of one app."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self.declared: dict[str, Schedule] = {}
        self.sources: dict[str, Source] = {}
        self.schedules = Schedules(app)
        self._firings: WeakKeyDictionary[Store, Firing] = WeakKeyDictionary()  # one a worker
        app.schema(SCHEMA)

    def every(self, interval: float | str, **options: Any) -> Callable[[AnyJob], AnyJob]:
        """Submit a job at intervals: ``App.every`` says the rest."""
        return self._scheduled(_interval(interval), **options)

    def cron(self, expression: str, timezone: str, **options: Any) -> Callable[[AnyJob], AnyJob]:
        """Submit a job at the times of a cron expression: ``App.cron`` says the rest."""
        return self._scheduled(Cron(expression, timezone), **options)

    def _scheduled(
        self, rule: Rule, *, arguments: Mapping[str, Any] | None, name: str | None, catch_up: str
    ) -> Callable[[AnyJob], AnyJob]:
        if catch_up not in list(CatchUp):
            raise BadInput(f"catch_up is one of {', '.join(CatchUp)}, not {shown(catch_up)}.")
        if arguments is not None and not isinstance(arguments, Mapping):
            raise BadInput(f"arguments are a dict, by their names, not {shown(arguments)}.")

        def declared(job: AnyJob) -> AnyJob:
            if not isinstance(job, Job):
                raise BadInput(
                    f"a schedule stands above @app.job: it is of a job, not of {shown(job)}."
                )
            called = job.kind if name is None else name
            self.add(called, rule, CatchUp(catch_up), job, arguments or {})
            return job

        return declared

    def add(
        self,
        name: str,
        rule: Rule,
        catch_up: CatchUp,
        job: Job[..., Any],
        arguments: Mapping[str, Any],
        *,
        alone: bool = False,
    ) -> None:
        """Declare a schedule of a job, with its arguments."""
        check_name("schedule", name, NAME_CHARS_MAX)
        if name in self.declared:
            raise BadInput(
                f"there are two schedules {name!r} in this app. Give one of them another: name=…."
            )
        try:
            new = job.call(**arguments).new
        except BadInput as error:
            raise BadInput(f"schedule {name!r}: {error} Its arguments: arguments={{…}}.") from None
        self._declare_duty()
        self.declared[name] = Schedule(
            name=name, rule=rule, catch_up=catch_up, job=new, alone=alone
        )

    def source(
        self,
        name: str,
        *,
        every: float | str | None,
        cron: str | None,
        timezone: str,
        shadow: Any,
        key: str,
        version: str,
        deleted: str | None,
        on_dead: Literal["skip", "halt"],
        on_cursor_gone: str,
        hard_deletes: bool,
        sweep_max: int,
        sweep_percent: float,
    ) -> Callable[[Callable[..., Any]], Source]:
        """Declare a source: ``App.source`` says the rest."""
        check_name("source", name, NAME_CHARS_MAX)
        if name in self.sources:
            raise BadInput(f"there are two sources {name!r} in this app. Rename one.")
        if on_cursor_gone not in ("fail", "restart"):
            raise BadInput(f"on_cursor_gone is 'fail' or 'restart', not {shown(on_cursor_gone)}.")
        if on_dead not in list(OnDead):
            raise BadInput(f"on_dead is 'skip' or 'halt', not {shown(on_dead)}.")
        if every is not None and cron is not None:
            raise BadInput(f"source {name!r} has every or cron, and not both.")
        if is_model(shadow):
            raise BadInput(
                f"source {name!r} has a model of pydantic as its shadow. Take a msgspec.Struct, a "
                f"dataclass or a TypedDict."
            )
        check_whole("sweep_max", sweep_max, 0, bounds.DEPTH_MAX)
        check_number("sweep_percent", sweep_percent, 0.0, 100.0)
        rule: Rule | None = None if every is None else _interval(every)
        rule = rule if cron is None else Cron(cron, timezone)

        def declared(fetch: Callable[..., Any]) -> Source:
            made = Source(
                self.app,
                name,
                fetch,
                fields=Fields(key, version, deleted, shadow),
                on_dead=OnDead(on_dead),
                restarts=on_cursor_gone == "restart",
                hard_deletes=hard_deletes,
                sweep_max=sweep_max,
                sweep_percent=sweep_percent,
            )
            made.run_job = self._run_job(made, rule)
            self._declare_duty()
            self.app.queue(f"poll:{name}", suspects="again")
            self.sources[name] = made
            if rule is not None:
                self.add(f"poll:{name}", rule, CatchUp.ONCE, made.run_job, {}, alone=True)
            return made

        return declared

    def _run_job(self, source: Source, rule: Rule | None) -> Job[..., Any]:
        """Declare the job that reads a source's pages. It is tried until the source answers."""

        async def run(ctx: Context, reconcile: bool = False, forced: int = 0) -> None:
            try:
                if reconcile:
                    await reconcile_source(source, ctx, forced=forced)
                else:
                    await read(source, ctx)
            except Reject as error:  # a wrong key of the API may be put right: no dead letter
                raise SourceBroken(f"source {source.name!r} was rejected: {error}") from error

        name, retry = f"poll:{source.name}", RETRY
        if isinstance(rule, Every):
            cap = min(RETRY.cap_seconds, PERIODS_MAX * rule.seconds)
            retry = replace(RETRY, cap_seconds=cap)
        declare = self.app.job(
            kind=name, queue=name, retry=retry, timeout=FETCH_SECONDS_MAX, keep_result=None
        )
        return declare(run).using(key=source.name)  # runs never overlap

    def _declare_duty(self) -> None:
        """Have workers of this app fire; without a schedule or a source they have nothing to do."""
        if DUTY not in self.app.duties:
            self.app.duty(DUTY, self._fire, every_seconds=LOOK_SECONDS, alone=False)

    async def _fire(self, store: Store, held_until: datetime) -> float | None:
        """Fire what is due: each worker does so for what its own app declares."""
        if store not in self._firings:
            sources = [one.declaration for one in self.sources.values()]
            self._firings[store] = Firing(self.declared.values(), sources)
        return await self._firings[store].step(store)


class Schedules:
    """What a person does with the schedules of an app's store: ``app.schedules``."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def list(self) -> list[ScheduleView]:
        """Return all schedules, by name."""
        return await self._app.run(schedules)

    async def run(self, name: str) -> Ticket:
        """Submit a schedule's job now, besides its times."""
        return await self._app.run(lambda store: run_schedule(store, name))

    async def pause(self, name: str, *, by: str) -> None:
        """Keep a schedule from firing until it is resumed."""
        await self._app.run(lambda store: pause_schedule(store, name, by=by))

    async def resume(self, name: str) -> None:
        """Resume a paused schedule with its next time."""
        await self._app.run(lambda store: resume_schedule(store, name))


def _interval(given: float | str) -> Every:
    seconds = parse_duration(given) if isinstance(given, str) else given
    return Every(float(seconds) if isinstance(seconds, int) else seconds)
