"""Three customers' writes in this process: in order for each customer, retried, without a store."""

import asyncio

import inturn


async def main() -> None:
    written: dict[str, list[int]] = {"ann": [], "bob": [], "eve": []}
    failures = 2

    async with inturn.Executor(slots=4, base_backoff="10ms") as executor:
        for number in range(1, 4):
            for customer in written:

                async def write(customer: str = customer, number: int = number) -> None:
                    nonlocal failures
                    if customer == "bob" and failures:
                        failures -= 1
                        raise ConnectionError("bob's line is down")  # it is tried again
                    written[customer].append(number)

                await executor.submit(customer, write)

        await executor.barrier("bob")  # everything of bob's so far has been written
        print("bob", written["bob"])
        print("eve", await executor.run("eve", lambda: len(written["eve"])), "writes")

    print("ann", written["ann"])  # leaving the executor has drained it


asyncio.run(main())
