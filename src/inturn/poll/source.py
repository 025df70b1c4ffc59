"""A source: an outside system whose changes are fetched page by page, each applied once."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from inturn.model.callables import is_async
from inturn.model.errors import BadInput
from inturn.model.job import Ticket
from inturn.model.lane import OnDead
from inturn.poll import SCHEMA
from inturn.poll.page import Change, Fields, Page
from inturn.poll.source_rows import SHADOWS, SOURCE, SourceDeclaration, declare_sources
from inturn.poll.sources import (
    SourceView,
    reconcile_source,
    reset_source,
    run_source,
    source_view,
)
from inturn.queue.arguments import hints_of
from inturn.queue.context import Context
from inturn.queue.job import Job, takes_context
from inturn.store.store import Store

if TYPE_CHECKING:
    from inturn.queue.app import App

Answer = TypeVar("Answer")


class Source:
    """A source as an app declares it, and the job that reads its pages.

    A run (``run.py``) begins at the stored cursor and goes on page by page while there is ``more``.
    A page is applied in one transaction: its items' shadows, a job for each change, and the cursor.
    A page of which nothing is new writes nothing.
    """

    def __init__(
        self,
        app: App,
        name: str,
        fetch: Callable[..., Any],
        *,
        fields: Fields,
        on_dead: OnDead,
        restarts: bool,
        hard_deletes: bool,
        sweep_max: int,
        sweep_percent: float,
    ) -> None:
        self.app, self.name, self.fields = app, name, fields
        self.hard_deletes, self.restarts = hard_deletes, restarts
        self.sweep_max, self.sweep_percent = sweep_max, sweep_percent
        self._fetch, self._on_dead = fetch, on_dead
        self.has_context = takes_context(fetch, hints_of(fetch, {}))
        try:
            inspect.signature(fetch).bind(*[None] * (1 + self.has_context))
        except TypeError as error:
            raise BadInput(
                f"the function of source {name!r} cannot be called: {error}. It takes the cursor, "
                f"or its context and the cursor: async def {name}(cursor: str | None)."
            ) from None
        self.run_job: Job[..., Any]  # declared by the extension
        self.change_job: Job[[Change[Any]], Any] | None = None

    async def __call__(self, *arguments: Any) -> Page[Any]:
        """Call the source's function itself, as if it were no source."""
        if is_async(self._fetch):
            fetched: Page[Any] = await self._fetch(*arguments)
        else:
            fetched = await asyncio.to_thread(self._fetch, *arguments)
        return fetched

    # What happens to a change

    @overload
    def on_change(self, function: Callable[..., Any], /) -> Job[[Change[Any]], Any]: ...
    @overload
    def on_change(
        self,
        /,
        *,
        queue: str | None = None,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Callable[[Callable[..., Any]], Job[[Change[Any]], Any]]: ...
    def on_change(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        queue: str | None = None,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Make a job of a function that takes a ``Change``: one for each change, keyed by its item.

        So the changes of one item run one at a time, in their order. ``queue``: by default
        ``changes:NAME``; another has the ``on_dead`` that ``app.queue`` gives it.
        """
        if function is None:
            return lambda given: self._on_change(given, queue, attempts, timeout)
        return self._on_change(function, queue, attempts, timeout)

    def _on_change(
        self,
        function: Callable[..., Any],
        queue: str | None,
        attempts: int | None,
        timeout: float | None,
    ) -> Job[[Change[Any]], Any]:
        if self.change_job is not None:
            raise BadInput(f"source {self.name!r} has one on_change, and this is the second.")
        if queue is None:
            self.app.queue(f"changes:{self.name}", on_dead=self._on_dead.value)
        elif self._on_dead is OnDead.HALT:
            raise BadInput(
                f"source {self.name!r} has on_dead='halt', and its changes are on queue {queue!r}, "
                f"which others may use too: app.queue({queue!r}, on_dead='halt') instead."
            )
        self.change_job = self.app.job(
            kind=f"changes:{self.name}",
            queue=queue or f"changes:{self.name}",
            attempts=attempts,
            timeout=timeout,
        )(self._handler(function))
        return self.change_job

    def _handler(self, function: Callable[..., Any]) -> Any:
        """Return a handler that gives a function its change with the item as its own type."""
        wants_context = takes_context(function, hints_of(function, {}))

        async def handle(ctx: Context, change: Change[Any]) -> Any:
            return await function(*([ctx, change] if wants_context else [change]))

        def handle_on_thread(ctx: Context, change: Change[Any]) -> Any:
            return function(*([ctx, change] if wants_context else [change]))

        made: Any = handle if is_async(function) else handle_on_thread
        item: Any = self.fields.shadow
        made.__annotations__ = {"ctx": Context, "change": Change[item]}
        made.__name__ = getattr(function, "__name__", made.__name__)
        return made

    # What a person or a webhook asks

    async def item(self, key: str) -> Any:
        """Return an item as it was last seen; None if there is none, or no more."""
        found = await self._ask(lambda store: store.read(SHADOWS, source=self.name, keys=[key]))
        living = [one.item for one in found if not one.deleted]
        try:
            return msgspec.json.decode(living[0], type=self.fields.shadow) if living else None
        except msgspec.ValidationError as error:
            raise BadInput(
                f"item {key!r} of source {self.name!r} was seen before its type changed, and is no "
                f"{self.fields.shadow}: {error}. Give new fields defaults."
            ) from None

    async def run(self) -> Ticket:
        """Read its pages now, such as when a webhook hints at news; return that job's ticket."""
        return await self._ask(lambda store: run_source(store, self.name))

    async def reconcile(self, *, force: bool = False) -> Ticket:
        """Walk through all of it, and delete what it does not have any more.

        ``force``: of a walk that is held because it would delete much, delete that now.
        """
        return await self._ask(lambda store: reconcile_source(store, self.name, force=force))

    async def reset(self, *, forget: bool = False) -> None:
        """Read it from the beginning again. What is as it was is no change.

        ``forget``: forget what was seen, too, so that every item is told as created.
        """
        await self._ask(lambda store: reset_source(store, self.name, forget=forget))

    async def status(self) -> SourceView:
        """Return its cursor, its lag, its last error."""
        return await self._ask(lambda store: source_view(store, self.name))

    @property
    def declaration(self) -> SourceDeclaration:
        """The source as the store is to have it."""
        job = self.change_job
        queue = f"changes:{self.name}" if job is None else job.options.queue
        return SourceDeclaration(self.name, self.run_job.call().new, queue)

    async def _ask(self, verb: Callable[[Store], Awaitable[Answer]]) -> Answer:
        """Ask the store, also before the first worker has written there that the source is."""

        async def asked(store: Store) -> Answer:
            await store.ensure(SCHEMA)
            if not await store.read(SOURCE, name=self.name):
                await declare_sources(store, [self.declaration])
            return await verb(store)

        return await self.app.run(asked)
