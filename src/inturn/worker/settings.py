"""What a worker process is to do: the options of ``inturn work``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

import msgspec

from inturn.model import bounds, worker_events
from inturn.model.errors import AppNotFound, InvalidStoreURL
from inturn.queue.app import App
from inturn.store.address import anchored, connect, is_same, without_password
from inturn.worker.app_target import find_app
from inturn.worker.worker import Worker


class Found(NamedTuple):
    """An app: what it is called in full, and the store that it names itself."""

    name: str
    store: str

    def store_left(self, used: str) -> str | None:
        """Return the app's own store, fit to be printed, if the one that is used is another."""
        return None if is_same(self.store, used) else without_password(self.store)


class WorkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One worker: of which app, on which store, how."""

    target: str
    folder: str
    name: str
    store: str | None = None  # None: the app's own
    store_named_by: str = ""  # the flag, the variable or the file that names it
    queues: tuple[str, ...] | None = None  # None: those that the app's jobs are declared on
    nodes: tuple[str, ...] = ()  # besides
    concurrency: int = 100
    lease_seconds: float = bounds.LEASE_SECONDS_DEFAULT
    sweep_seconds: float = 10.0
    drain: bool = False  # stop when nothing is left to run now
    verbose: bool = False  # tell of every job that is done

    @property
    def where(self) -> str:
        """The options with which other commands find the same store."""
        if self.store is not None and self.store_named_by == "--store":
            return f"--store {shlex.quote(without_password(self.store))}"
        return f"-A {shlex.quote(self.target)}"

    def worker(self, listener: worker_events.Listener) -> tuple[Found, Worker]:
        """Import the app and make its worker; return what was found, too."""
        meant = None if self.store is None else anchored(self.store)
        named, app = find_app(self.target, Path(self.folder))
        found = Found(named, app.url)
        if self.store is not None and meant is not None and meant != app.address:
            # As it was named, unless the app's module has left the folder that it is named from.
            app.use(self.store if anchored(self.store) == meant else meant)
        _insist_on_work(named, app)
        return found, Worker(
            app,
            queues=self.queues,
            nodes=self.nodes,
            concurrency=self.concurrency,
            lease_seconds=self.lease_seconds,
            sweep_seconds=self.sweep_seconds,
            name=self.name,
            listeners=[listener],
        )


def _insist_on_work(named: str, app: App) -> None:
    if connect(app.url).is_private:
        raise InvalidStoreURL(
            f"the store of {named} is in memory, where no other program can submit to it. Name a "
            f"file: --store sqlite:///work.db."
        )
    if not app.jobs:
        raise AppNotFound(
            f"{named} has no jobs, so there is nothing that a worker could run. Declare some with "
            f"@app.job, and import the modules that do so in this one; or, to run the steps of "
            f'group files alone, write app.extension("groups").'
        )
