"""Play the same verbs in the model and on a real PostgreSQL, and compare what can be seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from inturn.store.postgres.store import PostgresStore
from tests.model.real import Stage, seen_in
from tests.model.rules import Bounds, Rules
from tests.model.verbs import HELD_UP, OPEN, OVER, Play, Verb, verb, walk


class Replay:
    """A play in the model and on a stage, in step. Whatever differs is an error."""

    def __init__(
        self, store: PostgresStore, url: str, queue: str, bounds: Bounds, rules: Rules | None = None
    ) -> None:
        self.play = Play(bounds, rules or Rules())
        self.outcomes: Counter[str] = Counter()
        self._stage = Stage(store, queue, bounds)
        self._url = url
        self._said: list[str] = []

    async def __aenter__(self) -> Replay:
        await self._stage.open(self._url)
        await self._compare()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stage.close()

    async def follow(self, *schedule: str) -> None:
        """Play a schedule; a line may end with how it must come out: ``… => refused``."""
        for line in schedule:
            said, _, expected = line.partition(" => ")
            outcome = await self.ask(verb(said))
            assert not expected or outcome == expected, f"{line}, but it is {outcome}"

    async def wander(self, seed: int, verbs_max: int) -> None:
        """Play verbs chosen by chance."""
        for one in walk(self.play, seed, verbs_max):
            await self.ask(one)

    async def ask(self, asked: Verb) -> str:
        """Ask both for a verb, and then let those go on whom it held up."""
        expected = self.play.ask(asked)
        outcome = await self._stage.ask(asked)
        self._said.append(f"{asked} => {outcome}")
        await self._check(asked.who, expected, outcome)
        if expected != HELD_UP:
            for who, then in self.play.let_go().items():
                found = await self._stage.outcome(who)
                self._said.append(f"{who} goes on => {found}")
                await self._check(who, then, found)
        await self._compare()
        return expected

    async def _check(self, who: str, expected: str, outcome: str) -> None:
        self.outcomes[expected] += 1
        if expected == OVER and outcome == OPEN:  # it claimed nothing, and has nothing to commit
            outcome = await self._stage.ask(Verb(who, "commit"))
        assert outcome == expected, self._difference(expected, outcome)

    async def _compare(self) -> None:
        expected, found = seen_in(self.play.state), await self._stage.seen()
        assert found == expected, self._difference(expected, found)
        for number, worker in enumerate(self.play.state.workers, start=1):
            who = f"worker {number}"
            held = worker.held
            known = None if held is None else (held.first, held.last, held.alone)
            assert self._stage.held_by(who) == known, self._difference(
                known, self._stage.held_by(who)
            )

    def _difference(self, expected: object, found: object) -> str:
        told: Iterable[str] = (f"  {line}" for line in self._said)
        return "\n".join([*told, f"the model: {expected}", f"PostgreSQL: {found}"])
