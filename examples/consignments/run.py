"""Five problems of a queue that failed, each of which does not happen: `python run.py`."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from retail_api import RetailAPI, serve

HERE = Path(__file__).parent
SECONDS_MAX = 120.0


def until(is_so):
    give_up_at = time.monotonic() + SECONDS_MAX
    while not is_so():
        if time.monotonic() > give_up_at:
            raise TimeoutError("it took too long")
        time.sleep(0.02)


def worker():
    command = [sys.executable, "-m", "inturn", "work", "transfers:app", "--sweep", "1s"]
    return subprocess.Popen(command, cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def left(store):
    """Return the jobs that may still run by themselves: not what is dead, nor what waits for it."""
    lanes = (await store.lanes("retail")).rows
    halted = {lane.key for lane in lanes if lane.state == "halted"}
    jobs = (await store.jobs(finished=False, rows_max=1_000)).rows
    return [one for one in jobs if one.state != "dead" and one.job.key not in halted]


def work_off(count):
    """Let some workers do what there is to do, and then end, as a deploy would."""
    workers = [worker() for _ in range(count)]
    until(lambda: not app.sync(app.run(left)))
    for one in workers:
        one.send_signal(signal.SIGTERM)
    assert [one.wait() for one in workers] == [0] * count


def submit(*references, lines):
    """Submit each transfer's life: it is created, updated and received, in this order."""
    for one in references:
        create.using(key=one).submit_sync(one, lines)
        update.using(key=one).submit_sync(one, {"mug": 2})
        receive.using(key=one).submit_sync(one)


def effects_of(reference):
    return [effect for effect, of in api.effects if of == reference]


def one_transfer_is_one_consignment():
    many = [f"T-{number}" for number in range(12)]
    submit(*many, lines={"tea": 10})
    work_off(3)
    assert all(effects_of(one) == ["created", "updated", "received"] for one in many)
    assert max(Counter(api.effects).values()) == 1
    print("1. Three workers, 12 transfers: each was created, updated and received once, in order.")


def a_killed_worker_leaves_nothing_stuck():
    api.may_answer.clear()
    submit("T-killed", lines={"tea": 1})
    first = worker()
    until(lambda: effects_of("T-killed"))
    first.kill()
    first.wait()
    api.may_answer.set()
    work_off(1)
    assert effects_of("T-killed") == ["created", "updated", "received"]
    print("2. A worker was killed in the middle of a call: the next went on with its job.")


def what_cannot_succeed_is_set_aside():
    submit("T-poison", lines={"unicorn": 1})
    submit("T-behind", lines={"tea": 1})
    work_off(1)
    assert effects_of("T-behind") == ["created", "updated", "received"]
    assert effects_of("T-poison") == []
    [dead] = app.sync(app.run(lambda store: store.dead_letters(queue="retail"))).rows
    assert "unknown SKU unicorn" in dead.reason
    print("3. A transfer with an unknown SKU became a dead letter; those behind it went on.")
    api.skus.add("unicorn")
    app.sync(app.run(lambda store: store.retry_lane("retail", "T-poison")))
    work_off(1)
    assert effects_of("T-poison") == ["created", "updated", "received"]
    print("   The SKU was added, its lane retried: created, updated and received, in order.")


def a_timeout_doubles_nothing():
    assert api.late >= 5
    assert api.refused > 0
    assert max(Counter(api.effects).values()) == 1
    print("4. The API was late after many effects and refused many calls: nothing is there twice.")


def nothing_is_missed():
    for offset, verb in [(3600.0, api.update), (-7200.0, api.delete)]:
        api.clock_offset = offset
        some = list(api.consignments)[:4]
        for id in some if verb == api.delete else list(api.consignments):
            verb(*([id] if verb == api.delete else [id, {"lines": {"tea": 3}}]))
        app.sync(consignments.run())
        work_off(1)
    for one in api.consignments.values():
        seen = app.sync(consignments.item(one["id"]))
        assert (seen is None) == one["deleted"]
        assert seen is None or seen.version == one["version"]
    states = Counter(state for (state,) in app.sync(rows("select state from transfer")))
    assert states == {"DELETED": 4, "RECEIVED": len(api.consignments) - 4}
    print("5. The API's clock jumped by hours, and consignments were deleted: all of it was seen.")


async def rows(sql):
    async with app.transaction() as t:
        return await t.execute(sql)


if __name__ == "__main__":
    api = RetailAPI(calls_max=30, window_seconds=2.0, late_every=4, late_seconds=1.0)
    server = serve(api)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "RETAIL_API": f"http://127.0.0.1:{server.server_port}",
            "RETAIL_TIMEOUT": "0.5",
            "INTURN_STORE": f"sqlite:///{folder}/work.db",
        }
        from transfers import app, consignments, create, prepare, receive, update

        app.sync(prepare())
        one_transfer_is_one_consignment()
        a_killed_worker_leaves_nothing_stuck()
        what_cannot_succeed_is_set_aside()
        a_timeout_doubles_nothing()
        nothing_is_missed()
        app.sync(app.close())
    server.shutdown()
