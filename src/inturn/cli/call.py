"""One call of the command: which store it is for, how it answers, and the bridge to async verbs."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from inturn.cli.exits import told
from inturn.cli.help import Command
from inturn.cli.options import DebugOption, flag
from inturn.cli.printing import Printer
from inturn.cli.settings import Address, find_address, here, look_for_address
from inturn.model.errors import InvalidStoreURL, SchemaMissing, StoreUnavailable
from inturn.store.address import connect
from inturn.store.protocol import Store
from inturn.store.sqlite.store import SqliteStore

OPEN_SECONDS_MAX = 15.0  # a little more than SQLite waits for whoever holds the file

Answer = TypeVar("Answer")
Function = Callable[..., None]


class Call:
    """Runs one verb, or a few, on the store that was named, and prints what came of it."""

    def __init__(self, store: str | None, *, as_json: bool, debug: bool = False) -> None:
        self._named = store
        self.debug = debug
        self.folder = here()
        self.out = Printer(as_json=as_json)

    @functools.cached_property
    def address(self) -> Address:
        """The store's address, and who named it."""
        return find_address(self._named, environment=os.environ, folder=self.folder)

    def find_address(self) -> Address | None:
        """Return the store's address, if it is named anywhere."""
        return look_for_address(self._named, environment=os.environ, folder=self.folder)

    def run(self, verb: Callable[[Store], Awaitable[Answer]]) -> Answer:
        """Open the store, run one coroutine on it, and close it."""

        async def opened() -> Answer:
            async with _connected(self.address.url) as store:
                await _open(store)
                return await verb(store)

        return asyncio.run(opened())

    def migrate(self) -> int:
        """Make or renew the store's tables, which need not be there to be opened."""

        async def migrated() -> int:
            async with _connected(self.address.url) as store:
                return await store.migrate()

        return asyncio.run(migrated())


def command(
    app: typer.Typer,
    name: str,
    *examples: str,
    store: str = "The store. Else INTURN_STORE, else pyproject.toml.",
    json: str = "Print one JSON document.",
) -> Callable[[Function], Function]:
    """Make a function a command of ``app`` that also takes --store, --json and --debug.

    The function's first parameter is the ``Call``; the rest are the command's own. Examples stand
    at the end of its help. ``store`` and ``json`` say what these options mean to it.
    """

    def wire(function: Function) -> Function:
        epilog = "\n\n".join(["Examples:" if len(examples) > 1 else "Example:", *examples])
        wired = _with_call(function, _shared(store, json))
        app.command(name, epilog=epilog, cls=Command)(wired)
        return function

    return wire


def _with_call(function: Function, shared: list[inspect.Parameter]) -> Function:
    signature = inspect.signature(function, eval_str=True)
    own = list(signature.parameters.values())[1:]
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own, *shared)]

    def run(*, store: str | None, as_json: bool, debug: bool, **arguments: Any) -> None:
        with told(debug=debug):
            function(Call(store, as_json=as_json, debug=debug), **arguments)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def _shared(store: str, json: str) -> list[inspect.Parameter]:
    """Return what every command takes; two of them are told what to say of themselves."""
    about: Any = {"rich_help_panel": "Every command"}
    url = typer.Option("--store", metavar="URL", help=store, show_default=False, **about)
    options = {
        "store": (Annotated[str | None, url], None),
        "as_json": (Annotated[bool, flag("--json", help=json, **about)], False),
        "debug": (DebugOption, False),
    }
    return [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
        for name, (annotation, default) in options.items()
    ]


@contextlib.asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Store]:
    store = connect(url)
    if store.is_private:
        raise InvalidStoreURL(
            "a store in memory is gone when the command ends. Name a file: --store "
            "sqlite:///work.db."
        )
    try:
        yield store
    finally:
        await store.close()


async def _open(store: Store) -> None:
    """Open a store, but make none: a mistyped name must not become a new, empty store."""
    if isinstance(store, SqliteStore):
        _insist_on_file(Path(store.path))
    try:
        async with asyncio.timeout(OPEN_SECONDS_MAX):
            await store.open()
    except TimeoutError as error:
        raise StoreUnavailable(
            f"the store did not answer within {OPEN_SECONDS_MAX:g} s. Check that its server runs "
            f"and that the store's URL is right."
        ) from error


def _insist_on_file(path: Path) -> None:
    make = f"`inturn store migrate --store sqlite:///{path}`"
    try:
        size = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        raise SchemaMissing(
            f"there is no file {path}. Name the right one, or make it: {make}."
        ) from None
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be opened: {error}.") from error
    if not size:
        raise SchemaMissing(f"the file {path} is empty. Make its tables: {make}.")
