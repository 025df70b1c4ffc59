"""An executor with a store behind it: stopped in the middle, it goes on where it was, in order."""

import asyncio

import inturn

app = inturn.App("sqlite:///:memory:")  # or sqlite:///work.db, to survive a kill -9 too
written: list[int] = []


@app.job
async def write(number: int) -> None:
    written.append(number)


async def main() -> None:
    async with app:
        async with inturn.Executor(app=app) as executor:
            for number in range(3):
                await executor.submit("ann", write.call(number))  # in the store
        await write.using(key="ann").submit(3)  # by someone else, while no executor runs
        async with inturn.Executor(app=app) as executor:
            await executor.submit("ann", write.call(4))
            await executor.barrier("ann")
        print("ann", written)


asyncio.run(main())
