"""The app that the containers run."""

import inturn

app = inturn.App()  # the store of INTURN_STORE


@app.job(attempts=5, timeout=60)
async def charge(customer: str, cents: int) -> None:
    print(f"{customer} pays {cents}", flush=True)
