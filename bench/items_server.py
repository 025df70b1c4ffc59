"""An outside system over HTTP, for benchmarks: items with a rising version, in pages.

``python -m bench.items_server ITEMS PAGE_ITEMS`` prints its port. ``GET /items?after=VERSION`` is a
page, ``GET /requests`` how many pages were asked for.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).parent.parent


def main(items: int, page_items: int) -> None:
    pages = dict(_pages(items, page_items))
    asked = 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            nonlocal asked
            parts = urlsplit(self.path)
            body = str(asked).encode()
            if parts.path == "/items":
                asked += 1
                body = pages[int(parse_qs(parts.query)["after"][0])]
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


def _pages(items: int, page_items: int) -> Iterator[tuple[int, bytes]]:
    for after in range(0, items + 1, page_items):
        numbers = range(after + 1, min(after + page_items, items) + 1)
        found = [
            {
                "id": str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))),
                "version": number,
                "name": f"Transfer {number} to outlet {number % 30}",
                "status": "SENT",
                "outlet": number % 30,
                "lines": [{"sku": f"sku-{number % 977}", "count": number % 12}],
            }
            for number in numbers
        ]
        last = after + len(found)
        page = {"items": found, "version": last, "more": last < items}
        yield after, json.dumps(page).encode()


@contextlib.contextmanager
def items_server(items: int, page_items: int) -> Iterator[str]:
    """Start it as a process; yield its address."""
    command = [sys.executable, "-m", "bench.items_server", str(items), str(page_items)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
