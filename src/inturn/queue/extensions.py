"""Where applications attach to an App: by the name of their package, when they are first used."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from typing import TYPE_CHECKING, Any

from inturn.model.errors import BadInput

if TYPE_CHECKING:
    from inturn.queue.app import App

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


class ExtensibleApp:
    """The part of an App that applications attach to. None is imported before it is used."""

    def __init__(self) -> None:
        self.extensions: dict[str, Any] = {}  # attached, by the name of their package
        self._attaching = RLock()

    def extension(self, name: str) -> Any:
        """Return an application on this app: ``"groups"``, or the full name of its package.

        It is attached when it is first asked for. Workers attach those whose tables are in the
        store when they start.
        """
        package = f"inturn.{name}" if name in OUR_OWN else name
        with self._attaching:
            if package not in self.extensions:
                self.extensions[package] = _module(name, package).attach(self)
            return self.extensions[package]

    # Doors of our own applications

    @property
    def groups(self) -> Any:
        """The groups of this app: commands on nodes, in order, and undone when they fail."""
        return self.extension("groups")

    def group(self, *args: Any, **settings: Any) -> Any:
        """Begin a group; it is submitted whole when its ``async with`` ends."""
        return self.groups.group(*args, **settings)

    def node(self, *args: Any, **settings: Any) -> Any:
        """Declare a node that steps of groups run on."""
        return self.groups.node(*args, **settings)

    @property
    def schedules(self) -> Any:
        """The schedules of this app."""
        return self.extension("poll").schedules

    @property
    def sources(self) -> Any:
        """The sources of this app."""
        return self.extension("poll").sources

    def every(self, *args: Any, **settings: Any) -> Any:
        """Submit a job at intervals: ``@app.every("5m")`` above ``@app.job``."""
        return self.extension("poll").every(*args, **settings)

    def cron(self, *args: Any, **settings: Any) -> Any:
        """Submit a job at times: ``@app.cron("*/5 * * * *")`` above ``@app.job``."""
        return self.extension("poll").cron(*args, **settings)

    def source(self, *args: Any, **settings: Any) -> Any:
        """Declare a source, whose changes are fetched page by page."""
        return self.extension("poll").source(*args, **settings)


def _module(name: str, package: str) -> Any:
    try:
        is_there = find_spec(package) is not None
    except ModuleNotFoundError:  # nor is the package that it is in
        is_there = False
    if not is_there:
        raise BadInput(f"there is no application {name!r}: module {package!r} is not installed.")
    return import_module(package)
