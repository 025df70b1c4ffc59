"""Submitting a job: every option reaches the store, and a bad payload is refused clearly."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from inturn.cli.submit import read_payload
from inturn.model.errors import InvalidPayload
from inturn.model.job import Job, JobState, JobView
from inturn.model.lane import QueueSettings
from tests.cli.support import Cli


def view(cli: Cli, id: str) -> JobView:
    return cli.store(lambda store: store.job(UUID(id)))


def test_a_job_is_submitted_with_every_option(cli: Cli) -> None:
    arguments = ("--queue", "q", "--payload", '{"a": 1}', "--key", "c-7", "--priority", "5")
    more = ("--attempts", "2", "--timeout", "9.5", "--round", "3")
    ran = cli("submit", "mail", *arguments, *more)
    assert (ran.code, ran.err) == (0, "")
    found = view(cli, ran.out.strip())
    assert found.state is JobState.WAITING
    fields = msgspec.structs.asdict(found.job)
    del fields["id"], fields["enqueued_at"]
    assert fields == {
        "queue": "q",
        "key": "c-7",
        "kind": "mail",
        "payload": '{"a": 1}',
        "priority": 5,
        "round": 3,
        "attempts_max": 2,
        "timeout_seconds": 9.5,
    }


def test_a_plain_job_has_the_defaults(sqlite_cli: Cli) -> None:
    document = sqlite_cli.json("submit", "mail")
    assert (document["position"], document["duplicate"]) == (1, False)
    job: Job = view(sqlite_cli, document["id"]).job
    assert (job.queue, job.payload, job.attempts_max) == ("default", "null", 5)


def test_a_delayed_and_a_dependent_job_wait(cli: Cli) -> None:
    later = cli.json("submit", "mail", "--delay", "600")
    assert later["position"] is None
    assert view(cli, later["id"]).state is JobState.SCHEDULED
    first, second = (cli.json("submit", "mail")["id"] for _ in range(2))
    after = cli.json("submit", "mail", "--after", first, "--after", second)["id"]
    assert view(cli, after).waits_for == (UUID(first), UUID(second))


def test_times_are_seconds_or_have_a_unit(sqlite_cli: Cli) -> None:
    for given, seconds in (("90", 90.0), ("1m30s", 90.0), ("1.5", 1.5), ("500ms", 0.5)):
        id = sqlite_cli.json("submit", "mail", "--timeout", given)["id"]
        assert view(sqlite_cli, id).job.timeout_seconds == seconds
    later = view(sqlite_cli, sqlite_cli.json("submit", "mail", "--delay", "2h")["id"])
    assert later.run_at is not None
    assert later.run_at - later.job.enqueued_at == timedelta(hours=2)
    assert sqlite_cli("submit", "mail", "--dedupe", "d", "--dedupe-seconds", "1h").code == 0


def test_a_dedupe_key_is_one_job_and_the_output_is_still_its_id(cli: Cli) -> None:
    first = cli("submit", "mail", "--dedupe", "d").out
    again = cli("submit", "mail", "--dedupe", "d")
    assert (again.code, again.out) == (0, first)
    assert again.err == "A job with this dedupe key exists: that is its id.\n"
    assert cli.json("submit", "mail", "--dedupe", "d")["duplicate"] is True
    other = cli("submit", "mail", "--dedupe", "d", "--payload", "1")
    assert (other.code, other.out) == (1, "")
    assert "already stands for job" in other.err


def test_a_full_queue_says_to_come_back_and_how_to_raise_the_bound(cli: Cli) -> None:
    cli.store(lambda store: store.configure("q", QueueSettings(depth_max=1, lane_depth_max=None)))
    assert cli("submit", "mail", "--queue", "q").code == 0
    full = cli("submit", "mail", "--queue", "q")
    assert (full.code, full.out) == (4, "")
    assert full.err.startswith("inturn: queue 'q' holds 1 jobs and may hold 1;")
    assert "Come back in about 30 s" in full.err
    assert full.err.endswith("or raise its bound: `inturn queues set q --depth-max N`.\n")
    cli.store(lambda store: store.configure("r", QueueSettings(lane_depth_max=1)))
    assert cli("submit", "mail", "--queue", "r", "--key", "c-7").code == 0
    full = cli("submit", "mail", "--queue", "r", "--key", "c-7")
    assert full.code == 4
    assert full.err.endswith("or raise its bound: `inturn queues set r --lane-depth-max N`.\n")


@pytest.mark.parametrize("content", [b'{"a": 1}\n', b'\xef\xbb\xbf{"a": 1}', b' {"a": 1} '])
def test_a_payload_is_read_from_a_file_or_stdin(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.json").write_bytes(content)
    assert read_payload("@p.json") == '{"a": 1}'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert read_payload("-") == '{"a": 1}'


@pytest.mark.parametrize("name", ["gone.json", "folder", "binary"])
def test_a_payload_that_cannot_be_read_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    with pytest.raises(InvalidPayload, match=name):
        read_payload(f"@{name}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("k", "--payload", "{a"), "the payload is not JSON"),
        (("k", "--payload", "@gone"), "cannot read the payload"),
        (("",), "the kind is empty"),
        (("k", "--priority", "101"), "priority is 101; it may be -100 to 100"),
        (("k", "--delay", "-1"), "'--delay': -1 is too short; the least is 0s."),
        (("k", "--delay", "soon"), "'soon' is no length of time; write for example 100ms"),
        (("k", "--attempts", "0"), "'--attempts'"),
        (("k", "--round", "1", "--delay", "1"), "both a delay and a round"),
        (("k", "--after", "abc"), "'abc' is not a job's id"),
        (("k", "--after", "01900000-0000-7000-8000-000000000000"), "is not in this store"),
        ((), "Missing argument"),
    ],
)
def test_what_cannot_be_submitted_is_refused_and_nothing_is_stored(
    sqlite_cli: Cli, arguments: tuple[str, ...], said: str
) -> None:
    ran = sqlite_cli("submit", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert sqlite_cli.json("jobs", "list", "--all")["jobs"] == []


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ('{"customer": "ann"}', "job 'charge': cents is missing."),
        ('{"customer": 7, "cents": 1}', "job 'charge': customer must be str, got int."),
        ('{"customer": "ann", "cents": 1, "to": 2}', "job 'charge': it has no parameter to."),
        (
            "[7]",
            "job 'charge': its arguments must be a JSON object, such as {\"n\": 1}, not array.",
        ),
        ("{a", "the payload is not JSON"),
    ],
)
def test_with_an_app_the_arguments_are_checked_against_the_job(
    sqlite_cli: Cli, tmp_path: Path, payload: str, said: str
) -> None:
    (tmp_path / "till.py").write_text(
        "import inturn\n"
        "app = inturn.App()\n"
        "@app.job\n"
        "async def charge(customer: str, cents: int) -> None: ...\n"
    )
    ran = sqlite_cli("submit", "charge", "-A", "till:app", "--payload", payload)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert sqlite_cli.json("jobs", "list", "--all")["jobs"] == []
