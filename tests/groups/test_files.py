"""Groups as files: read, refused, and written so that they read back as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inturn import App, BadInput
from inturn.groups.files import as_yaml, read_text, written
from inturn.groups.model import Command, JobCall, Request, Sql
from tests.groups.test_actions import ODD

app = App("sqlite:///:memory:")


@app.job(attempts=2)
async def create(shard: str, rows: int = 0) -> None:
    """Nothing."""


FILE = """
group: move-users
nodes:
  east: {address: "postgresql://${PG_USER}@east/db", concurrency: 2}
  west: postgresql://west/db
  south: {concurrency: null}
  web: https://api.example
steps:
  table:
    node: east
    do: {sql: "create table users (id int)"}
    undo: {sql: "drop table if exists users"}
    verify: {sql: "select count(*) = 1 from pg_tables where tablename = 'users'"}
  fill:
    node: east
    do: {job: create, with: {shard: s3, rows: 7}}
    undo: {job: create, with: {shard: x}}
    after: [table]
    idempotent: true
    attempts: 3
    timeout: 90s
  tell:
    node: web
    do: {http: PUT /users/7, json: {a: [1]}, headers: {X-A: b}}
    after: fill
    irreversible: true
  clean: {node: west, do: {run: [rm, -f, "a b"]}, irreversible: true, after: [tell]}
"""


def test_a_file_is_a_group() -> None:
    found = read_text(FILE, app)
    assert found.definition.name == "move-users"
    assert [found.nodes[n].concurrency for n in ("east", "west", "south")] == [2, 10, None]
    assert found.nodes["east"].address == "postgresql://${PG_USER}@east/db"
    table, fill, tell, clean = found.definition.steps
    assert table.do == Sql("create table users (id int)")
    assert fill.do == JobCall("create", '{"shard":"s3","rows":7}', 2, None)
    assert (fill.after, fill.attempts, fill.timeout, fill.idempotent) == ((0,), 3, 90.0, True)
    assert isinstance(tell.do, Request)
    assert (tell.do.method, tell.do.url, bytes(tell.do.json)) == ("PUT", "/users/7", b'{"a":[1]}')
    assert clean.do == Command(("rm", "-f", "a b"))


def test_what_is_written_reads_back_as_it_was() -> None:
    found = read_text(FILE, app)
    text = as_yaml(written(found.definition, found.nodes.values()))
    assert read_text(text, app) == found


@pytest.mark.parametrize("body", [{}, [], 0, False, "", None])
def test_the_body_of_a_request_is_written_whatever_it_is(body: Any) -> None:
    step: Any = {"node": "n", "do": {"http": "POST /x", "json": body}, "irreversible": True}
    document = {"group": "g", "nodes": {"n": "http://n"}, "steps": {"a": step}}
    found = read_text(as_yaml(document))
    assert read_text(as_yaml(written(found.definition, found.nodes.values()))) == found
    [read] = found.definition.steps
    assert isinstance(read.do, Request)
    assert json.loads(bytes(read.do.json)) == body


def test_odd_text_comes_back_from_a_file() -> None:
    """Quotes, backslashes and unicode (000-28)."""
    step: Any = {"node": "n", "do": {"sql": ODD}, "undo": {"run": ["x", ODD]}}
    document = {"group": "odd", "nodes": {"n": "sqlite:///n.db"}, "steps": {"a": step}}
    [read] = read_text(as_yaml(document)).definition.steps
    assert read.do == Sql(ODD)
    assert read.undo == Command(("x", ODD))


STEP = "{node: n, do: {sql: x}, irreversible: true}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("just words", "is no group: it needs `group:`"),
        ("[1, 2]", "is no group"),
        ("{unclosed", "neither YAML nor JSON"),
        ("group: g\nsteps: {}", "has no steps"),
        ("steps: {}", "has no `group:`"),
        (f"group: g\nstepz: 1\nsteps: {{a: {STEP}}}", "'stepz', which means nothing here. Did"),
        ("group: g\nsteps: {a: {do: {sql: x}}}", "step 'a' has no `node:`"),
        ("group: g\nsteps: {a: {node: n}}", "step 'a' has no `do:`"),
        ("group: g\nsteps: {a: {node: n, do: {sql: x}}}", "step 'a' has no undo"),
        ("group: g\nsteps: {a: {node: n, do: {sqll: x}}}", "do of step 'a' is one of sql, http"),
        ("group: g\nsteps: {a: {node: n, do: {sql: x, run: [y]}}}", "is one of sql, http, run"),
        ("group: g\nsteps: {a: {node: n, do: {run: rm -rf}}}", "no shell reads it"),
        ("group: g\nsteps: {a: {node: n, do: {http: /users}}}", "`http: METHOD URL`"),
        ("group: g\nsteps: {a: {node: n, do: {http: PUT x}}}", "do of step 'a': a request has a"),
        ("group: g\nsteps: {a: {node: n, do: {run: []}}}", "do of step 'a': a command needs"),
        ("group: g\nsteps: {a: {node: n, do: {run: [x, [y]]}}}", "do of step 'a': ['y'] is no"),
        (f"group: g\nsteps: {{a: {STEP[:-1]}, timeout: soon}}}}", "timeout of step 'a': 'soon'"),
        ("group: g\nsteps: {a: {node: n, do: {job: creat}}}", "no such job. Did you mean create?"),
        ("group: g\nsteps: {a: {node: n, do: {job: create, with: {x: 1}}}}", "do of step 'a': job"),
        (f"group: g\nsteps:\n  a: {STEP}\n  a: {STEP}", "'a' stands twice"),
        (f"group: g\nsteps: [{STEP}]", "`steps:` holds names, each with what it is"),
        (f"group: g\nsteps: {{a: {STEP[:-1]}, depends_on: [b]}}}}", "Did you mean after?"),
        (f"group: g\nnodes: {{n: {{concurrency: 0}}}}\nsteps: {{a: {STEP}}}", "concurrency of"),
        (f"group: g\nnodes: [n]\nsteps: {{a: {STEP}}}", "`nodes:` holds names"),
        (f"group: g\nnodes: {{n: {{adress: x}}}}\nsteps: {{a: {STEP}}}", "'adress', which means"),
        ("group: g\nsteps: {a: {node: n, do: {sql: x}, irreversible: maybe}}", "true or false"),
        ("group: 7\nsteps: {}", "must be text, not 7"),
    ],
)  # fmt: skip
def test_a_file_that_is_none_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_text(text, app)
    assert said in str(caught.value)
