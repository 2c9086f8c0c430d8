import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import * as sdk from "parley-sdk";
import { all, begun, broken, client, completed, delta, events, frame, guards, json, pauses, problem } from "./service.mjs";

const message = { agentId: "ag_1", message: "hi" };
const eventNames = (got) => got.map(({ id, event }) => `${id} ${event}`);
const whole = begun + delta("1.2", "Wörter ") + delta("1.3", "😀") + completed("1.4", "Wörter 😀");
const wholeNames = ["0.1 run.created", "1.1 run.started", "1.2 message.delta", "1.3 message.delta", "1.4 run.completed"];

/** Splits bytes into chunks of a size. */
function pieces(text, size) {
  const bytes = Buffer.from(text);
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => new Uint8Array(bytes.subarray(i * size, (i + 1) * size)));
}

test("events are complete for any chunks of bytes", async () => {
  const ends = (end) => whole.replaceAll("\n", end);
  const noise = ": ping\n\nretry: 10\n\nid\nunknown: x\nnonsense\n\ndata\n\nid: 9.9\n\nid: 9.9\0\n\n\uFEFF: x\n\n";
  for (const text of [whole, ends("\r\n"), ends("\r"), noise + whole, "\uFEFF" + whole, whole.replaceAll(": ", ":")]) {
    for (const size of [1, 2, 3, 7, 100_000]) {
      const { parley } = client([events(...pieces(text, size))]);
      const stream = parley.chat.stream(message);
      const got = await all(stream);
      assert.deepEqual(eventNames(got), wholeNames, JSON.stringify(text.slice(0, 20)) + size);
      assert.equal(got[3].data.text, "😀");
      assert.deepEqual([stream.runId, stream.lastEventId, (await stream.finalRun()).message], ["run_1", "1.4", "Wörter 😀"]);
    }
  }
  const lines = 'id: 1.2\nevent: message.delta\ndata: {"runId":"run_1",\ndata: "text":"two lines"}\n\n';
  const [first] = await all(client([events(lines, completed("1.3", "two lines"))]).parley.chat.stream(message));
  assert.equal(first.data.text, "two lines");
});

test("a stream that is resumed after its last event is empty and has its run", async () => {
  const nothing = () => new Response(null, { status: 204 });
  const { parley, asked } = client([nothing, nothing, json({ id: "run_1", status: "completed", message: "done" })]);
  assert.deepEqual(await all(parley.runs.stream("run_1", { lastEventId: "1.9" })), []);
  assert.equal((await parley.runs.stream("run_1", { lastEventId: "1.9" }).finalRun()).message, "done");
  assert.deepEqual(asked.map(({ path }) => path), ["/base/api/runs?id=run_1&stream=1", "/base/api/runs?id=run_1&stream=1", "/base/api/runs?id=run_1"]);
});

test("a large event in many chunks takes linear time", async () => {
  const large = "x".repeat(8_000_000);
  const { parley } = client([events(...pieces(begun + delta("1.2", large) + completed("1.3", large), 1_000))]);
  const begin = process.cpuUsage(); // counts only the CPU time of this process
  assert.equal((await all(parley.chat.stream(message).text())).join(""), large);
  const { user, system } = process.cpuUsage(begin);
  assert.ok(user + system < 10_000_000, `${user + system} µs`);
});

test("a stream that is cut at any byte resumes", async (t) => {
  pauses(t);
  const bytes = Buffer.from(whole);
  const lasts = new Set();
  for (let cut = 0; cut < bytes.length - 1; cut++) {
    const cutOff = events(new Uint8Array(bytes.subarray(0, cut)), ...(cut % 2 ? [broken()] : []));
    const rest = (request) => {
      const last = request.headers["Last-Event-ID"];
      lasts.add(`${request.method} ${last}`);
      const frames = whole.split(/(?<=\n\n)/);
      return events(frames.slice(frames.findIndex((frame) => frame.startsWith(`id: ${last}\n`)) + 1).join(""))();
    };
    const { parley, asked } = client([cutOff, rest]);
    assert.deepEqual(eventNames(await all(parley.chat.stream(message))), wholeNames, `cut at ${cut}`);
    assert.equal(asked.length, 2);
    if (asked[1].method === "POST") assert.deepEqual([asked[1].body, asked[1].headers], [asked[0].body, asked[0].headers]);
    else assert.equal(asked[1].path, "/base/api/runs?id=run_1&stream=1");
    assert.equal(asked[0].headers.Accept, "text/event-stream");
  }
  assert.deepEqual([...lasts].sort(), ["GET 0.1", "GET 1.1", "GET 1.2", "GET 1.3", "POST undefined"]);
});

test("visitors resume by repeating their message", async (t) => {
  pauses(t);
  for (const options of [{ apiKey: undefined, demo: true }, { apiKey: "wt_1" }]) {
    const { parley, asked } = client([events(begun + delta("1.2", "a")), events(delta("1.3", "b") + completed("1.4", "ab"))], options);
    assert.deepEqual(await all(parley.chat.stream({ templateId: "tpl_1", message: "hi" }).text()), ["a", "b"]);
    assert.deepEqual(asked[1].body, asked[0].body);
    assert.equal(asked[0].body.stream, true);
    assert.equal(asked[1].headers["Last-Event-ID"], "1.2");
    assert.equal(asked[1].headers["Idempotency-Key"], asked[0].headers["Idempotency-Key"]);
  }
});

test("no event is returned twice, and none of a void attempt after its successor", async () => {
  const again = frame("3.1", "run.restarted", { afterStep: 0 });
  const { parley } = client([events(begun + begun + delta("1.2", "a") + delta("1.2", "a") + again + delta("1.3", "void") + delta("3.2", "b") + completed("3.10", "b"))]);
  const got = await all(parley.chat.stream(message));
  assert.deepEqual(eventNames(got), ["0.1 run.created", "1.1 run.started", "1.2 message.delta", "3.1 run.restarted", "3.2 message.delta", "3.10 run.completed"]);
});

test("text of a lost attempt is not repeated", async () => {
  const again = frame("2.1", "run.restarted", { afterStep: 0 });
  const text = (...frames) => all(client([events(begun + frames.join(""))]).parley.chat.stream(message).text());
  assert.deepEqual(await text(delta("1.2", "one two"), again, delta("2.2", "one"), delta("2.3", " two th"), delta("2.4", "ree"), completed("2.5", "one two three")), ["one two", " th", "ree"]);
  assert.deepEqual(await text(again, delta("2.2", "one"), completed("2.3", "one")), ["one"]);
  await assert.rejects(text(delta("1.2", "one two"), again, delta("2.2", "one three")), sdk.StreamRestartedError);
  await assert.rejects(text(delta("1.2", "one two"), again, delta("2.2", "one"), completed("2.3", "one")), sdk.StreamRestartedError);
  const { parley } = client([events(begun + delta("1.2", "a") + again + delta("2.2", "b")), events(delta("2.3", "c") + completed("2.4", "bc"))]);
  const stream = parley.chat.stream(message);
  await assert.rejects(all(stream.text()), { name: "StreamRestartedError" });
  assert.equal((await stream.finalRun()).message, "bc");
});

test("the result of a run is an event, not an error", async () => {
  for (const status of ["failed", "cancelled", "timed_out"]) {
    const { parley } = client([events(begun + delta("1.2", "a") + frame("1.3", `run.${status}`, { run: { id: "run_1", status, message: null, error: null } }))]);
    const stream = parley.chat.stream(message);
    assert.deepEqual(await all(stream.text()), ["a"]);
    assert.equal((await stream.finalRun()).status, status);
    await assert.rejects(stream.finalRun().orThrow(), sdk.RunFailedError);
    assert.deepEqual(await all(stream), []);
  }
});

test("it gives up if no more events arrive", async (t) => {
  const made = pauses(t);
  const none = client([events(begun), events()]);
  await assert.rejects(all(none.parley.chat.stream(message)), sdk.ConnectionError);
  assert.equal(none.asked.length, 1 + 2);
  const away = client([events(begun), broken()]);
  await assert.rejects(all(away.parley.chat.stream(message)), sdk.ConnectionError);
  assert.equal(away.asked.length, 1 + 2);
  made.length = 0;
  const patient = client([events(begun), broken("ECONNREFUSED")], { maxRetries: 4 });
  await assert.rejects(all(patient.parley.chat.stream(message)), sdk.ConnectionError);
  assert.equal(patient.asked.length, 1 + 4);
  assert.equal(made.length, 4);
  assert.ok(made.every((ms, i) => ms >= 250 * 2 ** i && ms <= 500 * 2 ** i), `pauses of a stream: ${made}`);
  const once = client([events(begun), broken()], { maxRetries: 0 });
  await assert.rejects(all(once.parley.chat.stream(message)), sdk.ConnectionError);
  assert.equal(once.asked.length, 1);
  const slow = client([events(begun), ...Array.from({ length: 12 }, (_, i) => [events(), events(delta(`1.${i + 2}`, "a"))]).flat(), events(completed("1.20", "a"))]);
  assert.equal((await all(slow.parley.chat.stream(message))).length, 15);
  const revoked = client([events(begun), problem(401, "unauthenticated", false)]);
  await assert.rejects(all(revoked.parley.chat.stream(message)), sdk.AuthenticationError);
  const busy = client([problem(503, "overloaded", true, { "Retry-After": "9" }), events(whole)]);
  made.length = 0;
  assert.deepEqual(eventNames(await all(busy.parley.chat.stream(message))), wholeNames);
  assert.ok(made[0] >= 9_000, made);
  await assert.rejects(all(client([json({})]).parley.chat.stream(message)), { name: "ParleyError", message: /not an event stream/ });
});

test("a stream of a run", async () => {
  const { parley, asked } = client([events(delta("1.3", "😀") + completed("1.4", "Wörter 😀"))]);
  assert.deepEqual(await all(parley.runs.stream("run_1", { lastEventId: "1.2" }).text()), ["😀"]);
  assert.equal(asked[0].headers["Last-Event-ID"], "1.2");
  const later = client([events(begun + frame("1.2", "run.dreamed", { of: "sheep" }) + completed("1.3", ""))]);
  assert.equal((await all(later.parley.runs.stream("run_1")))[2].event, "run.dreamed");
});

/**
 * Starts a server on a real socket. It sends a part of a stream and then nothing. The promise
 * `closed` of a request resolves when the client has disconnected.
 */
async function silent(t, first = begun + delta("1.2", "a")) {
  const requests = [];
  const server = createServer((request, response) => {
    requests.push({ last: request.headers["last-event-id"], closed: once(response, "close") });
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(first);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const parley = new sdk.Parley({ apiKey: "ak_1", baseUrl: `http://127.0.0.1:${server.address().port}` });
  return { parley, requests };
}

test("leaving the loop closes the connection, and reading again continues", { timeout: 30_000 }, async (t) => {
  const { parley, requests } = await silent(t);
  const stream = parley.chat.stream(message);
  for await (const event of stream) if (event.event === "message.delta") break;
  await requests[0].closed;
  for await (const piece of parley.chat.stream(message).text()) if (piece) break;
  await requests[1].closed;
  await assert.rejects(async () => {
    for await (const event of parley.chat.stream(message)) throw new Error(event.id);
  }, { message: "0.1" });
  await requests[2].closed;
  const controller = new AbortController();
  for await (const event of parley.runs.stream("run_1", { lastEventId: "1.1", signal: controller.signal })) if (event.id === "1.2") break;
  await requests[3].closed;
  assert.equal(requests[3].last, "1.1");
});

test("an abort ends a stream", { timeout: 30_000 }, async (t) => {
  const { parley, requests } = await silent(t);
  const controller = new AbortController();
  const got = [];
  await assert.rejects(async () => {
    for await (const event of parley.chat.stream(message, { signal: controller.signal })) {
      if (got.push(event.id) === 3) setImmediate(() => controller.abort(new Error("enough")));
    }
  }, { message: "enough" });
  assert.deepEqual(got, ["0.1", "1.1", "1.2"]);
  await requests[0].closed;
});

test("a stream that falls silent is resumed", { timeout: 30_000 }, async (t) => {
  const real = globalThis.setTimeout;
  t.mock.method(globalThis, "setTimeout", (done, ms, ...of) => real(done, ms === guards.stream ? 30 : ms < 1_000 ? 0 : ms, ...of));
  const { parley, requests } = await silent(t);
  await assert.rejects(all(parley.chat.stream(message)), { name: "TimeoutError", message: "no data from the service for 30000 ms" });
  assert.deepEqual(requests.map(({ last }) => last), [undefined, "1.2", "1.2"]);
  await Promise.all(requests.map(({ closed }) => closed));
});
