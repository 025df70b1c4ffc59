// The program of graphile-worker; its commands are those of peer.py, its files those of tally.py.

import { Logger, makeWorkerUtils, run as runWorker, runMigrations } from "graphile-worker";
import { key, payload, run } from "./harness.js";

const logger = new Logger(() => (level, text) => level === "error" && console.error(text));

async function prepare(connectionString) {
  await runMigrations({ connectionString, logger });
}

async function open(connectionString) {
  const utils = await makeWorkerUtils({ connectionString, logger });
  return {
    one: (number) => utils.addJob("deliver", payload(number)),
    many: (numbers, keys) =>
      utils.addJobs(
        numbers.map((number) => ({
          identifier: "deliver",
          payload: payload(number),
          ...(keys && { queueName: key(number, keys) }),
        })),
      ),
    close: () => utils.release(),
  };
}

async function start(connectionString, settings, ran) {
  const taskList = { deliver: async ({ number }) => ran(number) };
  await runWorker({ preset: { worker: { connectionString, logger, ...settings } }, taskList });
}

await run({ prepare, open, start });
