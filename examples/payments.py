"""Payments: each customer's in the order they were made, tried again when they fail."""

import inturn

app = inturn.App("sqlite:///work.db")  # or postgresql://user@host/database


@app.job(queue="payments", attempts=5, timeout=60)
async def charge(customer: str, cents: int) -> str:
    print(f"{customer} pays {cents}")
    return f"{customer} has paid {cents}"


if __name__ == "__main__":
    for customer, cents in [("ann", 500), ("bob", 40), ("ann", 125), ("ann", 80)]:
        charge.using(key=customer).submit_sync(customer, cents)
    print("4 payments are accepted")
