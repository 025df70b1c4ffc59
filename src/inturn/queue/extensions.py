"""Where applications attach to an App: by the name of their package, when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from inturn.model.errors import BadInput
from inturn.store.schema import installed_schemas

if TYPE_CHECKING:
    from inturn.groups.group import Group
    from inturn.groups.groups import Groups
    from inturn.groups.model import Node
    from inturn.poll.extension import Poll, Schedules
    from inturn.poll.source import Source
    from inturn.queue.app import App
    from inturn.queue.job import Job

AnyJob = TypeVar("AnyJob", bound="Job[..., Any]")

OUR_OWN = frozenset({"groups", "poll", "shards", "tree"})


class Extension:
    """An application on one App. Its package has a function ``attach(app)``, which makes it.

    As it is made it declares its jobs, queues, tables and duties on the app, by the verbs that a
    user's own code has: ``app.job``, ``app.queue``, ``app.schema``, ``app.duty``.
    """

    has_nodes = False
    """Whether workers are to claim from every queue ``node:NAME`` that is not local."""

    def __init__(self, app: App) -> None:
        self.app = app

    def worker_begins(self) -> None:
        """Hear that a worker is about to run the app's jobs: all of them are declared by now."""


class ExtensibleApp:
    """The part of an App that applications attach to. None is imported before it is used."""

    def __init__(self) -> None:
        self.extensions: dict[str, Any] = {}  # attached, by the name of their package
        self._attaching = RLock()

    def extension(self, name: str) -> Any:
        """Return an application on this app: ``"groups"``, or the full name of its package.

        It is attached when it is first asked for. A worker attaches those that the store has a
        queue of: one that has their owner's name.
        """
        package = f"inturn.{name}" if name in OUR_OWN else name
        with self._attaching:
            if package not in self.extensions:
                self.extensions[package] = _module(name, package).attach(self)
            return self.extensions[package]

    # Doors of our own applications

    @property
    def groups(self) -> Groups:
        """The groups of this app: commands on nodes, in order, and undone when they fail."""
        found: Groups = self.extension("groups")
        return found

    def group(self, name: str) -> Group:
        """Begin a group: ``async with app.group("move-users-3") as group``.

        Its steps are added by ``group.step``; it is submitted whole when its block ends.
        """
        return self.groups.group(name)

    def node(
        self,
        name: str,
        address: str | None = None,
        *,
        concurrency: int | None = 10,
        local: bool = False,
    ) -> Node:
        """Declare a node that steps of groups run on: ``app.node("pg1", "postgresql://…")``.

        Without an address only jobs of the app and commands run there. ``${NAME}`` in it is read
        from the environment where the worker runs. ``concurrency``: how many steps run there at
        once, over all workers; None: no limit. ``local``: only workers started with
        ``--node NAME`` serve it.
        """
        return self.groups.node(name, address, concurrency=concurrency, local=local)

    @property
    def schedules(self) -> Schedules:
        """The schedules of this app's store: list, run, pause and resume them."""
        return self._poll.schedules

    @property
    def sources(self) -> Mapping[str, Source]:
        """The sources that this app declares, by name."""
        return self._poll.sources

    def every(
        self,
        interval: float | str,
        *,
        arguments: Mapping[str, Any] | None = None,
        name: str | None = None,
        catch_up: str = "once",
    ) -> Callable[[AnyJob], AnyJob]:
        """Submit a job at intervals: ``@app.every("5m")`` above ``@app.job``.

        However many workers run, one firing is one job. ``arguments`` are the job's; ``name`` is
        the schedule's, by default the job's kind. ``catch_up``: what becomes of firings that were
        missed while no worker ran: "once" (one job for all), "skip" or "all".
        """
        return self._poll.every(interval, arguments=arguments, name=name, catch_up=catch_up)

    def cron(
        self,
        expression: str,
        *,
        timezone: str = "UTC",
        arguments: Mapping[str, Any] | None = None,
        name: str | None = None,
        catch_up: str = "once",
    ) -> Callable[[AnyJob], AnyJob]:
        """Submit a job at the times of a cron expression: ``@app.cron("*/5 * * * *")`` above
        ``@app.job``. The rest is as with ``every``.

        Where summer time skips an hour, what falls into it fires right after; where an hour comes
        twice, what names that hour fires once.
        """
        return self._poll.cron(
            expression, timezone, arguments=arguments, name=name, catch_up=catch_up
        )

    @property
    def _poll(self) -> Poll:
        made: Poll = self.extension("poll")
        return made

    def source(
        self,
        name: str,
        *,
        every: float | str | None = None,
        cron: str | None = None,
        timezone: str = "UTC",
        shadow: Any = Any,
        key: str = "id",
        version: str = "version",
        deleted: str | None = None,
        on_dead: Literal["skip", "halt"] = "skip",
        on_cursor_gone: Literal["fail", "restart"] = "fail",
        hard_deletes: bool = False,
        sweep_max: int = 1_000,
        sweep_percent: float = 10.0,
    ) -> Callable[[Callable[..., Any]], Source]:
        """Declare a source above a function that takes a cursor and returns an ``inturn.Page``.

        Its runs keep a shadow of an outside system, and submit a job for each change.

        - ``every`` or ``cron``: when it is read; without either only when it is asked for;
        - ``shadow``: the type of an item, such as a ``msgspec.Struct``;
        - ``key``, ``version``, ``deleted``: the fields that say which item it is, which version of
          it, and, where the outside system says so, that it is gone;
        - ``on_dead``: after a change's job has died, go on with the item's next change ("skip"), or
          hold that item until a person decides ("halt");
        - ``on_cursor_gone``: what to do when the function raises ``inturn.poll.CursorGone``: try
          again until a person resets the source, or read it from the beginning ("restart");
        - ``hard_deletes``, ``sweep_max``, ``sweep_percent``: for ``reconcile``, whether what is
          gone is forgotten, and how much may go in one walk.
        """
        return self._poll.source(
            name,
            every=every,
            cron=cron,
            timezone=timezone,
            shadow=shadow,
            key=key,
            version=version,
            deleted=deleted,
            on_dead=on_dead,
            on_cursor_gone=on_cursor_gone,
            hard_deletes=hard_deletes,
            sweep_max=sweep_max,
            sweep_percent=sweep_percent,
        )


def attach_used(app: ExtensibleApp, queues: Collection[str]) -> None:
    """Attach the installed applications whose name a queue of the store has."""
    for schema in installed_schemas():
        if schema.owner in queues and hasattr(import_module(schema.package), "attach"):
            app.extension(schema.package)


def _module(name: str, package: str) -> Any:
    try:
        is_there = find_spec(package) is not None
    except ModuleNotFoundError:  # nor is the package that it is in
        is_there = False
    if not is_there:
        raise BadInput(f"there is no application {name!r}: module {package!r} is not installed.")
    return import_module(package)
