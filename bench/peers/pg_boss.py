"""pg-boss, on Node: a row a job, fetched and completed in batches if it is asked to."""

from __future__ import annotations

from dataclasses import replace

from bench.peers.environment import NodeEnvironment
from bench.peers.peer import Configuration, Peer

BEST = Configuration(
    name="best",
    why="its page 'Workers': batches, burstWhenBatchFull so that a full batch is followed by the "
    "next at once, two workers a process, and LISTEN/NOTIFY on the queue; a process for each core",
    processes=2,
    jobs=100_000,
    settings={
        "notify": True,
        "work": {"batchSize": 1_000, "burstWhenBatchFull": True, "localConcurrency": 2},
    },
)

PEER = Peer(
    name="pg-boss",
    environment=NodeEnvironment("pg_boss"),
    unfinished="select count(*) from pgboss.job where state < 'completed' and name = 'deliver'",
    order="with the queue policy key_strict_fifo, jobs of the same singleton key run in order; not "
    "among those inserted in one call, which ran in any order",
    loss="run again when its time to expire has passed, 15 minutes if nothing else is said",
    configurations=(
        Configuration(
            name="default",
            why="one process, one job every two seconds, which is what work() does by itself",
            jobs=3,
            keeps_up=False,
        ),
        BEST,
    ),
    # Of several workers one takes a job of every key. If two share them, neither batch is full, and
    # both wait for a new job or their next poll, half a minute.
    keyed=replace(
        BEST,
        name="key_strict_fifo",
        why="as best, but one worker in one process: several that share the keys have no full "
        "batch, and then wait",
        processes=1,
        jobs=40_000,
        settings={"notify": True, "work": {"batchSize": 1_000, "burstWhenBatchFull": True}},
    ),
)
