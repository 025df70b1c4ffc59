"""Every sentence that inturn writes to the log, as a listener of events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from uuid import UUID

from inturn.model import events, worker_events
from inturn.model.spelling import whole
from inturn.policy.explain import worker_option
from inturn.policy.raised import describe

EXECUTOR = "inturn.executor"
WORKER = "inturn.worker"

LINE_CHARS_MAX = 300  # of an error in the log


def log_event(event: events.Event) -> None:
    """Write what a person who reads the log should know about an event, if anything."""
    log = logging.getLogger(EXECUTOR)
    match event:
        case events.Failed(handled=False):
            log.error(
                "a job of key %r failed for good at attempt %d",
                event.key,
                event.attempts,
                exc_info=event.error,
            )
        case events.Failed():
            log.debug("a job of key %r failed for good; the handler was told", event.key)
        case events.Cancelled():
            level = logging.DEBUG if event.handled else logging.INFO
            log.log(level, "%s", event.error)
        case events.Retried():
            log.debug(
                "attempt %d of a job of key %r failed with %r; it runs again in %.3f s",
                event.attempt,
                event.key,
                type(event.error).__name__,
                event.delay_seconds,
            )
        case events.Halted():
            log.error(
                "key %r is halted on a job that failed for good (%s); %d jobs behind it do not run",
                event.key,
                event.error,
                event.left,
            )
        case events.HandlerFailed():
            log.error(
                "the error handler failed on a job of key %r", event.key, exc_info=event.error
            )
        case events.Stopping():
            log.info("stopping: %d jobs of %d keys are left", event.waiting, event.keys)
        case events.Aborted():
            cancelled = [f"{event.cancelled} jobs were cancelled"] if event.cancelled else []
            asked = [f"{event.asked} that run were asked to end"] if event.asked else []
            log.warning("%s: %s", ", ".join(cancelled + asked), event.why)
        case events.Stopped():
            log.info("stopped: everything accepted has ended")
        case _:
            pass


def log_listener_failure(listener: object, error: BaseException) -> None:
    """Say that a listener failed, which harms nothing else."""
    log = logging.getLogger(EXECUTOR)
    log.error("a listener failed: %r", listener, exc_info=error)


def guarded(say: Callable[..., None], *about: object) -> None:
    """Write to the log. Users' filters may raise there, and no job depends on what is written."""
    with suppress(Exception):
        say(*about)


def log_unknown_variable(name: str, meant: str) -> None:
    """Say that a variable of the environment is none of an executor's settings."""
    logging.getLogger(EXECUTOR).warning("the variable %s does nothing.%s", name, meant)


def log_executor_ended(error: BaseException) -> None:
    """Say that the worker of an executor with a store has ended, and not because it was stopped."""
    logging.getLogger(EXECUTOR).error(
        "the executor's worker has ended, and nothing more runs here: %s What was accepted is in "
        "the store, and runs after the next start.",
        whole(_clause(describe(error))),
        exc_info=error,
    )


def log_worker_event(event: worker_events.WorkerEvent, where: str = "-A MODULE:APP") -> None:
    """Write what a person should know; ``where`` is how a command that it names finds the store."""
    log = logging.getLogger(WORKER)
    match event:
        case worker_events.AttemptFailed():
            _say(
                log,
                logging.WARNING,
                event.traceback,
                "worker %s: job %s (%s) failed: %s; attempt %d of %d, again in %.1f s",
                event.worker,
                event.job,
                event.kind,
                _clause(event.error),
                event.attempt,
                event.attempts_max,
                event.delay_seconds,
            )
        case worker_events.JobDone():
            said = "worker %s: job %s (%s) done in %.3f s"
            log.info(said, event.worker, event.job, event.kind, event.seconds)
        case worker_events.Died():
            _say(
                log,
                logging.ERROR,
                event.traceback,
                "worker %s: job %s (%s) is dead: %s. Details: %s",
                event.worker,
                event.job,
                event.kind,
                _clause(event.reason),
                f"`inturn jobs show {event.job.hex[-8:]} {where}`",
            )
        case worker_events.BuriedDeadly():
            log.error(
                "worker %s: %s now dead: each killed every worker that ran it alone; look with %s",
                event.worker,
                _jobs(event.jobs),
                f"`inturn dead list {where}`",
            )
        case worker_events.LeasesLost():
            log.warning(
                "worker %s: the lease of %s ran out, so others run them%s; what came of them here "
                "does not count",
                event.worker,
                _jobs(event.jobs),
                _of_those(event),
            )
        case worker_events.StoreTroubled():
            log.warning("worker %s: %s Trying again.", event.worker, event.error)
        case worker_events.PruneFailed():
            log.warning("worker %s: old history stays for now: %s", event.worker, event.error)
        case worker_events.StoreBack():
            log.info("worker %s: the store answers again after %.1f s", event.worker, event.seconds)
        case worker_events.Stopping(running=0):
            log.info("worker %s: %s: stopping", event.worker, event.why)
        case worker_events.Stopping():
            log.info(
                "worker %s: %s: finishing %s%s",
                event.worker,
                event.why,
                _jobs(event.running),
                _hurried(event),
            )
        case worker_events.StoppingNow():
            log.warning(
                "worker %s: %s: stopping at once; what runs is given back", event.worker, event.why
            )
        case worker_events.MemberDied():
            log.error("worker %s: its process %s", event.worker, _ending_of(event))
        case worker_events.LeftBehind():
            log.warning(
                "worker %s: ended although handlers had left %s, which had not ended",
                event.worker,
                ", ".join(event.names),
            )
        case _:
            pass


def _ending_of(event: worker_events.MemberDied) -> str:
    how = f"{event.pid} {event.how}" if event.pid else event.how
    if event.restart_seconds is None:
        return how
    return f"{how}; another takes its place in {event.restart_seconds:.1f} s"


def log_serves_nothing(worker: str, queues_local: Sequence[str]) -> None:
    """Say that a worker runs nothing, for its jobs are left to workers that name their queues."""
    one = len(queues_local) == 1
    logging.getLogger(WORKER).warning(
        "worker %s: serves no queue: %s local. Start it with %s.",
        worker,
        f"{', '.join(map(repr, queues_local))} {'is' if one else 'are'}",
        " ".join(map(worker_option, queues_local)),
    )


def log_queues_unknown(worker: str, queues: Sequence[str]) -> None:
    """Say that a worker waits at queues that nobody may ever send a job to."""
    one = len(queues) == 1
    logging.getLogger(WORKER).warning(
        "worker %s: no job of its app goes to the %s %s, and the store has none of that name yet. "
        "Look whether %s is mistyped; jobs that others send there are run.",
        worker,
        "queue" if one else "queues",
        ", ".join(map(repr, queues)),
        " or ".join(map(worker_option, queues)),
    )


def log_later(worker: str, kind: str, job: UUID, reason: str, seconds: float) -> None:
    """Say that a job asked to come later, and that this is no failure."""
    said = "worker %s: job %s (%s) comes again in %.1f s: %s"
    logging.getLogger(WORKER).debug(said, worker, job, kind, seconds, reason)


def log_node_kept(node: str, group: str, state: str) -> None:
    """Say that the steps of a node run elsewhere than where the app declares it."""
    logging.getLogger(WORKER).warning(
        "node %r keeps the address it has in the store, for group %r uses it and is %s; the app "
        "declares another. It is taken when a worker starts after that group has ended, or while "
        "it is paused or stuck.",
        node,
        group,
        state,
    )


def log_counts(worker: str, done: int, failed: int, seconds: float) -> None:
    """Say how much a worker has done lately."""
    more = f", {failed:,} failed" if failed else ""
    logging.getLogger(WORKER).info(
        "worker %s: %s done in the last %.0f s%s", worker, _jobs(done), seconds, more
    )


def log_store_left(app: str, store: str, left: str, named_by: str) -> None:
    """Say that an app is not run on the store that it names itself."""
    logging.getLogger(WORKER).warning(
        "%s names the store %s, but %s names %s, which this worker uses. Programs that submit "
        "through the app still use the other one. To use one store, write App() and set "
        "INTURN_STORE everywhere.",
        app,
        left,
        named_by,
        store,
    )


def log_loop_blocked(seconds: float, where: str) -> None:
    """Say where the event loop is that does not turn."""
    logging.getLogger(WORKER).warning(
        "the event loop has not turned for %.1f s now; it is at %s. No other async job runs "
        "meanwhile. Await instead of waiting, and make what computes a def, which runs on a "
        "thread, or process=True.",
        seconds,
        where,
    )


def log_waits_for_suspect(queue: str, seconds: float) -> None:
    """Say why a worker takes nothing although it has slots to spare."""
    logging.getLogger(WORKER).warning(
        "queue %r has a job that was in hand when its worker died, and is to run with nothing "
        "beside it: until what runs here has ended, this worker takes nothing new for up to %g s",
        queue,
        seconds,
    )


def log_raised_on_loop(error: BaseException) -> None:
    """Say that something which handlers started wanted the whole process to end."""
    logging.getLogger(WORKER).error(
        "a task or a callback that a handler started raised %s. It has ended with that, and the "
        "worker goes on. To fail the attempt, await what was started; to stop the worker, send it "
        "SIGTERM.",
        describe(error),
        exc_info=error,
    )


def log_not_ended(kind: str, seconds: float, *, on_thread: bool) -> None:
    """Say which handler goes on although its time is up."""
    why = (
        "it sits in a call that Python cannot interrupt, or caught the exception that was raised "
        "in it. Use process=True, which can be killed"
        if on_thread
        else "it caught its CancelledError. Let that through"
    )
    logging.getLogger(WORKER).warning(
        "job %r was to end after %g s and has not: %s. It keeps its slot and its lease until it "
        "ends.",
        kind,
        seconds,
        why,
    )


def log_after_done(kind: str, job: UUID, verdict: object) -> None:
    """Say that a handler failed after the transaction that settled its job."""
    why = _clause(getattr(verdict, "error", "it was cancelled"))
    _say(
        logging.getLogger(WORKER),
        logging.ERROR,
        getattr(verdict, "traceback", None),
        "job %s (%s) failed after its transaction had committed: %s. What that said of the job "
        "stands, and what comes after it is lost.",
        job,
        kind,
        why,
    )


def log_duty_failed(name: str, error: BaseException) -> None:
    """Say that a background duty failed; it is called again."""
    log = logging.getLogger(WORKER)
    log.error("duty %r failed, and is called again", name, exc_info=error)


def log_result_lost(kind: str, job: UUID, why: str) -> None:
    """Say that a job is done and what it returned cannot be kept."""
    logging.getLogger(WORKER).warning(
        "job %s (%s) is done, and its result is not kept: %s", job, kind, why
    )


def _of_those(event: worker_events.LeasesLost) -> str:
    """Say what became of those jobs that ran when their lease was lost."""
    said = [f"{event.cancelled} cancelled here"] if event.cancelled else []
    if event.going_on:
        said.append(f"{event.going_on} going on here, for a def on a thread cannot be cancelled")
    return f" ({', '.join(said)})" if said else ""


def _hurried(event: worker_events.Stopping) -> str:
    """Say what ends a worker that finishes what runs, if someone or something can."""
    if event.seconds_max is not None:
        return f"; what still runs after {event.seconds_max:g} s is given back"
    return "" if event.is_member else "; once more to stop at once"


def _say(
    log: logging.Logger, level: int, traceback: str | None, sentence: str, *arguments: object
) -> None:
    """Write a sentence, and a traceback where logging puts those of exceptions."""
    if log.isEnabledFor(level):
        record = log.makeRecord(log.name, level, __file__, 0, sentence, arguments, None)
        record.exc_text = traceback
        log.handle(record)


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number:,} jobs"


def _clause(text: str) -> str:
    """Return the first line of an error, which the store keeps whole, for a sentence to go on."""
    first, *more = text.strip().splitlines() or [""]
    if more or len(first) > LINE_CHARS_MAX:
        return f"{first[:LINE_CHARS_MAX]}…"
    return first.removesuffix(".")
