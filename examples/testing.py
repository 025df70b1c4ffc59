"""Testing code that uses inturn: nothing leaves the sandbox, and time passes when the test says."""

import inturn
from inturn.testing import private

app = inturn.App("sqlite:////srv/shop/work.db")  # never touched here


@app.job(attempts=3)
async def remind(customer: str) -> None:
    print(f"dear {customer}, your basket waits")


def leave_basket(customer: str) -> None:
    """The code under test."""
    remind.using(key=customer, delay=3600).submit_sync(customer)


def test_a_customer_is_reminded_after_an_hour() -> None:
    with private(app) as sandbox:
        leave_basket("ann")
        sandbox.assert_submitted(remind.using(key="ann"), customer="ann")
        assert sandbox.drain_sync().done == []
        sandbox.clock.advance("1h")
        assert len(sandbox.drain_sync().done) == 1


if __name__ == "__main__":  # or: pytest testing.py
    test_a_customer_is_reminded_after_an_hour()
