"""Every error that inturn raises. Each says what happened, to which thing, and what to do.

InturnError
├── BadInput (a ValueError: nothing was stored)
│   ├── InvalidPayload        not JSON, NaN, a lone surrogate, NUL
│   ├── PayloadTooLarge
│   ├── InvalidName           of a queue, key, kind, dedupe key or worker
│   ├── OutOfBounds           a number outside its range
│   ├── UnknownDependency     ``after`` names a job that is not there
│   ├── DependencyCycle
│   ├── WrongJob              a settlement carries a job of another lease
│   ├── InvalidStoreURL
│   ├── InvalidSetting        a setting, or the variable it comes from, cannot be
│   ├── AppNotFound           MODULE:APP names no App that can be imported
│   │   └── AppInterrupted    … for someone wanted the command to end meanwhile
│   └── WaitsForItself        a job asked its executor for what cannot be while it runs
├── DedupeConflict            same dedupe key, other payload
├── JobConflict               same id, other payload
├── QueueFull                 a bound on depth was reached; says when to come back
│   └── ShardFull             … of an executor; says which shard, how long, how long it may be
│       └── EnqueueTimeout    … and stayed so while the caller waited (a TimeoutError)
├── LeaseLost                 the lease is gone and the jobs are someone else's
├── OutOfOrder                a keyed lane's jobs must be settled in their order
├── NotFound
│   ├── UnknownJob
│   ├── UnknownLane
│   └── UnknownQueue
├── NotHalted                 a verb for halted lanes on a lane that is not
├── PayloadMismatch           a payload does not fit its handler any more
├── ResultMismatch            a result is not what its handler's annotation says
├── HookFailed                a hook of an app failed, as its worker began or ended
├── WorkerSpent               a worker was to run a second time
├── ChildDied                 the process that ran a job ended before the job did
├── JobFailed                 the job whose result was awaited is dead
├── ResultCancelled           the job whose result was awaited will not run
├── ResultLost                the job is done, and what its handler returned could not be kept
├── ResultTimeout             the job whose result was awaited is not done yet
├── ExecutorClosed            the executor was not started, or is stopped
├── KeyHalted                 an earlier job of the key failed for good
├── TooManyHalted             an executor has as many halted keys as it may
├── EarlierFailure            a barrier found that an earlier job of its key had failed
├── JobCancelled              the job was cancelled: it did not run, or not to its end
├── AttemptFailed             an attempt failed, and not by an error that its handler raised
└── StoreError
    ├── StoreUnavailable      cannot be reached, or went away
    ├── StoreBusy             locked by someone else for too long
    ├── StoreFull             the disk is full
    ├── ConstraintBroken      a query of your own broke a constraint of its table
    ├── StoreReplaced         its file was deleted or replaced while it was open
    ├── SchemaMissing         no tables yet
    ├── SchemaTooNew          made by a newer inturn
    ├── SchemaTaken           tables of these names are there, and are not inturn's
    └── NoRights              the user may not do this in the database
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from uuid import UUID

# A name said twice is one that is imported from here. One import a module:
# isort: off
from inturn.model.error import (
    BadInput as BadInput,
    InturnError as InturnError,
)
from inturn.model.full_errors import (
    EnqueueTimeout as EnqueueTimeout,
    QueueFull as QueueFull,
    ShardFull as ShardFull,
)
from inturn.model.store_errors import (
    ConstraintBroken as ConstraintBroken,
    NoRights as NoRights,
    SchemaMissing as SchemaMissing,
    SchemaTaken as SchemaTaken,
    SchemaTooNew as SchemaTooNew,
    StoreBusy as StoreBusy,
    StoreError as StoreError,
    StoreFull as StoreFull,
    StoreReplaced as StoreReplaced,
    StoreUnavailable as StoreUnavailable,
)

# isort: on
from inturn.model.spelling import whole


class InvalidPayload(BadInput):
    """The payload is not JSON that both stores can keep."""


class PayloadTooLarge(BadInput):
    """The payload has more bytes than its bound."""


class InvalidName(BadInput):
    """A name is empty, too long, or has a character no store can keep."""


class OutOfBounds(BadInput):
    """A number lies outside its range."""


class UnknownDependency(BadInput):
    """A job is to wait for one that is not there, or was cancelled: it would wait for ever."""

    def __init__(self, missing: Iterable[UUID], cancelled: Iterable[UUID] = ()) -> None:
        self.cancelled = tuple(sorted(cancelled))
        self.missing = tuple(sorted({*missing, *self.cancelled}))
        unknown = ", ".join(str(one) for one in self.missing if one not in self.cancelled)
        cancelled_ones = ", ".join(map(str, self.cancelled))
        said = [f"{cancelled_ones}, which was cancelled"] if cancelled_ones else []
        if unknown:
            said.append(
                f"{unknown}, which is not in this store: it was never accepted, or it is finished "
                f"and its history was pruned"
            )
        super().__init__(
            f"after names {'; and '.join(said)}. Submit it first, or leave it out of after."
        )


class DependencyCycle(BadInput):
    """Jobs wait for one another in a circle."""

    def __init__(self, cycle: Iterable[UUID]) -> None:
        self.cycle = tuple(cycle)
        path = " → ".join(str(one) for one in self.cycle)
        super().__init__(f"these jobs wait for one another in a circle: {path}. Break it.")


class WrongJob(BadInput):
    """A settlement carries a job that its lease does not hold. Nothing was written."""

    def __init__(self, token: int, position: int, job: UUID) -> None:
        self.token, self.position, self.job = token, position, job
        super().__init__(
            f"lease {token} holds another job than {job} at position {position}. Settle each job "
            f"under the lease of the claim that it came with; nothing was written."
        )


class InvalidStoreURL(BadInput):
    """The store's address cannot be read."""


class InvalidSetting(BadInput):
    """A setting, or the environment variable that it comes from, cannot be what it is."""


class AppNotFound(BadInput):
    """MODULE:APP names no App that can be imported. ``seen``: lines that show where it failed."""

    def __init__(self, said: str, *, seen: Iterable[str] = ()) -> None:
        self.seen = tuple(seen)
        super().__init__(said)


class AppInterrupted(AppNotFound):
    """Someone wanted the command to end while MODULE was imported."""


class HookFailed(InturnError):
    """A hook of an app failed as its worker began or ended. The cause is what it raised."""


class WaitsForItself(BadInput):
    """A call would wait for its own caller: a job for its own end, or a loop for itself."""

    def __init__(self, verb: str, key: str | None) -> None:
        self.verb, self.key = verb, key
        super().__init__(
            f"{verb} was called on the executor's own event loop, which it would block, and only "
            f"that loop can end the wait. Use the verb of the same name that is awaited."
            if key is None
            else f"a job of key {key!r} called {verb}, which waits until this very job has ended. "
            f"Call it from outside the executor's jobs."
        )


class DedupeConflict(InturnError):
    """The dedupe key was used for another job within its window."""

    def __init__(self, queue: str, dedupe: str, job: UUID) -> None:
        self.queue, self.dedupe, self.job = queue, dedupe, job
        super().__init__(
            f"dedupe key {dedupe!r} of queue {queue!r} already stands for job {job}, which has "
            f"another kind, key or payload. Use another dedupe key for other work."
        )


class JobConflict(InturnError):
    """The id stands for another job already. Nothing was stored."""

    def __init__(self, job: UUID) -> None:
        self.job = job
        super().__init__(
            f"job {job} is in this store already, with another queue, kind, key or payload. A job "
            f"never changes once it is accepted: leave the ids of new jobs to inturn."
        )


class LeaseLost(InturnError):
    """The lease is gone: it ran out and its jobs were given on. Nothing was written."""

    def __init__(self, tokens: Iterable[int]) -> None:
        self.tokens = tuple(sorted(set(tokens)))
        super().__init__(
            f"lease {', '.join(str(token) for token in self.tokens)} is gone or no longer holds "
            f"these positions: it ran out and its jobs are run by someone else, or they were "
            f"settled before. Nothing was written; drop the result."
        )


class OutOfOrder(InturnError):
    """Jobs of a keyed lane were settled out of their order. Nothing was written."""


class NotFound(InturnError, LookupError):
    """There is no such thing in this store."""


class UnknownJob(NotFound):
    """There is no job with this id."""

    def __init__(self, job: UUID) -> None:
        self.job = job
        super().__init__(
            f"there is no job {job} here: it was never accepted, or it is finished and its "
            f"history was pruned. List jobs: `inturn jobs list --all`."
        )


class UnknownLane(NotFound):
    """There is no such lane."""

    def __init__(self, queue: str, key: str) -> None:
        self.queue, self.key = queue, key
        super().__init__(
            f"queue {queue!r} has no lane {key!r}. List its lanes: "
            f"`inturn lanes list {shlex.quote(queue)}`."
        )


class UnknownQueue(NotFound):
    """There is no such queue."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(
            f"there is no queue {queue!r}: nothing was ever submitted to it. List queues: "
            f"`inturn queues list`. Make it: `inturn queues set {shlex.quote(queue)}`."
        )


class QueueInUse(InturnError):
    """A queue was to be dropped, and there are jobs in it. Nothing of them was taken away."""

    def __init__(self, queue: str, *, running: int, others: int) -> None:
        self.queue, self.running, self.others = queue, running, others
        holds = f"{running + others:,} unfinished jobs or dead letters"
        advice = "Wait until those have ended."
        if not running:
            advice = f"Drop it with all of them: `inturn queues drop {shlex.quote(queue)} --all`."
        runs = f", and {running:,} of them run" if running else ""
        super().__init__(f"queue {queue!r} holds {holds}{runs}. {advice}")


class NotHalted(InturnError):
    """The lane is not halted, so there is nothing to decide."""

    def __init__(self, queue: str, key: str) -> None:
        self.queue, self.key = queue, key
        super().__init__(
            f"lane {key!r} of queue {queue!r} is not halted: there is no job to retry, skip or "
            f"drop. Look with `inturn lanes list {shlex.quote(queue)} --key {shlex.quote(key)}`."
        )


class PayloadMismatch(InturnError):
    """A payload does not fit its handler (any more), as after a deploy that changed it."""

    def __init__(self, kind: str, said: str, *, name: str | None = None) -> None:
        self.kind = kind
        super().__init__(
            f"the payload does not fit job {name or repr(kind)}: {whole(said)} Give new parameters "
            f"a default, and keep old ones until no job needs them; then retry the dead letter."
        )


class ResultMismatch(InturnError):
    """What a handler returned is not of the type that it says it returns."""

    def __init__(self, said: str) -> None:
        super().__init__(f"the result is not what the handler's annotation says: {whole(said)}")


class WorkerSpent(InturnError):
    """A worker was to run although it had run already, or still does. It did nothing."""

    def __init__(self, worker: str) -> None:
        super().__init__(
            f"worker {worker} has been run already, and a Worker runs once. Make another with "
            f"Worker(app, …); the app, and what it has open, may be the same."
        )


class ChildDied(InturnError):
    """The process of its own that ran a job (``process=True``) ended before the job did."""

    def __init__(self, how: str) -> None:
        self.how = how
        super().__init__(f"its process {how}")


class JobFailed(InturnError):
    """The job whose result was awaited is dead. ``job``: its id; None of one without a store."""

    def __init__(self, job: UUID | None, reason: str) -> None:
        self.job, self.reason = job, reason
        look = f"Look with `inturn jobs show {str(job)[-8:]}`, then `inturn jobs retry|drop`."
        super().__init__(whole(reason) if job is None else f"a job is dead: {whole(reason)} {look}")


class ResultCancelled(InturnError):
    """The job whose result was awaited was cancelled."""

    def __init__(self, job: UUID, reason: str) -> None:
        self.job, self.reason = job, reason
        super().__init__(f"job {job} will not run: {whole(reason)}")


class ResultLost(InturnError):
    """The job is done, and what its handler returned could not be kept."""

    def __init__(self, job: UUID, reason: str) -> None:
        self.job, self.reason = job, reason
        super().__init__(
            f"job {job} is done, and what its handler returned could not be kept: {reason} Have it "
            f"return what can be, such as where to find it, or declare it with keep_result=None."
        )


class ResultTimeout(InturnError, TimeoutError):
    """The job is not done yet, and whoever awaited its result waited long enough."""

    def __init__(self, job: UUID, seconds: float, why: str) -> None:
        self.job, self.seconds = job, seconds
        super().__init__(f"job {job} has no result after {seconds:g} s: {why}")


class ExecutorClosed(InturnError):
    """The executor takes no jobs: it has not been started, or it is stopping or stopped."""


class KeyHalted(InturnError):
    """An earlier job of the key failed for good, and the executor halts such keys."""

    def __init__(self, key: str, error: str) -> None:
        self.key, self.error = key, error
        super().__init__(
            f"key {key!r} is halted: an earlier job of it failed for good with {error!r}, so what "
            f"comes behind it does not run. Mend the cause, then call resume({key!r})."
        )


class TooManyHalted(InturnError):
    """An executor remembers as many halted keys as it may, and takes no jobs."""

    def __init__(self, halted: int) -> None:
        self.halted = halted
        super().__init__(
            f"{halted:,} keys of this executor are halted, which is the bound: something fails "
            f"everywhere. Look at halted(), mend the cause, then resume them."
        )


class EarlierFailure(InturnError):
    """Jobs of the key that came before a barrier failed for good."""

    def __init__(self, key: str, failures: int, error: str) -> None:
        self.key, self.failures, self.error = key, failures, error
        jobs = "a job" if failures == 1 else f"{failures} jobs"
        super().__init__(
            f"{jobs} of key {key!r} before this barrier failed for good, the first with "
            f"{error!r}. What came behind may rest on work that was never done."
        )


class JobCancelled(InturnError):
    """The job was cancelled: it did not run, or not to its end."""

    def __init__(self, key: str, why: str) -> None:
        self.key, self.why = key, why
        super().__init__(f"a job of key {key!r} was cancelled: {whole(why)}")


class AttemptFailed(InturnError):
    """An attempt failed, and not by an error that its handler raised: its time was up, say."""

    def __init__(self, kind: str, job: UUID, attempt: int, said: str) -> None:
        self.kind, self.job, self.attempt, self.said = kind, job, attempt, said
        super().__init__(f"attempt {attempt} of job {kind!r} {job} failed: {said}")
