"""Actions as users write them: SQL, HTTP requests, commands, and calls of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from inturn.groups.model import TEXT_CHARS_MAX, Action, Command, JobCall, Request, Sql
from inturn.model.admissible import check_name, shown
from inturn.model.errors import BadInput
from inturn.model.payload import encode_payload
from inturn.queue.app import App
from inturn.queue.job import Call, Job


def sql(text: str) -> Sql:
    """Return SQL statements as the action of a step on a PostgreSQL or SQLite node.

    They run in one transaction. As a ``verify`` the first value of the first row answers: true is
    applied; false, null or no row is not applied; or it is one of the words ``applied``,
    ``not_applied``, ``running``, ``cannot_tell``.
    """
    _check("SQL", text)
    return Sql(text)


def request(
    method: str, url: str, *, json: Any = None, headers: Mapping[str, str] | None = None
) -> Request:
    """Return an HTTP request as the action of a step.

    A URL that begins with ``/`` is added to the node's address. As a ``verify`` the status answers:
    202 is running, another 2xx applied, 404 and 410 not applied.
    """
    _check("method of a request", method)
    _check("URL of a request", url)
    if not method.isalpha() or not url.startswith(("http://", "https://", "/")):
        raise BadInput(
            f'a request has a method and a URL, or a path of its node: inturn.request("PUT", '
            f'"/users/7"); not {shown(method)}, {shown(url)}.'
        )
    body = encode_payload(json, what="body of a request")
    return Request(method.upper(), url, msgspec.Raw(body.encode()), dict(headers or {}))


def command(*arguments: str) -> Command:
    """Return a program with its arguments, run without a shell, as the action of a step.

    As a ``verify`` the exit code answers: 0 is applied, 1 not applied, 2 running.
    """
    if not arguments:
        raise BadInput('a command needs a program: inturn.command("prog", "argument").')
    _check("program of a command", arguments[0])
    for argument in arguments[1:]:
        if argument != "":
            check_name("argument of a command", argument, TEXT_CHARS_MAX)
    return Command(tuple(arguments))


def action_of(where: str, given: object, app: App | None) -> Action:
    """Return an action from what a user gave for it; refuse what is none."""
    if isinstance(given, Sql | Request | Command):
        return given
    if isinstance(given, JobCall):  # of a file
        return given
    if isinstance(given, Call):
        return _job_call(where, given, app)
    if isinstance(given, Job):
        raise BadInput(f"{where} is a job without its arguments: write {given.kind}.call(…).")
    raise BadInput(
        f"{where} is a job's call, inturn.sql(…), inturn.request(…) or inturn.command(…), not "
        f"{shown(given)}."
    )


def call_of(where: str, kind: str, arguments: Mapping[str, Any], app: App | None) -> JobCall:
    """Return the call of a job by its kind, as a file names it."""
    job = None if app is None else app.jobs.get(kind)
    if job is None:
        from inturn.model.spelling import did_you_mean

        known = "" if app is None else did_you_mean(kind, app.jobs)
        missing = (
            "no app was named that has it (-A MODULE:APP)"
            if app is None
            else "this app has no such job"
        )
        raise BadInput(f"{where} is a call of job {kind!r}, and {missing}.{known}")
    try:
        return _job_call(where, job.call(**arguments), app)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error


def _job_call(where: str, call: Call[Any], app: App | None) -> JobCall:
    """Refuse options that a step has in another way; the rest is the job's declaration."""
    new = call.new
    if app is not None:
        call.check_for(app)
    job = None if app is None else app.jobs.get(new.kind)
    refused = {
        "key": new.key is not None,
        "priority": new.priority != (0 if job is None else job.options.priority),
        "after": bool(new.after or getattr(new, "after_failed", ())),
        "dedupe": new.dedupe is not None,
        "delay": bool(new.delay_seconds),
        "round": bool(new.round),
    }
    for option, is_said in refused.items():
        if is_said:
            raise BadInput(
                f"{where}: its call of {new.kind!r} has {option}=…. A step's order comes from the "
                f"group: say after=[…] on the step, and leave {option} out of the call."
            )
    return JobCall(new.kind, new.payload, new.attempts_max, new.timeout_seconds)


def _check(what: str, text: str) -> None:
    check_name(what, text, TEXT_CHARS_MAX)
    if not text.strip():
        raise BadInput(f"the {what} is empty.")
