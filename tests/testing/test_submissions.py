"""What was submitted is what a test says it was, or the test says how it differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from msgspec import UNSET

from inturn.model.errors import BadInput
from inturn.model.job import NewJob
from inturn.testing import Sandbox, private
from tests.testing.conftest import START, Shop

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def sandbox(shop: Shop) -> Iterator[Sandbox]:
    with private(shop.app) as sandbox:
        yield sandbox


def test_a_submission_is_found_by_its_arguments(shop: Shop, sandbox: Sandbox) -> None:
    ticket = shop.send.submit_sync("a@b.c", at=NOON)
    for found in (
        sandbox.assert_submitted(shop.send),
        sandbox.assert_submitted(shop.send, "a@b.c"),
        sandbox.assert_submitted(shop.send, to="a@b.c", copies=1),
        sandbox.assert_submitted(shop.send, at=NOON),
    ):
        assert (found.id, found.arguments) == (ticket.id, {"to": "a@b.c", "at": NOON})
        assert (found.queue, found.at) == ("mail", START)
    sandbox.assert_not_submitted(shop.send, to="b@b.c")
    sandbox.assert_not_submitted(shop.charge)


def test_options_are_compared_where_the_test_says_them(shop: Shop, sandbox: Sandbox) -> None:
    given = shop.send.using(key="customer-7", delay=30, priority=2, dedupe="mail-42")
    given.submit_sync("a")
    sandbox.assert_submitted(shop.send, "a")
    sandbox.assert_submitted(shop.send.using(key="customer-7", delay=30), "a")
    sandbox.assert_submitted(given)
    sandbox.assert_not_submitted(shop.send.using(dedupe=True))
    sandbox.assert_not_submitted(shop.send.using(dedupe=False))
    sandbox.assert_not_submitted(shop.send.using(key="customer-8"))
    sandbox.assert_not_submitted(shop.send.using(delay=31))
    sandbox.assert_not_submitted(shop.send.using(dedupe="mail-43"))
    sandbox.assert_not_submitted(shop.send.using(queue="slow"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"key": "k"}, {"key": None}),
        ({"delay": 30}, {"delay": 0}),
        ({"priority": 2}, {"priority": 0}),
        ({"queue": "slow"}, {"queue": "mail"}),
        ({"round": 7}, {"round": 0}),
        ({"dedupe": "mail-42"}, {"dedupe": None}),
        ({"dedupe": "mail-42", "dedupe_seconds": 60.0}, {"dedupe_seconds": 61.0}),
    ],
)
def test_what_is_said_as_it_is_declared_is_compared_too(
    shop: Shop, sandbox: Sandbox, given: dict[str, Any], said: dict[str, Any]
) -> None:
    expected = shop.send.using(**said)
    shop.send.using(**given).submit_sync("a")
    sandbox.assert_submitted(shop.send.using(), "a")
    sandbox.assert_not_submitted(expected)
    with pytest.raises(AssertionError, match=f"using {next(iter(said))}\n      expected"):
        sandbox.assert_submitted(expected, "a")
    expected.submit_sync("b")
    assert sandbox.assert_submitted(expected).arguments == {"to": "b"}


def test_what_is_said_stays_said(shop: Shop, sandbox: Sandbox) -> None:
    shop.send.using(key="k", delay=30).submit_sync("a")
    sandbox.assert_submitted(shop.send.using(delay=30))
    sandbox.assert_not_submitted(shop.send.using(key=None).using(delay=30))
    sandbox.assert_submitted(shop.send.using(key=None).using(key="k"))


def test_what_using_leaves_as_it_was_is_not_said(shop: Shop, sandbox: Sandbox) -> None:
    shop.send.using(key="k", delay=30, dedupe="mail-42").submit_sync("a")
    sandbox.assert_submitted(shop.send.using(key=UNSET, delay=None, dedupe=UNSET))


def test_jobs_that_must_be_done_first_may_be_said_to_be_none(shop: Shop, sandbox: Sandbox) -> None:
    first = shop.send.submit_sync("a")
    shop.send.using(after=[first]).submit_sync("b")
    assert sandbox.assert_submitted(shop.send.using(after=[first])).arguments["to"] == "b"
    sandbox.assert_not_submitted(shop.send.using(after=[]), "b")


def test_dedupe_by_the_arguments_is_not_any_dedupe(shop: Shop, sandbox: Sandbox) -> None:
    once = shop.send.using(dedupe=True)
    once.submit_sync("a", copies=2)
    shop.send.using(dedupe="mail-42").submit_sync("b")
    shop.send.submit_sync("c")
    assert sandbox.assert_submitted(once).arguments["to"] == "a"
    sandbox.assert_submitted(once, "a")
    assert [one.arguments["to"] for one in sandbox.submitted(once)] == ["a"]
    assert [one.arguments["to"] for one in sandbox.submitted(shop.send.using(dedupe=False))] == [
        "c"
    ]
    with pytest.raises(AssertionError) as raised:
        sandbox.assert_submitted(once, "b", copies=1)
    assert str(raised.value).splitlines()[2:] == [
        "    using dedupe",
        "      expected  True",
        "      submitted 'mail-42'",
    ]


def test_order_and_number_are_in_the_list(shop: Shop, sandbox: Sandbox) -> None:
    shop.app.sync(shop.app.submit_many([shop.send.call(to) for to in "abab"]))
    shop.charge.submit_sync("ann", amount=1)
    assert [one.kind for one in sandbox.submitted()] == ["send"] * 4 + ["charge"]
    assert [one.arguments["to"] for one in sandbox.submitted(shop.send)] == list("abab")
    assert len(sandbox.submitted(shop.send, to="a")) == 2


def test_what_was_refused_was_not_submitted(shop: Shop, sandbox: Sandbox) -> None:
    once = shop.send.using(dedupe="x")
    once.submit_sync("a")
    with pytest.raises(Exception, match="already stands for"):
        once.submit_sync("b")
    sandbox.assert_not_submitted(shop.send, to="b")


def test_the_nearest_is_shown_when_nothing_fits(shop: Shop, sandbox: Sandbox) -> None:
    shop.send.using(key="customer-7").submit_sync("a@b.c", copies=2)
    shop.send.submit_sync("else@b.c", copies=9)
    shop.charge.submit_sync("ann", amount=1)
    with pytest.raises(AssertionError) as raised:
        sandbox.assert_submitted(shop.send.using(key="customer-7", delay=30), "a@b.c", copies=3)
    assert str(raised.value).splitlines() == [
        "send(to='a@b.c', copies=3) using(key='customer-7', delay=30) was not submitted.",
        "The nearest of 2 of its kind that was, send(to='a@b.c', copies=2) using(key='customer-7'),"
        " differs in:",
        "    copies",
        "      expected  3",
        "      submitted 2",
        "    using delay",
        "      expected  30",
        "      submitted 0.0",
        "Of other kinds there were 1 of 'charge'.",
    ]


def test_a_test_is_told_when_nothing_was_submitted(shop: Shop, sandbox: Sandbox) -> None:
    with pytest.raises(AssertionError, match=r"send\(\) was not submitted.\nNothing was"):
        sandbox.assert_submitted(shop.send)


def test_what_should_not_have_been_submitted_is_shown(shop: Shop, sandbox: Sandbox) -> None:
    shop.send.using(delay=5).submit_sync("a")
    shop.send.submit_sync("b")
    with pytest.raises(AssertionError) as raised:
        sandbox.assert_not_submitted(shop.send)
    assert str(raised.value).splitlines() == [
        "send() was submitted, 2 times:",
        "    send(to='a') using(delay=5)",
        "    send(to='b')",
    ]


def test_an_argument_that_the_job_does_not_have_is_no_expectation(
    shop: Shop, sandbox: Sandbox
) -> None:
    with pytest.raises(BadInput, match=r"never submitted like that.*'too'"):
        sandbox.assert_not_submitted(shop.send, too="a")


def test_a_job_that_is_not_declared_is_seen_too(shop: Shop, sandbox: Sandbox) -> None:
    new = NewJob(kind="stranger", payload="[1]")
    shop.app.sync(shop.app.run(lambda store: store.enqueue([new])))
    [found] = sandbox.submitted()
    assert (found.kind, found.arguments) == ("stranger", {"payload": [1]})


@dataclass
class Line:
    """What is equal whatever its note is."""

    price: Decimal
    tags: set[str]
    note: str = field(default="", compare=False)


@pytest.mark.parametrize(
    ("hint", "given", "equal", "other"),
    [
        (set[int], {8, 0}, {0, 8}, {0, 9}),
        (Any, {8, 0}, {0, 8}, {0, 9}),
        (list[int], {8, 0}, {0, 8}, {0}),
        (Decimal, Decimal("1.0"), Decimal("1.00"), Decimal("1.01")),
        (list[Decimal], [Decimal("1.0")], [Decimal("1.00")], [Decimal("1.0"), Decimal("1.0")]),
        (datetime, NOON, NOON.astimezone(timezone(timedelta(hours=2))), NOON.replace(minute=1)),
        (timedelta, timedelta(hours=1), "PT1H", timedelta(hours=2)),
        (
            Line,
            Line(Decimal("1.0"), {"a", "b", "c"}, "as given"),
            {"price": "1.00", "tags": ["c", "b", "a"]},
            Line(Decimal(1), {"a", "b"}),
        ),
    ],
)
def test_equal_arguments_are_found_however_they_are_written(
    sandbox: Sandbox, hint: Any, given: Any, equal: Any, other: Any
) -> None:
    def note(value: Any) -> None: ...

    note.__annotations__["value"] = hint
    job = sandbox.app.job(note)
    job.submit_sync(given)
    sandbox.assert_submitted(job, given)
    sandbox.assert_submitted(job, equal)
    with pytest.raises(AssertionError, match="was submitted, once"):
        sandbox.assert_not_submitted(job, value=equal)
    sandbox.assert_not_submitted(job, other)


def test_a_list_is_not_another_in_another_order(sandbox: Sandbox) -> None:
    @sandbox.app.job
    def note(values: Any) -> None: ...

    note.submit_sync([8, 0])
    sandbox.assert_submitted(note, [8, 0])
    with pytest.raises(AssertionError) as raised:
        sandbox.assert_submitted(note, [0, 8])
    assert str(raised.value).splitlines()[2:] == [
        "    values",
        "      expected  [0, 8]",
        "      submitted [8, 0]",
    ]


def test_what_was_left_out_is_equal_to_what_the_handler_has_instead(sandbox: Sandbox) -> None:
    @sandbox.app.job
    def note(price: Decimal = Decimal("1.0"), *, by: Any = UNSET) -> None: ...

    note.submit_sync()
    sandbox.assert_submitted(note, Decimal("1.00"))
    sandbox.assert_not_submitted(note, Decimal("1.01"))
    sandbox.assert_not_submitted(note, by="ann")


def test_arguments_are_compared_also_if_the_test_has_replaced_the_function(
    shop: Shop, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop.charge, "function", lambda *_, **__: None)
    shop.charge.submit_sync("ann", amount=1)
    sandbox.assert_submitted(shop.charge, "ann")
    sandbox.assert_not_submitted(shop.charge, amount=2)


@dataclass
class Fussy:
    """What cannot be made of every name."""

    name: str

    def __post_init__(self) -> None:
        raise KeyError(self.name)


@pytest.mark.parametrize(
    ("payload", "arguments"),
    [
        ('{"old": 1}', {"old": 1}),
        ('{"n": "one"}', {"n": "one"}),
        (' {"n": 1, "fussy": {"name": "ann"}}', {"n": 1, "fussy": {"name": "ann"}}),
        ("[1]", {"payload": [1]}),
        ("null", {"payload": None}),
    ],
)
def test_a_payload_that_does_not_fit_is_seen_as_it_is_and_becomes_a_dead_letter(
    sandbox: Sandbox, payload: str, arguments: dict[str, Any]
) -> None:
    @sandbox.app.job(attempts=1)
    def note(n: int | None, fussy: Fussy | None = None) -> None: ...

    new = NewJob(kind="note", payload=payload, attempts_max=1)
    sandbox.app.sync(sandbox.app.run(lambda store: store.enqueue([new])))
    assert sandbox.assert_submitted(note).arguments == arguments
    sandbox.assert_not_submitted(note, None)
    sandbox.assert_not_submitted(note, n=2)
    assert [one.id for one in sandbox.drain_sync(raising=False).dead] == [new.id]


def test_what_a_payload_does_not_have_is_said_to_be_missing(sandbox: Sandbox) -> None:
    @sandbox.app.job
    def note(n: int | None) -> None: ...

    new = NewJob(kind="note", payload='{"old": 1}')
    sandbox.app.sync(sandbox.app.run(lambda store: store.enqueue([new])))
    with pytest.raises(AssertionError) as raised:
        sandbox.assert_submitted(note, None)
    assert str(raised.value).splitlines()[1:] == [
        "The one of its kind that was, note(old=1), differs in:",
        "    n",
        "      expected  None",
        "      submitted nothing",
    ]


def test_what_is_no_job_is_refused_with_a_sentence(shop: Shop, sandbox: Sandbox) -> None:
    shop.send.submit_sync("a")
    for wrong in ("send", shop.send.function, shop.send.call("a"), 5):
        not_a_job: Any = wrong
        for asked in (
            sandbox.submitted,
            sandbox.assert_submitted,
            sandbox.assert_not_submitted,
            sandbox.run_sync,
            sandbox.context,
        ):
            with pytest.raises(BadInput, match=r"is no job\. Give what @app\.job made"):
                asked(not_a_job)
