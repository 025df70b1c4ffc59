// The commands of peer.py and the files of tally.py, for the programs of peers on Node.

import fs from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const BATCH = 1000;
const PAYLOAD_BYTES = 100;
const WARM_SECONDS = 0.3;
const PAUSE_MILLISECONDS = [30, 70];
const TELL_MILLISECONDS = 5;
const FEED_MILLISECONDS = 2;
const RECORD_BYTES = 16;

export function payload(number) {
  const bare = JSON.stringify({ number, note: "" });
  return { number, note: "x".repeat(PAYLOAD_BYTES - bare.length) };
}

export function key(number, keys) {
  return `customer-${number % keys}`;
}

function range(first, size) {
  return Array.from({ length: size }, (_, offset) => first + offset);
}

function seconds() {
  return performance.now() / 1000;
}

async function submitFor(producer, duration, many) {
  const until = seconds() + duration;
  let number = 0;
  while (seconds() < until) {
    if (many) await producer.many(range(number, BATCH), 0);
    else await producer.one(number);
    number += many ? BATCH : 1;
  }
  return number;
}

async function fill(producer, jobs, keys) {
  for (let first = 0; first < jobs; first += BATCH) {
    await producer.many(range(first, Math.min(BATCH, jobs - first)), keys);
  }
}

async function submit(producer, duration, how) {
  const warm = await submitFor(producer, WARM_SECONDS, how === "many");
  const began = seconds();
  const jobs = await submitFor(producer, duration, how === "many");
  console.log(JSON.stringify({ warm, jobs, seconds: seconds() - began }));
}

async function trickle(producer, jobs) {
  const [least, most] = PAUSE_MILLISECONDS;
  const calledAt = [];
  for (let number = 0; number < jobs; number += 1) {
    await sleep(least + Math.random() * (most - least));
    calledAt.push(Number(process.hrtime.bigint()));
    await producer.one(number);
  }
  console.log(JSON.stringify(calledAt));
}

function countRuns(folder) {
  let count = 0;
  for (const name of fs.readdirSync(folder)) {
    const file = path.join(folder, name);
    if (name.endsWith(".count")) count += Number(fs.readFileSync(file, "utf8"));
    if (name === "journal") count += Math.floor(fs.statSync(file).size / RECORD_BYTES);
  }
  return count;
}

async function feed(producer, waiting) {
  const batch = Math.min(BATCH, Math.floor(waiting / 2));
  for (let fed = 0; ; ) {
    if (fed + batch <= countRuns(process.env.BENCH_FOLDER)) {
      await producer.many(range(fed, batch), 0);
      fed += batch;
    } else {
      await sleep(FEED_MILLISECONDS);
    }
  }
}

async function work(connect, url, settings) {
  const folder = process.env.BENCH_FOLDER;
  const file = (name) => path.join(folder, `${process.pid}.${name}`);
  const keepsRuns = Boolean(process.env.BENCH_KEEPS_RUNS);
  const runs = [];
  let count = 0;
  const ran = (number) => {
    count += 1;
    if (keepsRuns) runs.push(`${process.hrtime.bigint()} ${number}\n`);
  };
  const start = await connect(url, settings, ran);
  fs.writeFileSync(file("ready"), "");
  while (!fs.existsSync(path.join(folder, "go"))) await sleep(1);
  await start();
  const told = fs.openSync(file("count"), "w");
  while (!fs.existsSync(path.join(folder, "stop"))) {
    fs.writeSync(told, String(count).padStart(12), 0);
    await sleep(TELL_MILLISECONDS);
  }
  fs.writeFileSync(file("runs.part"), runs.join(""));
  fs.renameSync(file("runs.part"), file("runs"));
}

// A program has prepare(url, keys), open(url) that gives { one, many, close }, and
// connect(url, settings, ran) that gives what begins to work: connecting is no part of the time.
export async function run(program) {
  const [command, url, first, second] = process.argv.slice(2);
  if (command === "prepare") return program.prepare(url, Number(first));
  if (command === "work") return work(program.connect, url, JSON.parse(first));
  const producer = await program.open(url);
  if (command === "fill") await fill(producer, Number(first), Number(second));
  else if (command === "submit") await submit(producer, Number(first), second);
  else if (command === "trickle") await trickle(producer, Number(first));
  else if (command === "feed") await feed(producer, Number(first));
  else throw new Error(`not a command of a peer's program: ${command}`);
  await producer.close();
}
