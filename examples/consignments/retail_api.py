"""A retail API to try things against: it refuses, is late and counts, as real ones do.

`python retail_api.py` serves it on port 8900. Ids are UUIDs, each change has a higher version, a
write is done once for each Idempotency-Key, and a window of five minutes has its number of calls.
"""

import json
import threading
import time
import uuid
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import ceil
from urllib.parse import parse_qs, urlsplit

PAGE_ITEMS_MAX = 100


class Refused(Exception):
    def __init__(self, status, said):
        self.status, self.said = status, said


class RetailAPI:
    """Consignments by their id, and every effect in the order it happened.

    ``late_every``: so many writes are done, and answered too late. ``clock_offset``: by how many
    seconds its clock is wrong.
    """

    def __init__(self, *, calls_max=50, window_seconds=300.0, late_every=0, late_seconds=1.0):
        self.calls_max, self.window_seconds = calls_max, window_seconds
        self.late_every, self.late_seconds = late_every, late_seconds
        self.clock_offset = 0.0
        self.skus = {"tea", "mug"}
        self.consignments = {}
        self.effects = []  # (what was done, reference)
        self.refused = 0  # calls, for there were too many
        self.late = 0
        self.version = 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._answers = {}  # by idempotency key: the request and what was answered
        self._calls = deque()
        self._lock = threading.Lock()

    # What it does

    def create(self, body):
        unknown = sorted(set(body["lines"]) - self.skus)
        if unknown:
            raise Refused(422, f"unknown SKU {unknown[0]}")
        one = {"id": str(uuid.uuid4()), "state": "OPEN", "deleted": False, **body}
        self.consignments[one["id"]] = one
        return self._changed(one, "created")

    def update(self, id, body):
        one = self._find(id)
        one["lines"] = body["lines"]
        return self._changed(one, "updated")

    def receive(self, id):
        one = self._find(id)
        one["state"] = "RECEIVED"
        return self._changed(one, "received")

    def delete(self, id):
        one = self._find(id)
        one["deleted"] = True
        return self._changed(one, "deleted")

    def page(self, after, page_items):
        """Return what changed after a version. Not after a time: clocks are wrong."""
        changed = [one for one in self.consignments.values() if one["version"] > after]
        found = sorted(changed, key=lambda one: one["version"])[:page_items]
        last = found[-1]["version"] if found else after
        return {"data": found, "version": last, "more": len(changed) > len(found)}

    def _find(self, id):
        if id not in self.consignments or self.consignments[id]["deleted"]:
            raise Refused(404, f"no consignment {id}")
        return self.consignments[id]

    def _changed(self, one, effect):
        self.version += 1
        updated_at = time.strftime("%FT%TZ", time.gmtime(time.time() + self.clock_offset))
        one |= {"version": self.version, "updated_at": updated_at}
        self.effects.append((effect, one["reference"]))
        return dict(one)

    # How it is called

    def call(self, method, path, key, body):
        """Return status, headers and answer, and after how many seconds it is given."""
        with self._lock:
            wait_seconds = self._wait_seconds()
            if wait_seconds:
                self.refused += 1
                return 429, {"Retry-After": str(wait_seconds)}, {"error": "too many calls"}, 0.0
            if method == "GET":
                return 200, {}, self._read(path), 0.0
            if key in self._answers:
                request, status, answer = self._answers[key]
                if request != (method, path, body):
                    return 422, {}, {"error": "this key is of another request"}, 0.0
                return status, {}, answer, 0.0
            status, answer = self._write(method, path, body)
            if status < 300:  # what was refused may be asked again
                self._answers[key] = ((method, path, body), status, answer)
            seconds = self._late_seconds() if status < 300 else 0.0
            return status, {}, answer, seconds

    def _wait_seconds(self):
        now = time.monotonic()
        while self._calls and self._calls[0] <= now - self.window_seconds:
            self._calls.popleft()
        if len(self._calls) >= self.calls_max:
            return ceil(self._calls[0] + self.window_seconds - now)
        self._calls.append(now)
        return 0

    def _late_seconds(self):
        if not self.late_every or len(self.effects) % self.late_every:
            return 0.0
        self.late += 1
        return self.late_seconds

    def _read(self, path):
        asked = parse_qs(urlsplit(path).query)
        after = int(asked.get("after", ["0"])[0])
        return self.page(after, min(int(asked.get("page_size", ["100"])[0]), PAGE_ITEMS_MAX))

    def _write(self, method, path, body):
        given = json.loads(body or "{}")
        parts = urlsplit(path).path.strip("/").split("/")
        try:
            match method, parts:
                case "POST", ["consignments"]:
                    return 201, self.create(given)
                case "PUT", ["consignments", id]:
                    return 200, self.update(id, given)
                case "POST", ["consignments", id, "receive"]:
                    return 200, self.receive(id)
                case "DELETE", ["consignments", id]:
                    return 200, self.delete(id)
        except Refused as refused:
            return refused.status, {"error": refused.said}
        return 404, {"error": f"no {path}"}


def serve(api, port=0):
    """Return a server of an API, which answers on threads."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self):
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            key = self.headers.get("idempotency-key")
            status, headers, answer, seconds = api.call(self.command, self.path, key, body)
            api.may_answer.wait()
            time.sleep(seconds)
            said = json.dumps(answer).encode()
            try:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)
            except OSError:  # nobody listens any more
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    return server


if __name__ == "__main__":
    with serve(RetailAPI(), 8900) as server:
        print("the retail API is at http://127.0.0.1:8900")
        server.serve_forever()
