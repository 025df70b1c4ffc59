// The program of pg-boss; its commands are those of peer.py, its files those of tally.py.

import { PgBoss } from "pg-boss";
import { key, payload, run } from "./harness.js";

const QUEUE = "deliver";

function boss(connectionString, options) {
  const made = new PgBoss({ connectionString, ...options });
  made.on("error", (error) => console.error(error));
  return made;
}

async function prepare(url, keys) {
  const made = boss(url);
  await made.start();
  await made.createQueue(QUEUE, keys ? { policy: "key_strict_fifo" } : {});
  await made.stop();
}

async function open(url) {
  // Producers leave the upkeep of the tables to the workers.
  const made = boss(url, { supervise: false, schedule: false });
  await made.start();
  return {
    one: (number) => made.send(QUEUE, payload(number)),
    // All of a call have the same time, which is what their order goes by, so that a call may have
    // each key only once.
    many: async (numbers, keys) => {
      const size = keys ? Math.min(numbers.length, keys) : numbers.length;
      for (let first = 0; first < numbers.length; first += size) {
        await made.insert(
          QUEUE,
          numbers.slice(first, first + size).map((number) => ({
            data: payload(number),
            ...(keys && { singletonKey: key(number, keys) }),
          })),
        );
      }
    },
    close: () => made.stop(),
  };
}

async function connect(url, { notify = false, work = {} }, ran) {
  const made = boss(url, { useListenNotify: notify });
  await made.start();
  if (notify) await made.updateQueue(QUEUE, { notify: true });
  // Its pool opens a connection when all are in use: one for each of its workers, and one more.
  const connections = (work.localConcurrency ?? 1) + 1;
  await Promise.all(Array.from({ length: connections }, () => made.getQueue(QUEUE)));
  return () =>
    made.work(QUEUE, work, async (jobs) => {
      for (const { data } of jobs) ran(data.number);
    });
}

await run({ prepare, open, connect });
