"""The client for handlers, against a real server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import inturn
from inturn.http import CallFailed, Client, retry_after
from inturn.model.clock import SystemClock
from inturn.model.ids import new_id
from inturn.model.job import LeasedJob
from inturn.queue.context import Context


class Api:
    """Answers with what it is told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.status, self.body = 200, "{}"
        self.headers: dict[str, str] = {}
        self.seconds = 0.0  # before an answer
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                api.requests.append((self.command, self.path, headers, body))
                time.sleep(api.seconds)
                if api.status == 0:
                    self.connection.close()
                    return
                said = api.body.encode()
                self.send_response(api.status)
                for name, value in api.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def headers_sent(self, name: str) -> list[str | None]:
        return [headers.get(name) for _, _, headers, _ in self.requests]


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def attempt(number: int = 1, job: LeasedJob | None = None) -> Context:
    """Return the context of an attempt at a job."""
    job = job or LeasedJob(
        id=new_id(), queue="default", key=None, kind="push", payload="null", priority=0, round=0,
        attempts_max=5, timeout_seconds=None, enqueued_at=SystemClock().now(), position=1,
        attempt=number,
    )  # fmt: skip
    return Context(job, 1, None, None)  # type: ignore[arg-type]


async def test_an_operation_has_one_key_in_every_attempt_and_each_job_has_its_own(api: Api) -> None:
    """(001-15)"""
    first, other = attempt(1), attempt(1)
    again = attempt(2, first.job)
    async with Client(api.url) as client:
        await client.post(first, "/consignments", json={"name": "a", "count": 2})
        await client.post(again, "/consignments", json={"count": 2, "name": "a"})
        await client.post(other, "/consignments", json={"name": "a", "count": 2})
        await client.post(first, "/consignments", json={"name": "b", "count": 2})
    one, same, of_other, of_second = api.headers_sent("idempotency-key")
    assert one == same
    assert len({one, of_other, of_second}) == 3
    assert api.headers_sent("x-correlation-id")[0] == str(first.id)


async def test_a_named_operation_keeps_its_key_whatever_its_body(api: Api) -> None:
    ctx = attempt()
    async with Client(api.url) as client:
        await client.post(ctx, "/a", json={"at": 1}, operation="create")
        await client.post(ctx, "/a", json={"at": 2}, operation="create")
        await client.post(ctx, "/a", files={"f": b"x"}, operation="upload")
        with pytest.raises(inturn.BadInput, match="operation="):
            await client.post(ctx, "/a", files={"f": b"x"})
    first, second, upload = api.headers_sent("idempotency-key")
    assert first == second != upload


async def test_reads_carry_no_key(api: Api) -> None:
    async with Client(api.url) as client:
        response = await client.get(attempt(), "/consignments", params={"after": "7"})
        api.status = 304
        assert (await client.get(attempt(), "/consignments")).status_code == 304
    assert response.json() == {}
    assert api.requests[0][1] == "/consignments?after=7"
    assert api.headers_sent("idempotency-key") == [None, None]


@pytest.mark.parametrize("status", [400, 404, 409, 410, 422, 301])
async def test_what_will_not_get_better_is_rejected(api: Api, status: int) -> None:
    api.status, api.body = status, '{"error": "unknown SKU"}'
    async with Client(api.url) as client:
        with pytest.raises(inturn.Reject, match=rf"GET .*/a: HTTP {status} .*unknown SKU"):
            await client.get(attempt(), "/a")


@pytest.mark.parametrize("status", [401, 403, 408, 409, 425, 500, 503])
async def test_what_may_get_better_is_tried_again(api: Api, status: int) -> None:
    api.status = status
    async with Client(api.url) as client:
        with pytest.raises(CallFailed, match=f"HTTP {status}"):
            await client.post(attempt(), "/a", json={})


async def test_a_lost_connection_and_a_timeout_are_tried_again(api: Api) -> None:
    api.status = 0
    async with Client(api.url) as client:
        with pytest.raises(CallFailed, match="RemoteProtocolError"):
            await client.post(attempt(), "/a", json={})

    api.status, api.seconds = 200, 0.5
    async with Client(api.url, timeout=0.05) as client:
        with pytest.raises(CallFailed, match="ReadTimeout: no answer in time"):
            await client.post(attempt(), "/a", json={})


async def test_retry_after_is_obeyed_and_a_429_uses_no_attempt(api: Api) -> None:
    """(001-13)"""
    async with Client(api.url) as client:
        api.status, api.headers = 429, {"Retry-After": "300"}
        with pytest.raises(inturn.RetryLater) as refused:
            await client.get(attempt(), "/a")
        assert (refused.value.after, refused.value.counted) == (300.0, False)
        for said, after in [({}, 60.0), ({"Retry-After": "0"}, 1.0)]:
            api.headers = said
            with pytest.raises(inturn.RetryLater) as refused:
                await client.get(attempt(), "/a")
            assert (refused.value.after, refused.value.counted) == (after, False)
        api.status, api.headers = 503, {"Retry-After": "7"}
        with pytest.raises(inturn.RetryLater) as away:
            await client.get(attempt(), "/a")
        assert (away.value.after, away.value.counted) == (7.0, True)


def test_retry_after_is_read_as_seconds_or_as_a_date_by_the_servers_clock() -> None:
    """(001-20)"""
    assert retry_after("120") == 120.0
    date = "Wed, 21 Oct 2026 07:33:00 GMT"
    assert retry_after("Wed, 21 Oct 2026 07:38:00 GMT", date) == 300.0
    assert retry_after("Wed, 21 Oct 2026 07:28:00 GMT", date) == 0.0
    assert [retry_after(None), retry_after("soon"), retry_after("nan")] == [None, None, 0.0]


async def test_secrets_stand_in_no_error(api: Api) -> None:
    api.status = 400
    said = ["hunter2 for key-9", "Authorization: Bearer s3cret", "pw swordfish", "t1ny"]
    api.body = json.dumps({"access_token": 't0"p', "said": said})
    url = api.url.replace("//", "//ann:swordfish@")
    async with Client(url, headers={"X-Api-Key": "hunter2"}, secrets=["key-9"]) as client:
        params = {"api_key": "abc", "page": "2"}
        with pytest.raises(inturn.Reject) as refused:
            await client.get(attempt(), "/a", params=params, headers={"X-Token": "t1ny"})
    shown = str(refused.value)
    secrets = ("hunter2", "t0", "key-9", "abc", "s3cret", "swordfish", "t1ny")
    assert not [one for one in secrets if one in shown]
    assert "page=2" in shown


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('{"echo": "k+/=x"}', '{"echo": "***"}'),
        (r'{"echo": "k+\/\u003dx"}', '{"echo": "***"}'),
        ("sig: k%2b%2F%3dx.", "sig: ***."),
    ],
)
async def test_a_secret_stands_in_no_error_however_it_is_written(
    api: Api, said: str, shown: str
) -> None:
    api.status, api.body = 500, said
    url = api.url.replace("//", "//ann:p%40ss%2Fword@")
    async with Client(url, secrets=["k+/=x"]) as client:
        with pytest.raises(CallFailed) as failed:
            await client.get(attempt(), "/a", params={"sig": "k+/=x"})
    assert str(failed.value).endswith(f": {shown}")
    assert "?sig=***: " in str(failed.value)
    assert "p%40ss" not in str(failed.value)


async def test_a_token_that_is_longer_than_what_is_kept_stands_in_no_error(api: Api) -> None:
    api.status, api.body = 500, json.dumps({"id_token": "J" * 3_000, "then": "kept"})
    async with Client(api.url) as client:
        with pytest.raises(CallFailed, match='"id_token": \\*\\*\\*, "then": "kept"') as failed:
            await client.get(attempt(), "/a")
    assert "JJJ" not in str(failed.value)


async def test_a_streamed_error_is_read_and_ends_as_any_other(api: Api) -> None:
    async with Client(api.url) as client:
        response = await client.get(attempt(), "/a", stream=True)
        assert [part async for part in response.aiter_text()] == ["{}"]
        api.status, api.body = 404, "no such consignment"
        with pytest.raises(inturn.Reject, match=r"HTTP 404 .*no such consignment"):
            await client.get(attempt(), "/a", stream=True)
        api.status, api.headers = 429, {"Retry-After": "300"}
        with pytest.raises(inturn.RetryLater) as limited:
            await client.get(attempt(), "/a", stream=True)
        assert limited.value.after == 300.0


async def test_an_error_keeps_the_beginning_of_a_long_response(api: Api) -> None:
    api.status, api.body = 500, "x" * 100_000
    async with Client(api.url) as client:
        with pytest.raises(CallFailed) as failed:
            await client.get(attempt(), "/a")
    assert len(str(failed.value)) == 1_200
