"""Who is measured: each peer in each of its configurations, and ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.compare import Bench
from bench.peers import (
    celery,
    dbos,
    dramatiq,
    graphile_worker,
    huey,
    pg_boss,
    pgqueuer,
    procrastinate,
    rq,
    saq,
)
from bench.peers.ours import ON_SQLITE, OURS
from bench.peers.peer import CannotInstall, Configuration, Peer
from bench.redis_server import redis_program

PEERS = (
    OURS,
    pgqueuer.PEER,
    procrastinate.PEER,
    dbos.PEER,
    graphile_worker.PEER,
    pg_boss.PEER,
    ON_SQLITE,
    huey.ON_SQLITE,
    huey.ON_REDIS,
    celery.PEER,
    dramatiq.PEER,
    rq.PEER,
    saq.PEER,
)


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """A queue in one of its configurations."""

    peer: Peer
    configuration: Configuration

    @property
    def name(self) -> str:
        """What it is called in the result."""
        return f"{self.peer.name}-{self.configuration.name}"

    def jobs(self, bench: Bench) -> int:
        """Return how many jobs it gets."""
        return max(self.configuration.jobs // bench.sizes.worker_part, 1)


def installed(
    wanted: Sequence[Peer], say: Callable[[str], None]
) -> tuple[list[Peer], dict[str, str]]:
    """Install peers; return those that are here, and why each of the others is not."""
    here: list[Peer] = []
    absent: dict[str, str] = {}
    for peer in wanted:
        say(f"installing {peer.name}")
        try:
            peer.environment.install()
            if peer.broker == "redis":
                redis_program()
            here.append(peer)
        except CannotInstall as error:
            absent[peer.name] = str(error)
    return here, absent


def best(peer: Peer) -> Contender:
    """Return a peer in its best durable configuration, or its only one."""
    named = {one.name: one for one in peer.configurations}
    return Contender(peer, named.get("best", peer.configurations[0]))
