"""One run of the simulation: steps by chance, then everything drained and looked at."""

from __future__ import annotations

from random import Random

from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Done
from inturn.store.store import Store
from tests.simulation import actors, history
from tests.simulation.world import Wish, Worker, World

STEPS = 150
WORKERS = 4
DRAIN_TURNS_MAX = 250


async def run(store: Store, clock: ManualClock, seed: int, steps: int = STEPS) -> World:
    """Run one seed on an open, empty store. Raises ``Violation`` if a promise is broken."""
    world = make_world(store, clock, seed)
    await play(world, steps)
    return world


def make_world(store: Store, clock: ManualClock, seed: int) -> World:
    workers = [Worker(f"w{number}") for number in range(1, WORKERS + 1)]
    return World(store=store, clock=clock, random=Random(seed), workers=workers)


async def play(world: World, steps: int) -> None:
    await actors.begin(world)
    choices, weights = list(actors.ACTORS), list(actors.ACTORS.values())
    for _ in range(steps):
        [step] = world.random.choices(choices, weights)
        await step(world)
    await drain(world)
    await world.audit()
    await world.check_tables()
    await forget_all(world)


async def drain(world: World) -> None:
    """Let everything go on until every job has ended."""
    await actors.look(world)
    for place in sorted(world.ledger.paused, key=str):
        await world.resume(*place)
    for worker in world.workers:
        world.crash(worker)
    for turn in range(DRAIN_TURNS_MAX):
        if not any(world.ledger.live()):
            break
        await let_go_on(world)
        claimed = [await finish(world, queue) for queue in actors.QUEUES]
        if not any(claimed):
            world.clock.advance(61.0 if turn % 2 else 5.0)
    world.record(history.Drained(at=world.clock.now()))


async def let_go_on(world: World) -> None:
    """Do what operators and other workers do when work stands still."""
    await world.reclaim()
    await world.open_gate(actors.GATED, 3)
    await world.advance_gate(actors.ROUNDS)
    if any(account.waits for account in world.ledger.live() if account.job.queue == actors.ROUNDS):
        # A job that comes after one of a later round holds its own round open: a person's mistake.
        await world.open_gate(actors.ROUNDS, world.ledger.gates[actors.ROUNDS] + 1)
    for queue, key in list(world.ledger.halted):
        await world.decide_lane(queue, key, world.random.choice(("skip", "drop")))
    waited_for = {job for account in world.ledger.live() for job in account.waits}
    dead = [job for job in waited_for if world.ledger.accounts[job].end is JobState.DEAD]
    if dead:
        await world.dead_drop(sorted(dead))


async def finish(world: World, queue: str) -> bool:
    """Claim what there is and finish it, or die of it; say whether there was anything."""
    worker = world.workers[0]
    claims = await world.claim(worker, Wish(queue=queue, jobs_max=50, suspects_max=5))
    settlements = []
    for claim in claims:
        if any(job.payload == actors.POISON for job in claim.jobs):
            world.crash(worker)
            world.clock.advance(31.0)
            return True
        settlements.append(Settlement(claim.lease, [Outcome(job, Done()) for job in claim.jobs]))
    if settlements:
        await world.settle(worker, settlements)
    return bool(claims)


async def forget_all(world: World) -> None:
    """Prune until only dead letters are left; the tables must hold together all the way."""
    for seconds in (0.0, 90_000.0):
        world.clock.advance(seconds)
        await world.prune()
        await world.prune()
        await world.audit()
        await world.check_tables()
