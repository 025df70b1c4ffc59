"""An app with a schedule and a source, for commands to look at."""

from __future__ import annotations

import asyncio

import inturn
from inturn.poll.schedules import Firing
from tests.poll.outside import Item, Outside


def declared_app(url: str, name: str = "consignments") -> inturn.App:
    """Return an app whose source has two items; nothing was read of it yet."""
    app, outside = inturn.App(url), Outside()
    outside.put("a", "b")

    @app.cron("30 2 * * *", timezone="Europe/Berlin")
    @app.job
    def report() -> None:
        """Do nothing."""

    @app.source(name, every="5m", shadow=Item)
    def items(cursor: str | None) -> inturn.Page[Item]:
        return outside.page(cursor)

    return app


def fire_once(app: inturn.App) -> None:
    """Do what a worker of the app does as it starts."""

    async def fired() -> None:
        store = await app.lend()
        poll = app.extension("poll")
        sources = [one.declaration for one in poll.sources.values()]
        await Firing(poll.declared.values(), sources).step(store)
        await app.close()

    asyncio.run(fired())


def work_off(app: inturn.App) -> None:
    """Run what is there to run."""

    async def worked() -> None:
        async with app:
            await inturn.Worker(app).run(until_empty=True)

    asyncio.run(worked())
