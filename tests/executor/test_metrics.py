"""Metrics: the names and labels that dashboards rely on, and a depth that is never stale."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from inturn.metrics import ExecutorMetrics
from inturn.model.errors import QueueFull
from tests.executor.support import (
    SECONDS_MAX,
    Failing,
    Running,
    keys_of_one_shard,
    waiting_thread_job,
)

PREFIX = "inturn_shardqueue_"


async def fine() -> None: ...


async def test_depth_is_right_while_every_slot_is_stuck() -> None:
    """(004-19)"""
    registry = CollectorRegistry()
    gate = threading.Event()
    async with Running(shards=2, slots=1, listeners=[ExecutorMetrics(registry)]) as executor:
        keys = [keys_of_one_shard(executor, 2, shard) for shard in (0, 1)]

        def depths() -> list[float | None]:
            return [
                registry.get_sample_value(PREFIX + "queue_depth", {"shard": shard})
                for shard in ("0", "1")
            ]

        assert depths() == [0.0, 0.0]
        stuck = await executor.submit(keys[0][0], waiting_thread_job(gate))
        for count in range(1, 4):
            await executor.submit(keys[0][1], fine)
            waiting = await executor.submit(keys[1][0], fine)
            assert depths() == [count, count] == executor.depths()
        waiting.cancel()
        assert depths() == [3.0, 2.0]
        gate.set()
        await stuck.result(SECONDS_MAX)
        await executor.barrier(keys[0][1])
        await executor.barrier(keys[1][0])
        assert depths() == [0.0, 0.0]


async def test_a_job_that_waits_to_retry_counts_as_waiting() -> None:
    """(004-19)"""
    async with Running(shards=1, base_backoff=60, max_interval=60, jitter=0) as executor:
        ticket = await executor.submit("one", Failing(1))
        async with asyncio.timeout(SECONDS_MAX):
            while executor.depths() != [1]:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert ticket.attempts == 1
        ticket.cancel()
        assert executor.depths() == [0]


@pytest.mark.parametrize("namespace", ["inturn", "mycelian"])
async def test_metrics_have_their_names_and_the_label_shard(namespace: str) -> None:
    """(004-21)"""
    registry, prefix = CollectorRegistry(), f"{namespace}_shardqueue_"
    metrics = ExecutorMetrics(registry, namespace=namespace)
    gate = asyncio.Event()
    async with Running(
        shards=2,
        slots=1,
        queue_size=1,
        max_attempts=2,
        base_backoff=0,
        enqueue_timeout=0,
        listeners=[metrics],
    ) as executor:
        [zero], [one] = (keys_of_one_shard(executor, 1, shard) for shard in (0, 1))
        failing = await executor.submit(one, Failing(9))
        with pytest.raises(ValueError, match="no"):
            await failing.result(SECONDS_MAX)
        await executor.submit(zero, gate.wait)
        await executor.submit(zero, fine)
        with pytest.raises(QueueFull):
            await executor.submit(zero, fine)
        text = generate_latest(registry).decode()
        gate.set()
    for line in (
        'submissions_total{shard="0"} 2.0',
        'submissions_total{shard="1"} 1.0',
        'queue_full_total{shard="0"} 1.0',
        'queue_full_total{shard="1"} 0.0',
        'queue_depth{shard="0"} 1.0',
        'queue_depth{shard="1"} 0.0',
        'run_duration_seconds_count{shard="1"} 2.0',
        'failures_total{shard="1"} 1.0',
        'retries_total{shard="1"} 1.0',
    ):
        assert prefix + line in text.splitlines(), text
    assert f"# TYPE {prefix}run_duration_seconds histogram" in text
    assert f"# TYPE {prefix}queue_depth gauge" in text


def test_an_executor_needs_no_metrics_and_importing_inturn_imports_nothing_large() -> None:
    program = """
import sys
sys.modules["prometheus_client"] = None
import inturn
assert "asyncio" not in sys.modules, "importing inturn alone must stay cheap"
inturn.Executor()
loaded = {"prometheus_client.core", "inturn.metrics", "inturn.store", "asyncpg", "sqlite3"}
assert not loaded & set(sys.modules), loaded & set(sys.modules)
try:
    import inturn.metrics
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install prometheus-client, or" in done.stdout, done.stderr
