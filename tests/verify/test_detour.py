"""Connections are cut on the way to a server whose name matters: to a password, to a certificate.

The PostgreSQL of the tests speaks no TLS, so that one who does stands before it.
"""

from __future__ import annotations

import select
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from inturn.queue.app import App
from inturn.verify.detour import server_of
from inturn.verify.report import Report
from inturn.verify.run import Verification, Wanted
from tests.postgres_server import PostgresServer
from tests.verify.support import explained

pytestmark = pytest.mark.timeout(600)


async def cut(url: str, folder: Path) -> Report:
    """Make a small run whose connections are cut."""
    wanted = Wanted(
        store=url,
        seed=1,
        jobs=None,
        seconds=2.0,
        workers=1,
        producers=1,
        faults=("cut-connection",),
        gap_seconds=0.2,
        folder=folder,
    )
    return await Verification(wanted).run()


async def test_a_password_is_found_under_the_servers_name(
    private_postgres: Callable[..., PostgresServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = private_postgres()
    server.add_guarded_role("guarded", "a secret")
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("create database guarded owner guarded")
    url = f"postgresql://guarded@127.0.0.1:{server.port}/guarded"
    passwords = tmp_path / "passwords"
    passwords.write_text(f"127.0.0.1:{server.port}:guarded:guarded:a secret\n")
    passwords.chmod(0o600)
    with pytest.raises(psycopg.OperationalError, match="no password"):
        psycopg.connect(url)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    await App(url).migrate()
    report = await cut(url, tmp_path / "history")
    assert report.is_good, explained(report)
    assert report.faults["cut-connection"] > 0


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of localhost, by that name only; its key lies in the same file."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("openssl, which makes certificates, is not installed")
    path = tmp_path / "certificate.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(tmp_path / "key.pem"), "-out", str(path)),
        ],
        check=True,
        capture_output=True,
    )
    path.write_bytes(path.read_bytes() + (tmp_path / "key.pem").read_bytes())
    return path


async def test_a_certificate_is_held_against_the_servers_name(
    certificate: Path, tmp_path: Path, migrated_url: str
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = server_of(migrated_url)
    assert server is not None
    with enciphering(context, *server) as port:
        user, _, place = migrated_url.rpartition("@")
        url = f"{user}@localhost:{port}/{place.rpartition('/')[2]}"
        url += f"?sslmode=verify-full&sslrootcert={certificate}"
        report = await cut(url, tmp_path / "history")
    assert report.is_good, explained(report)
    assert report.faults["cut-connection"] > 0


@contextmanager
def enciphering(context: ssl.SSLContext, host: str, port: int) -> Iterator[int]:
    """Stand before a PostgreSQL as if it spoke TLS; yield the port."""

    class Front(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # as connections that are cut end
                self.request.recv(8, socket.MSG_WAITALL)  # SSLRequest
                self.request.sendall(b"S")
                with (
                    context.wrap_socket(self.request, server_side=True) as outer,
                    socket.create_connection((host, port)) as inner,
                ):
                    pass_on(outer, inner)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Front) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def pass_on(outer: ssl.SSLSocket, inner: socket.socket) -> None:
    """Give each what the other sends, until one of them ends."""
    while True:
        ready, _, _ = ([outer], 0, 0) if outer.pending() else select.select([outer, inner], [], [])
        for one in ready:
            if not (chunk := one.recv(65_536)):
                return
            (inner if one is outer else outer).sendall(chunk)


async def test_without_one_server_no_connection_is_cut_and_the_report_says_why(
    tmp_path: Path, migrated_url: str
) -> None:
    user, _, place = migrated_url.rpartition("@")
    server = place.partition("/")[0]
    report = await cut(f"{user}@{server},{place}", tmp_path)
    assert (report.violations, report.missed) == ([], "cut-connection"), explained(report)
    assert (report.faults, report.untried, report.left_out) == ({}, [], ["cut-connection"])
    assert "left out   cut-connection: it needs one host" in explained(report)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("postgresql://me@DB.example:6432/x", ("db.example", 6432)),
        ("postgresql://db.example/x", ("db.example", 5432)),
        ("postgresql://me:a@b@[::1]:6432/x", ("::1", 6432)),
        ("postgresql://me@[::1]/x", ("::1", 5432)),
        ("postgresql:///x?host=db.example", None),
        ("postgresql://me@one.example,two.example:6432/x", None),
        ("postgresql://me@%2Frun%2Fpostgresql/x", None),
        ("sqlite:///x.db", None),
    ],
)
def test_a_url_names_one_server_or_none(
    url: str, server: tuple[str, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGPORT", raising=False)
    assert server_of(url) == server


def test_a_port_that_is_not_named_is_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "6432")
    assert server_of("postgresql://db.example/x") == ("db.example", 6432)
