"""Stores that give out what they may not: in the wrong order, too early, too much, or never."""

from __future__ import annotations

from typing import Any

import msgspec

from inturn.model.lane import Gate
from inturn.model.lease import Claim
from inturn.policy.settlement import Settlement
from tests.simulation.broken.store import Broken, SpoilsClaims


class RunsDoneJobsAgain(SpoilsClaims):
    """Moves the cursor of a drained open lane back over a job that was done."""

    checker = "duplicates"
    statements = (
        "update lane set cursor = cursor - 1, active = 1, rank_at = 1, waiting_since = 1 "
        "where key is null and not active and cursor > 1 "
        "and id not in (select lane from run) and exists (select 1 from job "
        "where lane = lane.id and position = lane.cursor - 1 "
        "and id not in (select id from parked union select id from dead "
        "union select id from cancelled))",
    )


class ReactsToNothing(SpoilsClaims):
    """Lets reactions in although nothing has failed."""

    checker = "reactions"
    statements = ("insert or ignore into reacting select job from waits where on_failure",)


class ReversesRuns(Broken):
    """Gives the jobs of a keyed lane's run in the wrong order."""

    checker = "order"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        claims = await self.store.claim(queue, **options)
        return [
            msgspec.structs.replace(claim, jobs=list(reversed(claim.jobs)))
            if claim.lease.key is not None
            else claim
            for claim in claims
        ]


class LeasesLanesTwice(Broken):
    """Lets a keyed lane be claimed while a worker has its head."""

    checker = "order"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        opened = await self.sql(
            "select lane.id, head, token, kind, priority, lane.round from lane "
            "join tail on tail.lane = lane.id "
            f"where queue = '{queue}' and token is not null and tail.last >= cursor "
            "and suspect_last < head and paused_at is null and exists (select 1 from job "
            "where lane = lane.id and position = lane.cursor and round = 0 and kind = lane.kind "
            "and id not in (select id from cancelled))"
        )
        for lane, *_ in opened:
            await self.sql(
                "update lane set token = null, head = cursor, head_attempt = 0, head_errors = null,"
                f"rank_at = waiting_since, round = 0 where id = {lane}"
            )
        claims = await self.store.claim(queue, **options)
        for lane, head, token, kind, priority, round in opened:
            await self.sql(
                f"update lane set token = {token}, head = {head}, rank_at = null, "
                f"head_attempt = 1, kind = '{kind}', priority = {priority}, round = {round} "
                f"where id = {lane} and token is null"
            )
        return claims


class IgnoresHalts(Broken):
    """Goes on behind the dead letter that a lane is halted on."""

    checker = "halts"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        halted = await self.sql(
            "select id, head, halted_at, hex(halted_job) from lane "
            f"where queue = '{queue}' and halted_at is not null and paused_at is null "
            "and exists (select 1 from job where lane = lane.id and position = lane.head + 1 "
            "and round = 0 and kind = lane.kind and id not in (select id from cancelled))"
        )
        for lane, head, *_ in halted:
            await self.sql(
                f"update lane set head = {head + 1}, cursor = {head + 1}, halted_at = null, "
                f"halted_job = null, rank_at = 1 where id = {lane}"
            )
        claims = await self.store.claim(queue, **options)
        for lane, head, halted_at, job in halted:
            await self.sql(
                f"update lane set head = {head}, cursor = {head}, halted_at = {halted_at}, "
                f"halted_job = x'{job}', rank_at = null where id = {lane} and token is null"
            )
        return claims


class IgnoresGates(Broken):
    """Claims from rounds that are not open."""

    checker = "gates"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        [(gate,)] = await self.sql(f"select gate from queue where name = '{queue}'")
        await self.sql(f"update queue set gate = 9 where name = '{queue}'")
        claims = await self.store.claim(queue, **options)
        await self.sql(f"update queue set gate = {gate} where name = '{queue}'")
        return claims


class AdvancesTooEarly(Broken):
    """Opens the next round without looking whether this one is complete."""

    checker = "gates"

    async def advance_gate(self, queue: str) -> Gate:
        [(gate,)] = await self.sql(f"select gate from queue where name = '{queue}'")
        round = await self.store.open_gate(queue, gate + 1)
        return Gate(round=round, advanced=True, unfinished=False, exhausted=False)


class ClaimsBeforeDue(Broken):
    """Claims what is delayed and what waits to retry, whether or not it is due."""

    checker = "backoff"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        await self.sql(
            "update parked set run_at = 1 where token is null and rank_at is null",
            "update lane set ready_at = 1 where ready_at is not null",
        )
        return await self.store.claim(queue, **options)


class StarvesTheOld(Broken):
    """Claims the newest and least urgent first."""

    checker = "priority"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        await self.sql("update lane set rank_at = -rank_at")
        claims = await self.store.claim(queue, **options)
        await self.sql("update lane set rank_at = -rank_at where rank_at < 0")
        return claims


class IgnoresPauses(Broken):
    """Says that it holds a queue or a lane, and does not."""

    checker = "pauses"

    async def pause(self, queue: str, *, key: str | None = None, by: str) -> None:
        if key is not None:
            await self.store.resume(queue, key=key)


class IgnoresKinds(Broken):
    """Gives a worker whatever there is."""

    checker = "kinds"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        return await self.store.claim(queue, **(options | {"kinds": None}))


class GivesTooMuch(Broken):
    """Gives one job more than was asked for."""

    checker = "sizes"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        more = {"jobs_max": options["jobs_max"] + 1}
        return await self.store.claim(queue, **(options | more))


class NeverGetsToA(Broken):
    """Never gives anyone a job of lane 'a'."""

    checker = "finish"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        claims = await self.store.claim(queue, **options)
        hidden = [claim for claim in claims if claim.lease.key == "a"]
        for claim in hidden:
            await self.store.settle([Settlement.release(claim)], worker="nobody")
        return [claim for claim in claims if claim not in hidden]
