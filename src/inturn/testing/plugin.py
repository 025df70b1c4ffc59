"""The pytest plugin: a sandbox, its app and its clock as fixtures.

pytest loads this module for everyone who has inturn installed, so it imports nothing of inturn
before a fixture is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from inturn.queue.app import App
    from inturn.testing.clock import HandClock
    from inturn.testing.sandbox import Sandbox


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting that names the app under test."""
    parser.addini("inturn_app", "the app that inturn's fixtures put on a private store: module:app")


@pytest.fixture
def inturn_store() -> str:
    """The address of the private store, in memory; override it to have another, an empty one."""
    return "sqlite:///:memory:"


@pytest.fixture
def inturn_sandbox(request: pytest.FixtureRequest, inturn_store: str) -> Iterator[Sandbox]:
    """The app that the setting inturn_app names, or a new one, on a private store."""
    from inturn.testing.sandbox import Sandbox

    app = _named_app(request.config.getini("inturn_app"))
    with Sandbox(app, store=inturn_store) as sandbox:
        yield sandbox


@pytest.fixture
def inturn_app(inturn_sandbox: Sandbox) -> App:
    """The app in the sandbox."""
    return inturn_sandbox.app


@pytest.fixture
def inturn_clock(inturn_sandbox: Sandbox) -> HandClock:
    """The clock of the sandbox: delays, retries, leases and dedupe windows follow it."""
    return inturn_sandbox.clock


def _named_app(name: str) -> App | None:
    if not name:
        return None
    from inturn.queue.app import App

    module, _, path = name.partition(":")
    try:
        found = import_module(module)
        for part in (path or "app").split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise pytest.UsageError(
            f"the setting inturn_app is {name!r}, and there is no such app: {error}. Write "
            f"module:app; the setting pythonpath says where pytest finds modules."
        ) from error
    if not isinstance(found, App):
        raise pytest.UsageError(
            f"the setting inturn_app is {name!r}, which is no App but {type(found).__name__}."
        )
    return found
