"""Two orders of one customer and a mail: accepted, claimed and settled, on SQLite."""

import asyncio

from inturn.model.job import NewJob
from inturn.model.payload import encode_payload
from inturn.policy.settlement import Settlement
from inturn.store.address import connect


async def main() -> None:
    store = connect("sqlite:///work.db")  # or postgresql://user@host/database
    await store.open()
    first = NewJob(kind="order", key="customer-7", payload=encode_payload({"number": 1}))
    second = NewJob(kind="order", key="customer-7", payload=encode_payload({"number": 2}))
    mail = NewJob(kind="mail", after=frozenset({second.id}))
    await store.enqueue([mail, first, second])  # all or none

    while claims := await store.claim("default", jobs_max=10, worker="me", lease_seconds=30):
        for claim in claims:
            for job in claim.jobs:
                print(f"{job.kind} {job.payload}, attempt {job.attempt}")
        await store.settle([Settlement.done(claim) for claim in claims], worker="me")
    await store.close()


asyncio.run(main())
