// The program of graphile-worker; its commands are those of peer.py, its files those of tally.py.

import fs from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";

const BATCH = 1000;
const PAYLOAD_BYTES = 100;
const TELL_MILLISECONDS = 20;
const logger = new Logger(() => (level, text) => level === "error" && console.error(text));

function payload(number) {
  const bare = JSON.stringify({ number, note: "" });
  return { number, note: "x".repeat(PAYLOAD_BYTES - bare.length) };
}

async function fill(connectionString, jobs) {
  await runMigrations({ connectionString, logger });
  const utils = await makeWorkerUtils({ connectionString, logger });
  for (let first = 0; first < jobs; first += BATCH) {
    const size = Math.min(BATCH, jobs - first);
    const numbers = Array.from({ length: size }, (_, offset) => first + offset);
    await utils.addJobs(numbers.map((number) => ({ identifier: "deliver", payload: payload(number) })));
  }
  await utils.release();
}

async function work(connectionString, settings) {
  const folder = process.env.BENCH_FOLDER;
  const file = (name) => path.join(folder, `${process.pid}.${name}`);
  let count = 0;
  const taskList = {
    deliver: async () => {
      count += 1;
    },
  };
  fs.writeFileSync(file("ready"), "");
  while (!fs.existsSync(path.join(folder, "go"))) await sleep(1);
  await run({ preset: { worker: { connectionString, logger, ...settings } }, taskList });
  const told = fs.openSync(file("count"), "w");
  while (!fs.existsSync(path.join(folder, "stop"))) {
    fs.writeSync(told, String(count).padStart(12), 0);
    await sleep(TELL_MILLISECONDS);
  }
  fs.writeFileSync(file("runs"), "");
}

const [command, url, argument] = process.argv.slice(2);
if (command === "fill") await fill(url, Number(argument));
else await work(url, JSON.parse(argument));
