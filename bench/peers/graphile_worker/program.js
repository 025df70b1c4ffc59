// The program of graphile-worker; its commands are those of peer.py, its files those of tally.py.

import { Logger, makeWorkerUtils, run as runWorker, runMigrations } from "graphile-worker";
import pg from "pg";
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

// Its runner takes connections from a pool that is open, but looks up its schema and listens only
// when it starts. It uses no more at once than these, unbatched or batched.
const CONNECTIONS = 4;

async function connected(pool) {
  const opened = await Promise.all(Array.from({ length: CONNECTIONS }, () => pool.connect()));
  for (const client of opened) client.release();
}

async function connect(connectionString, settings, ran) {
  const taskList = { deliver: async ({ number }) => ran(number) };
  const pgPool = new pg.Pool({ connectionString, max: settings.maxPoolSize });
  pgPool.on("error", (error) => console.error(error));
  pgPool.on("connect", (client) => client.on("error", (error) => console.error(error)));
  await connected(pgPool);
  return () => runWorker({ pgPool, preset: { worker: { logger, ...settings } }, taskList });
}

await run({ prepare, open, connect });
