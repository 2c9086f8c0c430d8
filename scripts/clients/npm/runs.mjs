// Functions that read runs and sessions from the service. Scripts that stop answers use them.
import assert from "node:assert/strict";

const { PARLEY_BASE_URL, PARLEY_API_KEY } = process.env;
export const headers = { "x-api-key": PARLEY_API_KEY };
export const get = async (path) => (await fetch(PARLEY_BASE_URL + path, { headers })).json();
export const pause = (ms) => new Promise((done) => setTimeout(done, ms));
export const runsOf = async (sessionId) => (await get(`/api/runs?sessionId=${sessionId}`)).data;

// image is a PNG with one pixel.
export const image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=";

// long returns a message whose answer takes more than ten seconds.
export const long = (name) => `slowly ${name} ` + Array.from({ length: 600 }, (_, n) => `w${n}`).join(" ");

// cancelled waits until the run is cancelled, and returns how many seconds that took.
export async function cancelled(runId) {
  const began = Date.now();
  for (;;) {
    const run = await get(`/api/runs?id=${runId}`);
    if (run.status === "cancelled") return (Date.now() - began) / 1000;
    assert.ok(["queued", "running"].includes(run.status), `${runId} is ${run.status}`);
    assert.ok(Date.now() - began < 20_000, `${runId} was not cancelled`);
    await pause(50);
  }
}

// shows checks that the session contains the part of the answer that the user saw, marked as
// interrupted.
export async function shows(agentId, sessionId, text) {
  const { messages } = await get(`/api/sessions?id=${sessionId}&agentId=${agentId}`);
  assert.equal(messages[1].role, "assistant", JSON.stringify(messages).slice(0, 500));
  assert.equal(messages[1].interrupted, true);
  assert.ok(text.length > 0 && messages[1].content.startsWith(text), `${messages[1].content} does not begin with ${text}`);
  assert.ok(messages[1].content.length < text.length + 2_000, "the session shows more than the user saw");
}

// until waits until a condition holds.
export async function until(holds) {
  const began = Date.now();
  while (!holds()) {
    assert.ok(Date.now() - began < 20_000, "not in time: " + holds);
    await pause(20);
  }
}
