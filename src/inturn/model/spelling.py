"""How sentences end and name a job, and what somebody meant who wrote a name that is not known."""

from __future__ import annotations

from collections.abc import Iterable

ALIKE = 0.7  # at 0.6, difflib's own, LITE is taken for JITTER


def whole(sentence: str) -> str:
    """Return a sentence with one full stop, whether or not it had one."""
    return sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}."


def job_name(kind: str, function: str) -> str:
    """Return how a job is known in the store, and its function where that has another name."""
    return repr(kind) if function == kind else f"{kind!r} (function {function!r})"


def did_you_mean(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """Return a sentence, after a space, that names the nearest of the known; else nothing.

    A ``prefix`` that all of them have makes none of them nearer.
    """
    from difflib import get_close_matches  # only who has misspelled something pays for it

    bare = [one.removeprefix(prefix) for one in known]
    close = get_close_matches(name.removeprefix(prefix), bare, n=1, cutoff=ALIKE)
    return f" Did you mean {prefix}{close[0]}?" if close else ""
