"""One call of the command: the store it is for, and how it prints."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import msgspec
import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text
from typer.core import TyperCommand
from typer.main import get_command
from typer.models import CommandFunctionType

from inturn.cli.options import AppOption, JsonOption, StoreOption, examples
from inturn.cli.text import Cell, make_console, print_to, table
from inturn.model import bounds
from inturn.model.errors import (
    BadInput,
    InvalidStoreURL,
    NotFound,
    SchemaMissing,
    StoreUnavailable,
    UnknownQueue,
)
from inturn.store.address import anchored, connect
from inturn.store.paging import Page
from inturn.store.store import Store

if TYPE_CHECKING:
    from inturn.queue.app import App

OPEN_SECONDS_MAX = 15.0  # a little more than SQLite waits for another process to finish writing

Answer = TypeVar("Answer")
Row = TypeVar("Row")
Document = Mapping[str, Any]


class Session:
    """Opens the store that was named, runs a coroutine on it, and prints the answer."""

    def __init__(self, app: str | None, store: str | None, as_json: bool) -> None:
        self.target = app
        self.named = store
        self.as_json = as_json

    # The store

    @functools.cached_property
    def app(self) -> App | None:
        """The App, imported, if one was named."""
        if not self.target:
            return None
        from inturn.worker.app_target import find_app

        if self.named:  # for an App without a store of its own
            os.environ["INTURN_STORE"] = anchored(self.named)
        with contextlib.redirect_stdout(sys.stderr):  # its module may print; our output is our own
            return find_app(self.target, Path.cwd())[1]

    @property
    def url(self) -> str:
        """The store's URL: --store, or the App's own."""
        if self.named:
            return self.named
        if self.app is not None:
            return self.app.address
        raise BadInput(
            "no store given. Pass --app MODULE:APP or --store URL, or set INTURN_APP or "
            "INTURN_STORE."
        )

    def run(
        self, verb: Callable[[Store], Awaitable[Answer]], *, makes_file: bool = False
    ) -> Answer:
        """Open the store, run one coroutine on it, and close it."""
        url = self.url

        async def opened() -> Answer:
            async with connected(url) as store:
                if not makes_file:
                    self._check_file(store)
                try:
                    async with asyncio.timeout(OPEN_SECONDS_MAX):
                        await store.open()
                except TimeoutError as error:
                    raise StoreUnavailable(
                        f"the store did not answer within {OPEN_SECONDS_MAX:g} s. Check that its "
                        f"server runs and that its URL is right."
                    ) from error
                return await verb(store)

        return asyncio.run(opened())

    def _check_file(self, store: Store) -> None:
        """Refuse a SQLite file that is not there: a mistyped name must not make a new store."""
        path = getattr(store, "path", None)
        try:
            if path is None or Path(path).stat().st_size:
                return
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            return  # the store says why it cannot be opened
        make = (
            f"To make it: `inturn store migrate --store {self.named}`."
            if self.named
            else "It is made by the first job that is submitted, or by a worker."
        )
        raise SchemaMissing(f"the file {path} is not there yet, or empty. {make}")

    # Printing

    @functools.cached_property
    def console(self) -> Console:
        """Where text for people goes."""
        return make_console()

    def answer(self, document: Document, text: str | RenderableType) -> None:
        """Print one thing: as JSON, or its text."""
        if self.as_json:
            print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        else:
            print_to(self.console, text)

    def page(
        self,
        name: str,
        page: Page[Row],
        *,
        document: Callable[[Row], Document],
        heads: Sequence[str],
        cells: Callable[[Row], Sequence[Cell]],
        empty: str,
        without: Collection[str] = (),
    ) -> None:
        """Print a list, and how to go on when there is more."""
        shown: RenderableType = empty
        if page.rows:
            shown = table(heads, map(cells, page.rows), without=without)
        if page.cursor is not None:
            more = Text(f"There are more: --cursor {page.cursor}, or a larger --limit.", "dim")
            shown = Group(shown, more)
        self.answer({name: list(map(document, page.rows)), "cursor": page.cursor}, shown)


def _options(
    app: AppOption = None, store: StoreOption = None, as_json: JsonOption = False
) -> None: ...


_options_only = typer.Typer(add_completion=False)
_options_only.command()(_options)


class StoreCommand(TyperCommand):
    """A command on a store: it takes --app, --store and --json; ``context.obj`` is its Session."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += get_command(_options_only).params

    def invoke(self, ctx: Any) -> Any:
        """Call the function with what is left of the options."""
        names = ("app", "store", "as_json")
        ctx.obj = Session(*(ctx.params.pop(name) for name in names))
        return super().invoke(ctx)


def on_store(
    group: typer.Typer, name: str, *uses: str
) -> Callable[[CommandFunctionType], CommandFunctionType]:
    """Make a function a command on a store; ``uses`` are examples for its help."""
    return group.command(name, cls=StoreCommand, epilog=examples(*uses))


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[Store]:
    """Yield a store that is not open yet, and close it."""
    store = connect(url)
    if store.is_private:
        raise InvalidStoreURL(
            "a store in memory ends with this command. Name a file: --store sqlite:///work.db."
        )
    try:
        yield store
    finally:
        await store.close()


async def collect(
    read: Callable[..., Awaitable[Page[Row]]],
    *,
    cursor: str | None = None,
    limit: int,
    wanted: Callable[[Row], bool] = lambda row: True,
    **filters: Any,
) -> Page[Row]:
    """Read pages until there are ``limit`` wanted rows, or no more."""
    rows: list[Row] = []
    while True:
        rows_max = min(limit - len(rows), bounds.PAGE_ROWS_MAX)
        page = await read(**filters, cursor=cursor, rows_max=rows_max)
        rows += filter(wanted, page.rows)
        cursor = page.cursor
        if cursor is None or len(rows) >= limit:
            return Page(rows=tuple(rows), cursor=cursor)


async def check_queue(store: Store, queue: str | None) -> None:
    """Refuse the name of a queue that is not there, which is probably mistyped."""
    if queue is not None and queue not in {status.name for status in await store.queues()}:
        raise UnknownQueue(queue)


async def find_job(store: Store, text: str) -> UUID:
    """Return the id that was typed whole, or of which the last 8 or more characters were."""
    ending = text.lower().replace("-", "")
    if not set(ending) <= set("0123456789abcdef") or not 8 <= len(ending) <= 32:
        raise BadInput(
            f"{text!r} is not a job's id. Give all of it, or the last 8 characters, as "
            f"`inturn jobs list` shows them."
        )
    if len(ending) == 32:
        return UUID(ending)
    found = await store.jobs_ending(ending)
    if not found:
        raise NotFound(
            f"no job's id ends with {ending}, among the newest million and all that are set aside. "
            f"Give the whole id of an older job, or list jobs: `inturn jobs list`."
        )
    if len(found) > 1:
        raise BadInput(f"{' and '.join(map(str, found))} all end with {ending}. Give a whole id.")
    return found[0]
