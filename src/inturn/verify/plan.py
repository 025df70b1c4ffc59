"""The plan of a run: what is submitted, what goes wrong and when, all drawn from one seed."""

from __future__ import annotations

import importlib
import os
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from random import Random
from uuid import UUID

import msgspec

from inturn.model.job import NewJob
from inturn.queue.job import Job
from inturn.verify import jobs
from inturn.verify.detour import Detour

VARIABLE = "INTURN_VERIFY_SETTINGS"

LEASE_SECONDS = 2.0
SWEEP_SECONDS = 0.5
SLOTS = 8
HAND_MAX = 40  # jobs in a worker's hand: what a kill makes suspects of
BATCH_MAX = 24
HOT_KEYS, COLD_KEYS = 3, 60
RECENT_MAX = 64
BATCHES_PER_ROUND = 12
BACKLOG_MAX = 400  # producers wait while more than this is unfinished

FIRST_TROUBLE = 8  # from this batch on each row of MISBEHAVING comes for sure, one a batch

# Handlers that make trouble, each with its share of all jobs; and the others, with their weights.
MISBEHAVING: tuple[tuple[str, float, Job[..., None]], ...] = (
    ("raises", 0.05, jobs.flaky),
    ("raises", 0.01, jobs.hopeless),
    ("exits", 0.0002, jobs.exits),
    ("blocks", 0.0015, jobs.blocks),
    ("eats-memory", 0.001, jobs.eats),
)
BEHAVING: tuple[list[Job[..., None]], list[int]] = (
    [jobs.plain, jobs.effect, jobs.threaded, jobs.isolated],
    [70, 19, 10, 1],
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a process of a run has to know."""

    run: str
    store: str
    folder: str
    seed: int
    producers: int = 2
    workers: int = 3
    lease_seconds: float = LEASE_SECONDS
    sweep_seconds: float = SWEEP_SECONDS
    handlers: tuple[str, ...] = ()  # the faults of handlers that are wanted
    detour: Detour | None = None  # to the server, if connections are to be cut
    spoil: str | None = None  # MODULE:FUNCTION to call first, which breaks the engine: for tests

    @classmethod
    def of_this_process(cls) -> Settings:
        """Return what the run said to this process: not on a command line, where others look."""
        return msgspec.json.decode(os.environ[VARIABLE], type=cls)

    def environment(self) -> dict[str, str]:
        """Return what the processes of the run are to find in their environment."""
        return {
            VARIABLE: msgspec.json.encode(self).decode(),
            jobs.FOLDER: self.folder,
            jobs.TABLE: self.table,
        }

    @property
    def queue(self) -> str:
        """The queue of most jobs."""
        return f"verify-{self.run}"

    @property
    def rounds(self) -> str:
        """The queue of jobs in rounds."""
        return f"verify-{self.run}-rounds"

    @property
    def table(self) -> str:
        """The table of effects."""
        return f"inturn_verify_{self.run}"

    def prepare_process(self) -> None:
        """Take the detour to the server, and break the engine in this process, if that is wanted.

        It is for tests: a checker must be seen to fail.
        """
        if self.detour is not None:
            self.detour.take()
        if self.spoil is not None:
            module, _, function = self.spoil.partition(":")
            getattr(importlib.import_module(module), function)()

    def history_folder(self) -> Path:
        """Where the processes write their histories."""
        return Path(self.folder)


class Batch(msgspec.Struct, frozen=True):
    """What a producer submits together, and which of it to cancel right after."""

    jobs: list[NewJob]
    cancels: list[UUID]
    again: list[NewJob]  # submitted once more, as if no answer had come


class Workload:
    """An endless stream of batches for one producer, the same for the same seed."""

    def __init__(self, settings: Settings, producer: str) -> None:
        self._settings = settings
        self._producer = producer
        self._random = Random(f"{settings.seed}/{producer}")
        self._recent: deque[UUID] = deque(maxlen=RECENT_MAX)  # jobs that will be done
        self._batches = 0

    def __iter__(self) -> Iterator[Batch]:
        while True:
            yield self._batch()

    def _batch(self) -> Batch:
        random = self._random
        self._batches += 1
        size = 1 if random.random() < 0.3 else random.randint(2, BATCH_MAX)
        made = [self._job() for _ in range(size)]
        cancels = [job.id for job in made if random.random() < 0.02]
        made += self._sure()
        again = made if random.random() < 0.05 else []
        for job in made:
            if job.id not in cancels and job.kind in ("plain", "threaded", "effect", "flaky"):
                self._recent.append(job.id)
        if random.random() < 0.1:
            made.append(self._deduped())
        return Batch(made, cancels, again)

    def _job(self) -> NewJob:
        random = self._random
        job = self._kind()
        options: dict[str, object] = {"queue": self._settings.queue}
        dice = random.random()
        if dice < 0.06:
            options["queue"] = self._settings.rounds
            options["round"] = self._batches // BATCHES_PER_ROUND + random.randint(0, 2)
        elif dice < 0.11:
            options["delay"] = random.uniform(0.1, 1.5)
        elif dice < 0.17 and self._recent:
            options["after"] = random.sample(
                list(self._recent), min(random.randint(1, 3), len(self._recent))
            )
        elif dice < 0.25:
            options["priority"] = random.randint(-2, 2)
        if random.random() < 0.55:
            options["key"] = self._key()
        return _called(job.using(**options), random)  # type: ignore[arg-type]

    def _kind(self) -> Job[..., None]:
        random = self._random
        dice = random.random()
        for handler, share, kind in MISBEHAVING:
            if handler in self._settings.handlers:
                dice -= share
                if dice < 0:
                    return kind
        return random.choices(*BEHAVING)[0]

    def _sure(self) -> list[NewJob]:
        """Return what is in this batch whatever is drawn: of a rare sort there may be none else."""
        number = self._batches - FIRST_TROUBLE
        if not 0 <= number < len(MISBEHAVING):
            return []
        handler, _, kind = MISBEHAVING[number]
        if handler not in self._settings.handlers:
            return []
        return [_called(kind.using(queue=self._settings.queue, key=self._key()), self._random)]

    def _key(self) -> str:
        random = self._random
        if random.random() < 0.3:
            return f"hot-{random.randrange(HOT_KEYS)}"
        return f"cold-{random.randrange(COLD_KEYS)}"

    def _deduped(self) -> NewJob:
        """Return a job under a dedupe key that comes again and again."""
        number = self._batches // 5
        named = jobs.plain.using(
            queue=self._settings.queue, dedupe=f"{self._producer}-{number}", dedupe_seconds=3600.0
        )
        return named.call(seconds=0.0).new


def _called(job: Job[..., None], random: Random) -> NewJob:
    """Return a job with arguments that suit its kind."""
    match job.kind:
        case "plain" | "threaded" | "isolated":
            seconds = random.choice((0.0, 0.0, 0.001, 0.002, 0.01))
            return job.call(seconds=seconds).new
        case "flaky":
            return job.call(failures=random.randint(1, 3)).new
        case "blocks":
            return job.call(seconds=random.choice((0.2, 0.5, 2.5))).new
        case _:
            return job.call().new


class PlannedFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault to come: which, after which pause, and what its details are drawn from."""

    name: str
    pause_seconds: float
    details: str

    def random(self) -> Random:
        """Return what draws its details, and nothing else: they move no other fault."""
        return Random(self.details)


def planned_faults(
    seed: int, names: Sequence[str], *, gap_seconds: float
) -> Iterator[PlannedFault]:
    """Return faults without end, the same for the same seed, whatever becomes of each.

    Each comes once, in an order that is drawn, before any comes again.
    """
    random = Random(seed)
    deck = random.sample(names, len(names))
    for number in count(1) if names else ():
        pause_seconds = gap_seconds * random.uniform(0.5, 1.5)
        name = deck.pop() if deck else random.choice(names)
        yield PlannedFault(name=name, pause_seconds=pause_seconds, details=f"{seed}/{number}")
