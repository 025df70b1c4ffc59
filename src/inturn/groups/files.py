"""Groups as files: YAML or JSON, read and written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from inturn.groups import actions
from inturn.groups.builder import GroupBuilder, attempts_of, timeout_of, undo_attempts_of
from inturn.groups.model import (
    CONCURRENCY_DEFAULT,
    CONCURRENCY_MAX,
    Action,
    Command,
    Definition,
    JobCall,
    Node,
    Request,
    Sql,
    Step,
)
from inturn.model.admissible import check_name, check_whole, shown
from inturn.model.duration import parse_duration
from inturn.model.errors import BadInput
from inturn.model.spelling import did_you_mean
from inturn.queue.app import App

FILE_BYTES_MAX = 64 * 1024 * 1024

_MEANT_AS_AFTER = ("depends_on", "depends", "needs", "requires")
_ACTIONS = ("sql", "http", "run", "job")


class GroupFile(msgspec.Struct, frozen=True):
    """What a file holds: a group, and the nodes that it declares."""

    definition: Definition
    nodes: dict[str, Node]


def read_file(path: Path, app: App | None) -> GroupFile:
    """Read a group from a file. It is YAML, of which JSON is a part."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise BadInput(f"{path} has more than {FILE_BYTES_MAX:,} bytes.")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}.") from error
    return read_text(text, app, name=str(path))


def read_text(text: str, app: App | None = None, *, name: str = "the text") -> GroupFile:
    """Read a group from YAML or JSON."""
    found = _loaded(text, name)
    if not isinstance(found, dict) or "steps" not in found:
        raise BadInput(
            f"{name} is no group: it needs `group:` with its name, and `steps:`. "
            f"`inturn groups export GROUP` writes one as an example."
        )
    _check_members(name, found, required=("group", "steps"), allowed=("nodes",))
    nodes = {str(one): _node(str(one), said) for one, said in _mapping("nodes", found).items()}
    builder = GroupBuilder(_text(f"{name}: group", found["group"]), app)
    for step, said in _mapping("steps", found).items():
        _add(builder, str(step), said, app)
    return GroupFile(builder.finished(), nodes)


def _loaded(text: str, name: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)  # far faster, where it is JSON
    except (json.JSONDecodeError, RecursionError):
        pass
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise BadInput(
            "to read YAML, install its extra: pip install '.[groups]'. JSON needs nothing."
        ) from error

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Reads what is plain, and refuses a key that stands twice."""

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        loader.flatten_mapping(node)
        pairs = [(loader.construct_object(key, deep=True), one) for key, one in node.value]
        return _once([(key, loader.construct_object(one, deep=True)) for key, one in pairs])

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        return yaml.load(text, Loader=Loader)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{name} is neither YAML nor JSON: {error}") from error


def _once(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for number, key in enumerate(keys) if key in keys[:number])
        raise BadInput(f"{shown(twice)} stands twice in one place: rename one.")
    return found


def _node(name: str, said: Any) -> Node:
    check_name("node", name, 100)
    if said is None or isinstance(said, str):
        return Node(name=name, address=said)
    where = f"node {name!r}"
    if not isinstance(said, dict):
        raise BadInput(f"{where} is an address, or address and concurrency; not {shown(said)}.")
    _check_members(where, said, allowed=("address", "concurrency", "local"))
    concurrency = said.get("concurrency", CONCURRENCY_DEFAULT)
    if concurrency is not None:
        check_whole(f"concurrency of {where}", concurrency, 1, CONCURRENCY_MAX)
    return Node(
        name=name,
        address=None if said.get("address") is None else _text(where, said["address"]),
        concurrency=concurrency,
        local=_yes(where, said, "local"),
    )


def _add(builder: GroupBuilder, name: str, said: Any, app: App | None) -> None:
    where = f"step {name!r}"
    if not isinstance(said, dict):
        raise BadInput(f"{where} needs `node:` and `do:`, not {shown(said)}.")
    optional = ("undo", "verify", "after", "irreversible", "idempotent", "attempts", "timeout")
    _check_members(where, said, required=("node", "do"), allowed=optional)
    made = {
        part: _action(f"{part} of {where}", said[part], app)
        for part in ("do", "undo", "verify")
        if said.get(part) is not None
    }
    after = said.get("after") or []
    after = [after] if isinstance(after, str) else after
    if not isinstance(after, list):
        raise BadInput(f"after of {where} is a list of names of steps, not {shown(after)}.")
    builder.step(
        name,
        node=_text(f"node of {where}", said["node"]),
        after=[str(one) for one in after],
        irreversible=_yes(where, said, "irreversible"),
        idempotent=_yes(where, said, "idempotent"),
        attempts=said.get("attempts"),
        timeout=_seconds(f"timeout of {where}", said.get("timeout")),
        **made,
    )


def _action(where: str, said: Any, app: App | None) -> Action:
    try:
        return _read_action(where, said, app)
    except BadInput as error:
        text = str(error)
        raise BadInput(text if text.startswith(where) else f"{where}: {text}") from error


def _read_action(where: str, said: Any, app: App | None) -> Action:
    if not isinstance(said, dict) or len(found := [one for one in _ACTIONS if one in said]) != 1:
        raise BadInput(f"{where} is one of sql, http, run and job; not {shown(said)}.")
    match found[0]:
        case "sql":
            _check_members(where, said, allowed=("sql",))
            return actions.sql(_text(where, said["sql"]))
        case "http":
            _check_members(where, said, allowed=("http", "json", "headers"))
            method, _, url = _text(where, said["http"]).partition(" ")
            if not url:
                raise BadInput(f"{where} is `http: METHOD URL`, as in `http: PUT /users/7`.")
            headers = {key: str(value) for key, value in _mapping("headers", said).items()}
            return actions.request(method, url.strip(), json=said.get("json"), headers=headers)
        case "run":
            _check_members(where, said, allowed=("run",))
            if not isinstance(said["run"], list):
                raise BadInput(f"{where} is `run: [program, argument, …]`: no shell reads it.")
            for one in said["run"]:
                if not isinstance(one, str) and type(one) is not int:
                    raise BadInput(f"{where}: {shown(one)} is no text; put it in quotes.")
            return actions.command(*map(str, said["run"]))
    _check_members(where, said, allowed=("job", "with"))
    kind = _text(where, said["job"])
    return actions.call_of(where, kind, _mapping("with", said), app)


# Writing


def written(definition: Definition, nodes: Iterable[Node]) -> dict[str, Any]:
    """Return a group as a file holds it."""
    return {
        "group": definition.name,
        "nodes": {node.name: _node_written(node) for node in nodes},
        "steps": {
            step.name: _without_defaults(
                node=step.node,
                do=_action_written(step.do),
                undo=None if step.undo is None else _action_written(step.undo),
                verify=None if step.verify is None else _action_written(step.verify),
                after=[definition.steps[number].name for number in step.after],
                irreversible=step.irreversible,
                idempotent=step.idempotent,
                **_limits_written(step),
            )
            for step in definition.steps
        },
    }


def as_yaml(document: Mapping[str, Any]) -> str:
    """Return a document as YAML."""
    import yaml

    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def _limits_written(step: Step) -> dict[str, Any]:
    """Return a step's attempts and timeout where they are not those of its actions."""
    attempts = (attempts_of(step.do), undo_attempts_of(step.undo))
    timeouts = (timeout_of(step.do), timeout_of(step.undo))
    return {
        "attempts": None if (step.attempts, step.undo_attempts) == attempts else step.attempts,
        "timeout": None if (step.timeout, step.undo_timeout) == timeouts else step.timeout,
    }


def _node_written(node: Node) -> Any:
    found = _without_defaults(address=node.address, local=node.local)
    is_default = node.concurrency == CONCURRENCY_DEFAULT
    return found if is_default else found | {"concurrency": node.concurrency}


def _action_written(action: Action) -> dict[str, Any]:
    match action:
        case Sql(text):
            return {"sql": text}
        case Command(arguments):
            return {"run": list(arguments)}
        case JobCall(kind=kind, payload=payload):
            arguments = msgspec.json.decode(payload)
            return {"job": kind, "with": arguments} if arguments else {"job": kind}
        case Request(method, url, body, headers):
            found = {"json": given} if (given := msgspec.json.decode(body)) is not None else {}
            return {"http": f"{method} {url}"} | found | _without_defaults(headers=headers)


def _without_defaults(**members: Any) -> dict[str, Any]:
    return {name: one for name, one in members.items() if one not in (None, False, [], {})}


# Checks


def _check_members(
    where: str, said: Mapping[str, Any], *, required: tuple[str, ...] = (), allowed: tuple[str, ...]
) -> None:
    for name in required:
        if said.get(name) is None:
            raise BadInput(f"{where} has no `{name}:`.")
    for name in said:
        if name not in (*required, *allowed):
            near = did_you_mean(str(name), (*required, *allowed))
            if "after" in allowed and name in _MEANT_AS_AFTER:
                near = " Did you mean after?"
            raise BadInput(f"{where} has {shown(name)}, which means nothing here.{near}")


def _mapping(name: str, said: Mapping[str, Any]) -> dict[str, Any]:
    found = said.get(name)
    if found is not None and not isinstance(found, dict):
        raise BadInput(f"`{name}:` holds names, each with what it is; not {shown(found)}.")
    return found or {}


def _text(where: str, said: Any) -> str:
    if not isinstance(said, str):
        raise BadInput(f"{where} must be text, not {shown(said)}.")
    return said


def _seconds(where: str, said: Any) -> Any:
    try:
        return parse_duration(said) if isinstance(said, str) else said
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error


def _yes(where: str, said: Mapping[str, Any], name: str) -> bool:
    found = said.get(name, False)
    if not isinstance(found, bool):
        raise BadInput(f"{name} of {where} is true or false, not {shown(found)}.")
    return found
