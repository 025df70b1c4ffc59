"""The actors: small steps, each chosen by chance, that do to a store what its users do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

from inturn.model.job import JobState, LeasedJob, NewJob
from inturn.model.lane import OnDead, QueueSettings
from inturn.model.lease import Claim
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Release, Retry, Verdict
from tests.simulation.world import Wish, Worker, World

Step = Callable[[World], Awaitable[None]]

SKIPS, HALTS, ROUNDS, GATED = "skips", "halts", "rounds", "gated"
QUEUES = {
    SKIPS: QueueSettings(aging_seconds=20.0),
    HALTS: QueueSettings(on_dead=OnDead.HALT, keep_done_seconds=60.0, depth_max=60),
    ROUNDS: QueueSettings(keep_done_seconds=0.0),  # its gate is only ever advanced
    GATED: QueueSettings(on_dead=OnDead.HALT, lane_depth_max=8),
}
KEYS = ("a", "b", "c")
KINDS = ("k", "l")
POISON = '"poison"'  # the payload of a job that kills the worker that runs it


async def begin(world: World) -> None:
    for queue, settings in QUEUES.items():
        await world.configure(queue, settings)


# Producers


def new_job(world: World, queue: str | None = None) -> NewJob:
    random = world.random
    queue = queue or random.choice(list(QUEUES))
    round = random.randrange(4) if queue in (ROUNDS, GATED) and random.random() < 0.7 else 0
    delay = random.choice((0.5, 5.0, 45.0)) if not round and random.random() < 0.15 else 0.0
    after: frozenset[UUID] = frozenset()
    if not delay and random.random() < 0.2 and world.ledger.accounts:
        recent = list(world.ledger.accounts)[-20:]
        after = frozenset(random.sample(recent, min(len(recent), random.randint(1, 3))))
    id = world.new_id()
    is_reaction = id.int % 5 < 2
    deduped = random.random() < 0.1
    return NewJob(
        id=id,
        kind=random.choice(KINDS),
        payload=POISON if random.random() < 0.04 else str(random.randrange(2)),
        queue=queue,
        key=random.choice(KEYS) if random.random() < 0.6 else None,
        priority=random.choice((-1, 0, 0, 0, 2)),
        round=round,
        delay_seconds=delay,
        attempts_max=random.randint(1, 4),
        after=frozenset() if is_reaction else after,
        after_failed=after if is_reaction else frozenset(),
        dedupe=f"d{random.randrange(3)}" if deduped else None,
        dedupe_seconds=random.choice((10.0, 120.0)),
    )


def new_jobs(world: World) -> list[NewJob]:
    """Return a batch: of one queue or many, some of its jobs after others of it."""
    random = world.random
    queue = random.choice(list(QUEUES)) if random.random() < 0.5 else None
    jobs: list[NewJob] = []
    for _ in range(random.choice((1, 1, 2, 3, 5))):
        job = new_job(world, queue)
        if jobs and not job.delay_seconds and random.random() < 0.15:
            is_reaction = job.after_failed or (not job.after and job.id.int % 3 == 0)
            others = job.waits_for() | {random.choice(jobs).id}
            job = changed(job, **{"after_failed" if is_reaction else "after": others})
        jobs.append(job)
    return jobs


def changed(job: NewJob, **options: object) -> NewJob:
    fields = {name: getattr(job, name) for name in job.__struct_fields__}
    return NewJob(**(fields | options))


async def produce(world: World) -> None:
    await world.enqueue(new_jobs(world))


async def produce_what_must_fail(world: World) -> None:
    """Send a batch with one job that cannot be accepted, somewhere among good ones."""
    random = world.random
    jobs = [*new_jobs(world), *new_jobs(world)]
    spoilt = random.randrange(len(jobs))
    wrongs: tuple[dict[str, object], ...] = (
        {"payload": "NaN"},
        {"priority": 1_000},
        {"kind": ""},
        {"after": frozenset({world.new_id()}), "delay_seconds": 0.0},
    )
    jobs[spoilt] = changed(jobs[spoilt], **random.choice(wrongs))
    await world.enqueue(jobs)


async def send_again(world: World) -> None:
    """Send a job once more, as after a cut connection: it is not stored twice."""
    live = [
        one.job for one in world.ledger.live() if one.job.dedupe is None and not one.job.waits_for()
    ]
    if live:
        await world.enqueue([world.random.choice(live)])


# Workers


async def claim(world: World) -> None:
    await world.claim(world.random.choice(world.workers), new_wish(world))


def new_wish(world: World) -> Wish:
    random = world.random
    return Wish(
        queue=random.choice(list(QUEUES)),
        jobs_max=random.choice((1, 2, 3, 5, 20)),
        suspects_max=random.choice((0, 1, 1, 3)),
        kinds=(random.choice(KINDS),) if random.random() < 0.15 else None,
        lease_seconds=random.choice((5.0, 30.0, 60.0)),
    )


async def work(world: World) -> None:
    """Let a worker run handlers of what it holds, and settle some of it, often in a turn."""
    worker = busy_worker(world)
    if worker is None:
        return
    settlements = run_handlers(world, worker)
    if settlements is None:
        return world.crash(worker)
    settlements = [one for one in settlements if one.outcomes]
    if not settlements:
        return
    chance = world.random.random()
    if chance < 0.15:
        rolls_back = world.random.random() < 0.3
        await world.settle_and_enqueue(
            worker,
            settlements,
            [new_job(world)],
            is_change=chance < 0.08,
            rolls_back=rolls_back,
        )
    elif chance < 0.5:
        await world.turn(worker, settlements, new_wish(world))
    else:
        await world.settle(worker, settlements)


def run_handlers(world: World, worker: Worker) -> list[Settlement] | None:
    """Return what became of some of a worker's jobs, or None if one of them killed it."""
    random = world.random
    some = random.sample(worker.held, random.randint(1, len(worker.held)))
    settlements = []
    for claim in some:
        outcomes: list[Outcome] = []
        for leased in chosen(world, claim):
            if leased.payload == POISON:
                return None
            said = verdict(world)
            outcomes.append(Outcome(leased, said, seconds=random.random()))
            if claim.lease.key is not None and not isinstance(said, Done):
                break
        settlements.append(Settlement(claim.lease, outcomes))
    return settlements


def chosen(world: World, claim: Claim) -> list[LeasedJob]:
    """Return the jobs of a claim that are run now: the first few of a lane, or any without key."""
    count = world.random.randint(1, len(claim.jobs))
    if claim.lease.key is not None:
        return list(claim.jobs[:count])
    return sorted(world.random.sample(list(claim.jobs), count), key=lambda job: job.position)


def verdict(world: World) -> Verdict:
    random = world.random
    chance = random.random()
    if chance < 0.6:
        return Done(result="1" if random.random() < 0.2 else None)
    if chance < 0.8:
        delay = random.choice((0.0, 0.5, 3.0, 40.0))
        return Retry(delay, "boom", counted=random.random() < 0.8)
    if chance < 0.9:
        return Bury("hopeless")
    return Release()


def busy_worker(world: World) -> Worker | None:
    busy = [worker for worker in world.workers if worker.held]
    return world.random.choice(busy) if busy else None


async def settle_again(world: World) -> None:
    """Settle the same once more, as after a lost answer: it must be refused."""
    worker = world.random.choice(world.workers)
    if worker.sent:
        sent, worker.sent = worker.sent, []
        await settle_somehow(world, worker, sent)


async def settle_somehow(world: World, worker: Worker, settlements: list[Settlement]) -> None:
    """Settle by itself, or in a turn."""
    if world.random.random() < 0.5:
        await world.settle(worker, settlements)
    else:
        await world.turn(worker, settlements, new_wish(world))


async def extend(world: World) -> None:
    worker = busy_worker(world)
    if worker is not None:
        await world.extend(worker, world.random.choice((5.0, 30.0)))


async def crash(world: World) -> None:
    worker = busy_worker(world)
    if worker is not None:
        world.crash(worker)


async def stall(world: World) -> None:
    """Let all leases run out and their jobs be given on, while a worker still believes in its own.

    It must not get through with what it says then.
    """
    worker = busy_worker(world)
    world.clock.advance(61.0)
    await world.reclaim()
    if worker is None:
        return
    other = world.random.choice([one for one in world.workers if one is not worker])
    claim = world.random.choice(worker.held)
    await world.claim(other, Wish(queue=claim.lease.queue, jobs_max=5, suspects_max=5))
    await settle_somehow(world, worker, [Settlement.done(claim)])


async def reclaim(world: World) -> None:
    await world.reclaim(leases_max=world.random.choice((1, 100)))


async def step_clock(world: World) -> None:
    world.clock.advance(world.random.choice((0.001, 0.3, 1.0, 4.0, 20.0)))


# Operators


async def cancel(world: World) -> None:
    live = [one.job.id for one in world.ledger.accounts.values()]
    if live:
        await world.cancel(world.random.choice(live))


async def retry_dead(world: World) -> None:
    if letters := dead(world):
        await world.dead_retry(letters)
        if world.random.random() < 0.3:
            await world.dead_retry(letters)


async def drop_dead(world: World) -> None:
    if letters := dead(world):
        await world.dead_drop(letters)


def dead(world: World) -> list[UUID]:
    random = world.random
    letters = [one.job.id for one in world.ledger.accounts.values() if one.end is JobState.DEAD]
    return random.sample(letters, min(len(letters), random.choice((1, 1, 2))))


async def decide_lane(world: World) -> None:
    random = world.random
    if random.random() < 0.1:
        queue, key = random.choice((SKIPS, HALTS)), random.choice(KEYS)
    elif world.ledger.halted:
        queue, key = random.choice(list(world.ledger.halted))
    else:
        return
    await world.decide_lane(queue, key, random.choice(("retry", "skip", "drop")))


async def pause_or_resume(world: World) -> None:
    random = world.random
    if world.ledger.paused and random.random() < 0.7:
        places = sorted(world.ledger.paused, key=str)
        await world.resume(*random.choice(places))
    else:
        key = random.choice(KEYS) if random.random() < 0.7 else None
        await world.pause(random.choice(list(QUEUES)), key)


async def move_gate(world: World) -> None:
    if world.random.random() < 0.6:
        await world.advance_gate(world.random.choice((ROUNDS, GATED)))
    else:
        await world.open_gate(GATED, world.random.randrange(4))


async def prune(world: World) -> None:
    await world.prune()


async def look(world: World) -> None:
    await world.audit()
    await world.check_tables()


ACTORS: dict[Step, int] = {
    produce: 22,
    produce_what_must_fail: 3,
    send_again: 1,
    claim: 22,
    work: 26,
    settle_again: 3,
    extend: 5,
    crash: 2,
    stall: 2,
    reclaim: 6,
    step_clock: 10,
    cancel: 4,
    retry_dead: 2,
    drop_dead: 2,
    decide_lane: 4,
    pause_or_resume: 3,
    move_gate: 5,
    prune: 2,
    look: 3,
}
