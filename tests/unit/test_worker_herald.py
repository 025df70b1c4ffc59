"""A herald: whoever has to act is not held up by a listener that stands still."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from inturn.model.errors import StoreUnavailable
from inturn.model.worker_events import StoppingNow, StoreBack, StoreTroubled, WorkerEvent
from inturn.worker.herald import Herald
from inturn.worker.record import Record
from inturn.worker.vitals import Vitals

SECONDS_MAX = 60.0


class Reader:
    """A listener that takes nothing in until it is let."""

    def __init__(self) -> None:
        self.said: list[WorkerEvent] = []
        self.reads = threading.Event()

    def __call__(self, event: WorkerEvent) -> None:
        self.reads.wait()
        self.said.append(event)


@pytest.fixture
def reader() -> Iterator[Reader]:
    one = Reader()
    yield one
    one.reads.set()


def event(number: int) -> StoppingNow:
    return StoppingNow(worker="w", why=str(number))


def test_what_a_listener_does_not_take_in_is_told_later_and_in_order(reader: Reader) -> None:
    herald = Herald([reader])
    for number in range(10):
        herald.tell(event(number))
    assert not herald.is_told(0.3)
    assert not reader.said
    reader.reads.set()
    assert herald.is_told(SECONDS_MAX)
    assert reader.said == [event(number) for number in range(10)]
    herald.tell(event(10))
    assert herald.is_told(SECONDS_MAX)
    assert reader.said[-1] == event(10)


def test_a_listener_that_raises_keeps_no_other_from_being_told() -> None:
    said: list[WorkerEvent] = []

    def exits(_: WorkerEvent) -> None:
        raise SystemExit

    herald = Herald([exits, said.append])
    herald.tell(event(1))
    herald.tell(event(2))
    assert herald.is_told(SECONDS_MAX)
    assert said == [event(1), event(2)]


def test_a_heartbeat_goes_on_though_nobody_reads_of_its_troubles(reader: Reader) -> None:
    record = Record("w", [reader])
    vitals = Vitals("w", record, lease_seconds=1.0)
    vitals.troubled("beating", StoreUnavailable("it is away."))
    vitals.neglected(StoreUnavailable("it is away."))
    vitals.beaten()
    assert not reader.said
    reader.reads.set()
    assert record.is_told(SECONDS_MAX)
    assert isinstance(reader.said[0], StoreTroubled)
    assert isinstance(reader.said[-1], StoreBack)
