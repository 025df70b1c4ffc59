"""Which queues a worker claims from: those it is told to, and those that the store offers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from inturn.model import bounds
from inturn.model.admissible import check_name, check_queues, listed
from inturn.model.lane import NODE, QueueSettings
from inturn.queue.app import App
from inturn.queue.extensions import attach_used


class QueuesServed:
    """A worker's queues.

    Told none, it serves those of the app's jobs, and every node of the store if an application
    with nodes is attached; but a local queue only if it is told to, as by its node's name. It
    attaches an application when it first sees a queue of it in the store.
    """

    def __init__(self, app: App, queues: Iterable[str] | None, nodes: Iterable[str]) -> None:
        self._app = app
        self._told = None if queues is None else listed("queues", queues)
        check_queues(self._told or ())
        nodes = listed("nodes", nodes)
        for node in nodes:
            check_name("node", node, bounds.QUEUE_CHARS_MAX - len(NODE))
        self._nodes = [NODE + node for node in nodes]
        self._seen: set[str] = set()
        self.limited: frozenset[str] = frozenset()
        self.names: list[str] = []  # changes in place
        self.hear({})

    def hear(self, settings: Mapping[str, QueueSettings]) -> bool:
        """Take in how the store's queues behave; say whether the worker has others to serve."""
        self.limited = frozenset(name for name, one in settings.items() if one.is_limited)
        if unknown := settings.keys() - self._seen - self._of_jobs():
            self._seen |= unknown
            attach_used(self._app, unknown)
        if self._told is None:
            found = self._of_jobs() or {"default"}
            if any(one.has_nodes for one in self._app.extensions.values()):
                found |= {name for name in settings if name.startswith(NODE)}
            names = sorted(one for one in found if one not in settings or not settings[one].local)
        else:
            names = list(self._told)
        names += [node for node in self._nodes if node not in names]
        is_news = names != self.names
        self.names[:] = names
        return is_news

    def _of_jobs(self) -> set[str]:
        return {job.options.queue for job in self._app.jobs.values()}
