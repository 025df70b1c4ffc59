"""graphile-worker, on Node: a row a job, claimed and completed in batches if it is asked to."""

from __future__ import annotations

from dataclasses import replace

from bench.peers.environment import NodeEnvironment
from bench.peers.peer import Configuration, Peer

BEST = Configuration(
    name="best",
    why="its page 'Performance': the preset of its own figures, with a local queue of 500, 24 jobs "
    "at once, completions batched without delay; a process for each core",
    processes=2,
    jobs=150_000,
    settings={
        "concurrentJobs": 24,
        "maxPoolSize": 25,
        "localQueue": {"size": 500},
        "completeJobBatchDelay": 0,
        "failJobBatchDelay": 0,
    },
)

PEER = Peer(
    name="graphile-worker",
    environment=NodeEnvironment("graphile_worker"),
    unfinished="select count(*) from graphile_worker._private_jobs",
    order="jobs with the same queue name run one at a time, in order",
    loss="run again after 4 hours, when its lock has run out",
    configurations=(
        Configuration(
            name="default",
            why="one process, one job at a time, nothing batched",
            jobs=4_000,
        ),
        BEST,
    ),
    keyed=replace(
        BEST,
        name="queues",
        why=BEST.why + "; pollInterval=100, as it stands still until its next poll when it finds "
        "no queue that is free, 2 seconds if nothing is said",
        jobs=40_000,
        settings={**BEST.settings, "pollInterval": 100},
    ),
)
