"""``inturn store``: make or upgrade a store's tables, check them, delete what has expired."""

from __future__ import annotations

import asyncio

import msgspec
import typer

from inturn.cli.exits import ExitCode
from inturn.cli.session import Session, connected, on_store
from inturn.cli.text import count, plain
from inturn.model.lease import Pruned
from inturn.store.address import without_password
from inturn.store.schema import ENGINE, installed_schemas

app = typer.Typer(help="Make, upgrade, check and prune a store's tables.", no_args_is_help=True)

_NOUNS = {
    "jobs": "done job",
    "cancelled": "cancelled job",
    "lanes": "idle lane",
    "results": "result",
    "dedupes": "dedupe key",
    "stats": "minute of statistics",
    "workers": "silent worker",
}


@on_store(
    app,
    "migrate",
    "inturn store migrate -A shop:app",
    "inturn store migrate --store sqlite:///work.db",
)
def migrate(context: typer.Context) -> None:
    """Make the store's tables, or upgrade them. Safe to repeat.

    Those of installed applications, too; and with --app those of the app's own schemas.
    """
    session: Session = context.obj
    url = session.url
    schemas = installed_schemas() + (session.app.schemas if session.app is not None else [])

    async def migrated() -> dict[str, int]:
        async with connected(url) as store:
            await store.migrate(schemas)
            await store.open()
            return await store.versions()

    versions, shown = asyncio.run(migrated()), without_password(url)
    version = versions.pop(ENGINE)
    more = "".join(f" and {owner} {number}" for owner, number in sorted(versions.items()))
    session.answer(
        {"store": shown, "schema_version": version, "schemas": versions},
        plain(f"{shown} has schema version {version}{more}."),
    )


@on_store(app, "check", "inturn store check -A shop:app")
def check(context: typer.Context) -> None:
    """Check that the tables are consistent. Reads everything; exits with 1 on a problem."""
    session: Session = context.obj
    problems = session.run(lambda store: store.check())
    session.answer({"problems": problems}, plain("\n".join(problems)) or "No problems.")
    if problems:
        raise typer.Exit(ExitCode.NO)


@on_store(app, "prune", "inturn store prune -A shop:app")
def prune(context: typer.Context) -> None:
    """Delete expired jobs and results. Running workers do this for you."""
    session: Session = context.obj
    pruned = session.run(lambda store: store.prune())
    session.answer(msgspec.structs.asdict(pruned), _pruned_text(pruned))


def _pruned_text(pruned: Pruned) -> str:
    gone = [
        count(getattr(pruned, name), noun) for name, noun in _NOUNS.items() if getattr(pruned, name)
    ]
    return f"Deleted {', '.join(gone)}." if gone else "Nothing to delete."
