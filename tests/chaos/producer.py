"""A producer process: submits batches one after another, each until the store has answered.

``python -m tests.chaos.producer NUMBER SEED JOBS MIX``; started again after a kill, it goes on
with the batch that was not answered, under the same ids.
"""

from __future__ import annotations

import asyncio
import sys
from random import Random

from inturn.model.errors import StoreError
from inturn.model.job import NewJob
from tests.chaos.jobs import (
    FOLDER,
    app,
    coroutine,
    flaky,
    hopeless,
    paying,
    poison,
    strict,
    threaded,
)
from tests.chaos.log import Answered, Log, Sending

BATCH_MAX = 20
KEYS = 30  # of each producer its own: what two producers send has no order
PAUSE_SECONDS = 0.05
TROUBLE_SECONDS = 0.2


class Mix:
    """Draws jobs from a seed. Jobs of a family stand in one lane, or wait for one another."""

    def __init__(self, number: int, seed: str, mix: str) -> None:
        self.random, self.number, self.mix = Random(seed), number, mix
        self.doomed = 0

    def batch(self, size: int) -> list[NewJob]:
        if self.mix == "keyed":
            return [self._plain(self._key()) for _ in range(size)]
        made = [self._plain(self._key()) for _ in range(size // 2)]
        made += [self._plain(None) for _ in range(size - size // 2)]
        key = self._key()
        made.append(flaky.using(key=key).call(self.random.randint(1, 3)).new)
        made.append(paying.using(key=self._key()).call().new)
        made.append(paying.call().new)
        first = self._plain(None)
        made += [first, coroutine.using(after=[first.id]).call(0.0).new]
        made.append(coroutine.using(delay=self.random.uniform(0.1, 2.0)).call(0.0).new)
        key_of_strict = f"{self.number}-strict-{self.random.randrange(4)}"
        made += [strict.using(key=key_of_strict).call().new for _ in range(4)]
        self.doomed += 1
        if self.doomed in (5, 25):
            made.append(poison.using(key=key).call().new)
        elif self.doomed % 5 == 0:
            made.append(hopeless.using(key=key).call().new)
        return made

    def _key(self) -> str:
        hot = self.random.random() < 0.5
        return f"{self.number}-{self.random.randrange(2 if hot else KEYS)}"

    def _plain(self, key: str | None) -> NewJob:
        seconds = self.random.choice((0.0, 0.005, 0.02, 0.1))
        job = self.random.choice((coroutine, threaded))
        return job.using(key=key).call(seconds).new if key else job.call(seconds).new


async def produce(number: int, seed: int, jobs_max: int, mix: str) -> None:
    log = Log(FOLDER / "log")
    lines = log.lines()
    sent = [line for line in lines if isinstance(line, Sending) and line.producer == number]
    answers = [line for line in lines if isinstance(line, Answered) and line.producer == number]
    count = len({job.id for line in sent for job in line.jobs})
    if sent and sent[-1].at > max((line.at for line in answers), default=0.0):
        await submit(log, number, list(sent[-1].jobs))
    drawn = Mix(number, f"{seed}/{number}/{len(sent)}", mix)
    while count < jobs_max:
        batch = drawn.batch(drawn.random.randint(1, BATCH_MAX))
        count += len(batch)
        await submit(log, number, batch)
        await asyncio.sleep(PAUSE_SECONDS)
    await app.close()


async def submit(log: Log, number: int, batch: list[NewJob]) -> None:
    log.write(Sending(producer=number, jobs=batch))
    while True:
        try:
            await app.run(lambda store: store.enqueue(batch))
        except StoreError:
            await asyncio.sleep(TROUBLE_SECONDS)
        else:
            return log.write(Answered(producer=number))


if __name__ == "__main__":
    number, seed, jobs_max, mix = sys.argv[1:]
    asyncio.run(produce(int(number), int(seed), int(jobs_max), mix))
