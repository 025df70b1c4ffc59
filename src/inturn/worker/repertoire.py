"""What a durable executor runs: the jobs of its app, as far as its worker knows them."""

from __future__ import annotations

from typing import Any

from inturn.model import bounds
from inturn.model.admissible import check_name, shown
from inturn.model.errors import BadInput
from inturn.queue.app import App
from inturn.queue.job import Call, Job
from inturn.worker.ends import Ends
from inturn.worker.watcher import watched_job
from inturn.worker.worker import Worker


class Repertoire:
    """The jobs of an app, of which some may be declared while the executor's worker runs."""

    def __init__(self, app: App, ends: Ends) -> None:
        self._app, self._ends = app, ends
        self.worker: Worker | None = None  # who runs them, once the executor has started

    def keyed(self, key: str, job: Any) -> Call[Any]:
        """Return a call with its key, or say how a job is declared."""
        check_name("key", key, bounds.KEY_CHARS_MAX)
        if isinstance(job, Job):
            raise BadInput(f"say with which arguments: submit({key!r}, {job.kind}.call(…)).")
        if not isinstance(job, Call):
            raise BadInput(
                f"an executor with a store takes calls of declared jobs, not {shown(job)}, which "
                f"would not survive the process. Declare a function, @app.job, and submit "
                f"function.call(…)."
            )
        new = job.new
        if new.kind not in self._app.jobs:
            raise BadInput(f"job {new.kind!r} is not of this executor's app: it would not run it.")
        if not job.is_of(self._app):
            raise BadInput(
                f"job {new.kind!r} is one of another app, and this executor would run its own of "
                f"that kind instead. Give it the call of its own app's job. (A module that is "
                f"imported twice, as __main__ and by its name, declares two.)"
            )
        declared = self._app.jobs[new.kind]
        if self._is_too_late(declared):
            raise BadInput(
                f"job {new.kind!r} is of process=True and was declared after the executor started, "
                f"so its processes do not know it. Import what declares it before, or make a new "
                f"executor."
            )
        if new.queue != declared.options.queue and new.queue not in self._queues_taken():
            raise BadInput(
                f"queue {new.queue!r} is none that jobs of the app are declared on "
                f"({', '.join(self._queues_taken())}), so this executor would not run what is in "
                f"it."
            )
        if new.key not in (None, key):
            raise BadInput(f"the job has the key {new.key!r} already, and cannot have {key!r} too.")
        return job.keyed(key)

    def learn(self) -> None:
        """Have the worker take what was declared since it began."""
        worker = self.worker
        assert worker is not None
        if len(worker.kinds) == len(self._app.jobs):
            return
        for kind, job in list(self._app.jobs.items()):
            if kind not in worker.kinds and not job.in_process:
                worker.learn(watched_job(job, self._ends))

    def takes(self, queue: str, kind: str) -> bool:
        """Whether the worker takes a kind of job from a queue."""
        worker = self.worker
        return worker is not None and queue in worker.queues and kind in worker.kinds

    def queues(self) -> list[str]:
        """Return the queues that the jobs are declared on."""
        return sorted({job.options.queue for job in list(self._app.jobs.values())})

    def _queues_taken(self) -> list[str]:
        jobs = list(self._app.jobs.values())
        return sorted({job.options.queue for job in jobs if not self._is_too_late(job)})

    def _is_too_late(self, job: Job[Any, Any]) -> bool:
        """Whether a job was declared when its processes were there already."""
        worker = self.worker
        return job.in_process and worker is not None and job.kind not in worker.kinds
