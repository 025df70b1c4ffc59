"""A group while it is being built: its steps, and the checks that it passes before it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from inturn.groups.actions import action_of
from inturn.groups.model import (
    EDGES_MAX,
    NAME_CHARS_MAX,
    STEPS_MAX,
    TIMEOUT_SECONDS_DEFAULT,
    UNDO_ATTEMPTS_DEFAULT,
    Action,
    Definition,
    JobCall,
    Node,
    Request,
    Sql,
    Step,
)
from inturn.groups.plan import check_cycle
from inturn.model import bounds
from inturn.model.admissible import check_name, check_number, check_whole, listed, shown
from inturn.model.errors import BadInput, OutOfBounds
from inturn.model.spelling import did_you_mean
from inturn.queue.app import App


class StepName(msgspec.Struct, frozen=True):
    """A step of a group that is being built, to be named in another's ``after``."""

    name: str


class GroupBuilder:
    """The steps of a group, added one by one; ``finished`` checks them as a whole."""

    _id: str | None = None  # once it is submitted

    def __init__(self, name: str, app: App | None = None) -> None:
        check_name("group", name, NAME_CHARS_MAX)
        self.name, self._app = name, app
        self._steps: list[Step] = []
        self._after: list[list[str]] = []
        self._numbers: dict[str, int] = {}

    def step(
        self,
        name: str,
        *,
        node: str,
        do: Any,
        undo: Any = None,
        verify: Any = None,
        after: Iterable[StepName | str] = (),
        irreversible: bool = False,
        idempotent: bool = False,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> StepName:
        """Add a step; return what other steps name in their ``after``.

        - ``do``, ``undo``, ``verify``: a job's call (``create.call("s3")``), or ``inturn.sql(…)``,
          ``inturn.request(…)``, ``inturn.command(…)``;
        - ``irreversible``: it has no undo: once it has begun the group only goes forward;
        - ``verify``: finds out what became of the step when that is not known: an error, a timeout,
          a dead worker;
        - ``idempotent``: it may run again although it may have been applied;
        - ``attempts``, ``timeout``: of the step and of its undo: as the job is declared, unless
          said here. The undo of a built-in action is tried for some hours, unless said here.
        """
        if self._id is not None:
            raise BadInput(f"group {self.name!r} is submitted: it can have no more steps.")
        check_name("step", name, NAME_CHARS_MAX)
        where = f"step {name!r}"
        if name in self._numbers:
            raise BadInput(f"there are two steps {name!r} in group {self.name!r}: rename one.")
        if len(self._steps) >= STEPS_MAX:
            raise OutOfBounds(
                f"group {self.name!r} has more than {STEPS_MAX:,} steps, the most that a group may "
                f"have. Make several groups of it."
            )
        check_name(f"node of {where}", node, bounds.QUEUE_CHARS_MAX - len("node:"))
        if undo is None and not irreversible:
            raise BadInput(
                f"{where} has no undo. Give it one, or say irreversible=True: then the group only "
                f"goes forward once it has begun."
            )
        if undo is not None and irreversible:
            raise BadInput(f"{where} has an undo and is irreversible: leave one of them out.")
        if attempts is not None:
            check_whole(f"attempts of {where}", attempts, 1, bounds.ATTEMPTS_MAX)
        if timeout is not None:
            check_number(f"timeout of {where}", timeout, 0.001, bounds.TIMEOUT_SECONDS_MAX)
        made = action_of(f"do of {where}", do, self._app)
        back = None if undo is None else action_of(f"undo of {where}", undo, self._app)
        step = Step(
            name=name,
            node=node,
            do=made,
            undo=back,
            verify=None if verify is None else action_of(f"verify of {where}", verify, self._app),
            irreversible=bool(irreversible),
            idempotent=bool(idempotent),
            attempts=attempts or attempts_of(made),
            undo_attempts=attempts or undo_attempts_of(back),
            timeout=timeout if timeout is not None else timeout_of(made),
            undo_timeout=timeout_of(back) if isinstance(back, JobCall) or not timeout else timeout,
        )
        self._numbers[name] = len(self._steps)
        self._steps.append(step)
        self._after.append([_name_of(where, one) for one in _listed(where, after)])
        return StepName(name)

    def finished(self) -> Definition:
        """Return the group, checked as a whole."""
        if not self._steps:
            raise BadInput(f"group {self.name!r} has no steps.")
        if sum(map(len, self._after)) > EDGES_MAX:
            raise OutOfBounds(
                f"the steps of group {self.name!r} come after one another in more than "
                f"{EDGES_MAX:,} pairs. Put a step between the many and the many."
            )
        after = [
            tuple(dict.fromkeys(self._number(number, name) for name in names))
            for number, names in enumerate(self._after)
        ]
        check_cycle(after, lambda number: self._steps[number].name)
        return Definition(
            name=self.name,
            steps=tuple(
                msgspec.structs.replace(step, after=one)
                for step, one in zip(self._steps, after, strict=True)
            ),
        )

    def _number(self, number: int, name: str) -> int:
        found = self._numbers.get(name)
        if found is None:
            raise BadInput(
                f"step {self._steps[number].name!r} comes after {name!r}, which is no step of "
                f"group {self.name!r}.{did_you_mean(name, self._numbers)}"
            )
        return found


def check_nodes(definition: Definition, nodes: Mapping[str, Node]) -> None:
    """Refuse steps on nodes that nobody declared, or that cannot run them."""
    for step in definition.steps:
        if step.node not in nodes:
            raise BadInput(
                f"step {step.name!r} is on node {step.node!r}, which nobody declared."
                f"{did_you_mean(step.node, nodes)} Declare it: app.node({step.node!r}, address), "
                f"or under `nodes:` of the file."
            )
    check_addresses(definition, nodes)


def check_addresses(definition: Definition, nodes: Mapping[str, Node]) -> None:
    """Refuse steps on nodes, of those that are known, whose address is of another kind."""
    for step in definition.steps:
        for action in (step.do, step.undo, step.verify):
            if step.node in nodes:
                _check_address(step, action, nodes[step.node])


def _check_address(step: Step, action: Action | None, node: Node) -> None:
    address = node.address or ""
    is_open = "${" in address.partition("://")[0]  # its kind is known where the worker runs
    kind = address.partition(":")[0]
    if isinstance(action, Sql) and not is_open and kind not in ("postgresql", "postgres", "sqlite"):
        raise BadInput(
            f"step {step.name!r} is SQL, and node {node.name!r} has "
            f"{'another kind of' if address else 'no'} address. Declare it with "
            f'"postgresql://…" or "sqlite:///…".'
        )
    is_path = isinstance(action, Request) and action.url.startswith("/")
    if is_path and not is_open and kind not in ("http", "https"):
        raise BadInput(
            f"step {step.name!r} is a request for a path, and node {node.name!r} has no HTTP "
            f'address. Declare it with "https://…", or write the whole URL.'
        )


def _listed(where: str, after: Iterable[StepName | str]) -> list[Any]:
    if isinstance(after, str | StepName):
        raise BadInput(f"after of {where} is a list: after=[{shown(after)}].")
    return listed("after", after)


def _name_of(where: str, one: object) -> str:
    if isinstance(one, StepName):
        return one.name
    if isinstance(one, str):
        return one
    raise BadInput(f"after of {where} takes steps and their names, not {shown(one)}.")


def attempts_of(action: Action | None, default: int = bounds.ATTEMPTS_DEFAULT) -> int:
    """Return how often an action is tried if its step does not say."""
    if isinstance(action, JobCall):
        return bounds.ATTEMPTS_DEFAULT if action.attempts is None else action.attempts
    return default


def undo_attempts_of(action: Action | None) -> int:
    """Return how often an undo is tried if its step does not say."""
    return attempts_of(action, UNDO_ATTEMPTS_DEFAULT)


def timeout_of(action: Action | None) -> float | None:
    """Return how long an action may take if its step does not say."""
    return action.timeout if isinstance(action, JobCall) else TIMEOUT_SECONDS_DEFAULT
