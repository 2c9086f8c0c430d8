// Reads streams that a proxy interrupts repeatedly, and compares them with the expected text and
// with an uninterrupted stream.
import { clientOf } from "./features.mjs";
import assert from "node:assert/strict";
import { Parley } from "parley-sdk";

const direct = new Parley();
const odd = ["", " 😀", " e\u0301", "\r\n", " \\u0000"];
const words = Array.from({ length: 120 }, (_, i) => `wörd-${i}${odd[i % odd.length]}`);
const message = `${process.env.PREFIX} ${words.join(" ")} end`;

const read = async (stream) => {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
};
const textOf = (events) => events.map((event) => (event.event === "message.delta" ? event.data.text : "")).join("");
const order = (id) => id.split(".").map(Number);

async function cutTenTimes(baseUrl, target) {
  const stream = new Parley({ baseUrl }).chat.stream({ ...target, message });
  const events = await read(stream);
  const run = events.at(-1).data.run;
  assert.equal(run.status, "completed");
  assert.equal(run.message, `echo: ${message}`);
  assert.equal(textOf(events), run.message);
  for (let i = 1; i < events.length; i++) {
    const [[attempt, number], [attemptBefore, numberBefore]] = [order(events[i].id), order(events[i - 1].id)];
    assert.ok(attempt > attemptBefore || (attempt === attemptBefore && number > numberBefore), `${events[i - 1].id}, ${events[i].id}`);
  }
  assert.deepEqual(await read(direct.runs.stream(run.id)), events);
  return run.id;
}

async function textCutTenTimes(baseUrl, runId) {
  let text = "";
  for await (const piece of new Parley({ baseUrl }).runs.stream(runId).text()) text += piece;
  assert.equal(text, `echo: ${message}`);
}

async function visitorCutTwice(baseUrl) {
  const stream = new Parley({ baseUrl, demo: true }).chat.stream({ templateId: "tpl_support", message: "What can you do for me?" });
  const events = await read(stream);
  assert.equal(textOf(events), (await stream.finalRun().orThrow()).message);
}

const [live, again, visitor] = JSON.parse(process.env.DOORS);
const runId = await cutTenTimes(live, { agentId: process.env.STUB_ID });
await textCutTenTimes(again, runId);
await visitorCutTwice(visitor);
console.log("done");
clientOf("`parley-sdk`, TypeScript").works("resume");
