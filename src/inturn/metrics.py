"""Every metric that inturn exposes to Prometheus, as a listener of events (``inturn[metrics]``)."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from inturn.model import events
from inturn.model.errors import BadInput

try:
    import prometheus_client as prometheus
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector, CollectorRegistry
except ImportError as error:  # pragma: no cover - see the test that hides it
    raise BadInput(
        "metrics need prometheus-client, which is not installed: pip install prometheus-client, or "
        "install inturn with its extra `metrics`."
    ) from error

SECONDS_BUCKETS = (
    *(0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5),
    *(1.0, 5.0, 10.0, 30.0, 60.0),
)
_COUNTED: dict[type[Any], tuple[str, str]] = {
    events.Accepted: ("submissions_total", "Jobs accepted."),
    events.Refused: ("queue_full_total", "Jobs refused because there was no room."),
    events.Failed: ("failures_total", "Jobs that failed for good."),
    events.Retried: ("retries_total", "Attempts that failed and are repeated."),
    events.Cancelled: ("cancellations_total", "Jobs cancelled before their end."),
}


class ExecutorMetrics:
    """Metrics of one executor or of several, each with the label ``shard``.

    Hand it to ``Executor(listeners=[…])``. Depth is read from the executor when it is asked for, so
    it is right also while every slot is stuck.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        namespace: str = "inturn",
        subsystem: str = "shardqueue",
    ) -> None:
        registry = prometheus.REGISTRY if registry is None else registry
        named: dict[str, Any] = {
            "labelnames": ("shard",),
            "namespace": namespace,
            "subsystem": subsystem,
            "registry": registry,
        }
        self._counters = {
            kind: prometheus.Counter(name, meaning, **named)
            for kind, (name, meaning) in _COUNTED.items()
        }
        self._run_duration = prometheus.Histogram(
            "run_duration_seconds", "How long an attempt took.", buckets=SECONDS_BUCKETS, **named
        )
        self._depths = _Depths(f"{namespace}_{subsystem}_queue_depth")
        registry.register(self._depths)

    def __call__(self, event: events.Event) -> None:
        """Count an event."""
        match event:
            case events.Ran():
                self._run_duration.labels(event.shard).observe(event.seconds)
            case events.Opened():
                self._depths.sources.append(event.depths)
                for shard in range(event.shards):  # with zeros: what is missing cannot be watched
                    for metric in (*self._counters.values(), self._run_duration):
                        metric.labels(shard)
            case events.Stopped() if event.depths in self._depths.sources:
                self._depths.sources.remove(event.depths)
            case _ if (counter := self._counters.get(type(event))) is not None:
                counter.labels(getattr(event, "shard", 0)).inc()
            case _:
                pass


class _Depths(Collector):
    """How many jobs wait in each shard, read when someone asks, over all executors that live."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.sources: list[Callable[[], Sequence[int]]] = []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read the depths."""
        family = GaugeMetricFamily(self._name, "Jobs that wait for their turn.", labels=("shard",))
        depths: Tally[int] = Tally()
        for source in list(self.sources):
            depths.update(dict(enumerate(source())))
        for shard, depth in sorted(depths.items()):
            family.add_metric((str(shard),), depth)
        yield family
