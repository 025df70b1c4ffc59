"""Settings: arguments, ``SQ_*`` variables, durations as people write them, clear errors."""

from __future__ import annotations

from typing import Any

import pytest

import inturn
from inturn.executor import ExecutorSettings, Failure
from inturn.model.duration import parse_duration
from inturn.model.errors import BadInput, InvalidSetting
from inturn.model.lane import OnDead


def test_without_any_setting_the_defaults_hold() -> None:
    """(004-20)"""
    for settings in (
        ExecutorSettings(),
        ExecutorSettings.from_environment({}),
        inturn.Executor().settings,
    ):
        assert (settings.shards, settings.slots, settings.queue_size) == (4, 4, 128)
        assert (settings.enqueue_timeout, settings.max_attempts) == (0.1, 8)
        assert (settings.base_backoff, settings.max_interval) == (0.1, 20.0)
        assert settings.on_dead is OnDead.SKIP
        assert settings.depth_max == 4 * 128


def test_every_setting_has_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """(004-20)"""
    variables = {
        "SQ_SHARDS": "8",
        "SQ_SLOTS": "3",
        "SQ_QUEUE_SIZE": " 256 ",
        "SQ_DEPTH_MAX": "1000",
        "SQ_ENQUEUE_TIMEOUT": "200ms",
        "SQ_MAX_ATTEMPTS": "5",
        "SQ_BASE_BACKOFF": "50ms",
        "SQ_MAX_INTERVAL": "1m30s",
        "SQ_JITTER": "0.5",
        "SQ_ON_DEAD": "halt",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert inturn.Executor.from_environment().settings == ExecutorSettings(
        shards=8,
        slots=3,
        queue_size=256,
        depth_max=1_000,
        enqueue_timeout=0.2,
        max_attempts=5,
        base_backoff=0.05,
        max_interval=90.0,
        jitter=0.5,
        on_dead="halt",
    )
    assert len(ExecutorSettings.__dataclass_fields__) == len(variables)
    assert inturn.Executor().settings.shards == 4  # only who asks for it gets the environment


def test_what_is_given_counts_more_than_the_environment() -> None:
    """(004-20)"""
    found: list[Failure] = []
    executor = inturn.Executor.from_environment(
        {"SQ_SHARDS": "8", "SQ_QUEUE_SIZE": "broken"},
        queue_size=7,
        error_handler=found.append,
    )
    assert (executor.settings.shards, executor.settings.queue_size) == (8, 7)


def test_a_variable_that_is_misspelled_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """(004-20)"""
    environment = {"SQ_SHARD": "8", "SQ_LITE": "another program's", "SQ_SLOTS": "3"}
    assert ExecutorSettings.from_environment(environment).shards == 4
    assert caplog.messages == ["the variable SQ_SHARD does nothing. Did you mean SQ_SHARDS?"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("100ms", 0.1),
        ("20s", 20.0),
        ("0", 0.0),
        ("0s", 0.0),
        ("1m30s", 90.0),
        ("1h", 3_600.0),
        ("1d", 86_400.0),
        ("1d12h", 129_600.0),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("250us", 0.000_25),
        ("250µs", 0.000_25),
        ("5ns", 5e-9),
        (" 2s ", 2.0),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    """(004-20)"""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "fast", "1x", "-1s", "1s2", "s", "1 s", "٣s", "1e3s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """(004-20)"""
    with pytest.raises(BadInput):
        parse_duration(text)


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("SQ_SHARDS", "0", r"^SQ_SHARDS is 0; it may be 1 to"),
        ("SQ_SHARDS", "four", r"^SQ_SHARDS is 'four'; it must be a whole number"),
        (
            "SQ_ENQUEUE_TIMEOUT",
            "200",
            r"^SQ_ENQUEUE_TIMEOUT cannot be read: '200' has no unit; write 200s for",
        ),
        ("SQ_ENQUEUE_TIMEOUT", "-1s", r"^SQ_ENQUEUE_TIMEOUT cannot be read: '-1s' is no length"),
        ("SQ_BASE_BACKOFF", "1m", r"^SQ_BASE_BACKOFF is 60 s, and max_interval, .* 20 s\. Raise"),
        ("SQ_MAX_INTERVAL", "10ms", r"^base_backoff is 0\.1 s, and SQ_MAX_INTERVAL, .* 0\.01 s\."),
        ("SQ_JITTER", "nan", r"^SQ_JITTER must be a finite number"),
        ("SQ_ON_DEAD", "panic", r"^SQ_ON_DEAD is 'panic'; it may be 'skip' or 'halt'"),
    ],
)
def test_a_variable_that_cannot_be_is_named_in_a_sentence(
    variable: str, value: str, words: str
) -> None:
    """(004-20)"""
    with pytest.raises(InvalidSetting, match=words) as caught:
        ExecutorSettings.from_environment({variable: value})
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    "wrong",
    [
        {"shards": 0},
        {"slots": -1},
        {"max_attempts": "8"},
        {"enqueue_timeout": -0.1},
        {"base_backoff": "quick"},
        {"base_backoff": 30, "max_interval": "20s"},
        {"jitter": 1.1},
        {"on_dead": "stop"},
    ],
)
def test_an_argument_that_cannot_be_is_named(wrong: dict[str, Any]) -> None:
    """(004-20)"""
    with pytest.raises(InvalidSetting, match=f"^{next(iter(wrong))} "):
        inturn.Executor(**wrong)


class Local(inturn.Executor):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.is_mine = True


def test_an_argument_that_does_not_exist_is_told_with_the_one_that_was_meant() -> None:
    wrong: dict[str, Any] = {"slot": 3}
    for make in (inturn.Executor, inturn.Executor.from_environment):
        with pytest.raises(TypeError) as caught:
            make(**wrong)
        assert str(caught.value) == "Executor takes no argument 'slot'. Did you mean slots?"


def test_a_subclass_without_a_store_takes_no_app() -> None:
    app = inturn.App("sqlite:///:memory:")
    with pytest.raises(BadInput, match=r"^Local .* takes no app\. Make .* inturn\.DurableExecutor"):
        Local(app=app)
    with pytest.raises(BadInput, match=r"^Local .* takes no app"):
        Local.from_environment({}, app=app)
