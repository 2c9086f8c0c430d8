import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import * as sdk from "parley-sdk";
import { all, broken, client, completed, events, guards, json, pauses, problem, run } from "./service.mjs";

const page = (status) => new Response("<html>", { status, headers: { "Content-Type": "text/html" } });
const agent = { name: "A", systemPrompt: "B" };

test("retries: which requests, how often, and when", async (t) => {
  const made = pauses(t);
  const rows = [
    { what: "a connection that broke", answer: broken(), requests: 3, error: sdk.ConnectionError },
    { what: "408 of a proxy", answer: page(408), requests: 3, error: sdk.BadRequestError },
    { what: "retryable 409", answer: problem(409, "version_conflict", true), requests: 3, error: sdk.ConflictError },
    { what: "409 that is not retryable", answer: problem(409, "version_conflict", false), requests: 1, error: sdk.ConflictError },
    { what: "429", answer: problem(429, "rate_limited", true, { "Retry-After": "7" }), requests: 3, error: sdk.RateLimitError, min: 7_000, max: 7_500 },
    { what: "429 with Retry-After of an hour", answer: problem(429, "budget_exceeded", true, { "Retry-After": "3600" }), requests: 1, error: sdk.RateLimitError },
    { what: "503", answer: problem(503, "overloaded", true, { "Retry-After": "1" }), requests: 3, error: sdk.ServerError, min: 1_000, max: 1_500 },
    { what: "503 until a date", answer: () => problem(503, "unavailable", true, { "Retry-After": new Date(Date.now() + 20_000).toUTCString() }), requests: 3, error: sdk.ServerError, min: 18_000, max: 20_500 },
    { what: "503 until whenever", answer: problem(503, "unavailable", true, { "Retry-After": "soon" }), requests: 3, error: sdk.ServerError, min: 250, max: 1_000 },
    { what: "500", answer: problem(500, "internal", false), requests: 1, error: sdk.ServerError },
    { what: "502 of a proxy", answer: page(502), requests: 3, error: sdk.ServerError, min: 250, max: 1_000 },
    { what: "500 of a proxy", answer: page(500), requests: 1, error: sdk.ServerError },
    { what: "400", answer: problem(400, "invalid_request", false), requests: 1, error: sdk.BadRequestError },
    { what: "401", answer: problem(401, "unauthenticated", false), requests: 1, error: sdk.AuthenticationError },
    { what: "403", answer: problem(403, "permission_denied", false), requests: 1, error: sdk.PermissionDeniedError },
    { what: "404", answer: problem(404, "not_found", false), requests: 1, error: sdk.NotFoundError },
    { what: "410", answer: problem(410, "erased", false), requests: 1, error: sdk.NotFoundError },
    { what: "413", answer: problem(413, "payload_too_large", false), requests: 1, error: sdk.BadRequestError },
    { what: "412", answer: problem(412, "precondition_failed", false), requests: 1, error: sdk.ConflictError },
    { what: "422", answer: problem(422, "idempotency_key_reused", false), requests: 1, error: sdk.ConflictError },
    { what: "a redirect", answer: new Response(null, { status: 307, headers: { Location: "http://elsewhere/" } }), requests: 1, error: sdk.APIError },
  ];
  for (const { what, answer, requests, error, min = 0, max = Infinity } of rows) {
    made.length = 0;
    const { parley, asked } = client([answer]);
    const thrown = await parley.chat({ agentId: "ag_1", message: "hi" }).catch((reason) => reason);
    assert.equal(thrown.constructor, error, what);
    assert.equal(thrown.name, error.name, what);
    assert.ok(thrown instanceof sdk.ParleyError, what);
    assert.equal(asked.length, requests, what);
    assert.equal(made.length, requests - 1, what);
    assert.ok(made.every((ms) => ms >= min && ms <= max), `${what}: ${made}`);
    assert.equal(new Set(asked.map((request) => request.headers["Idempotency-Key"])).size, 1, what);
    assert.deepEqual(asked.at(-1).body, asked[0].body, what);
  }
});

test("pauses grow and have jitter", async (t) => {
  const made = pauses(t);
  for (let i = 0; i < 20; i++) await client([broken()], { maxRetries: 7 }).parley.runs.get("run_1").catch(() => {});
  for (let i = 0; i < made.length; i++) {
    const whole = Math.min(500 * 2 ** (i % 7), 8_000);
    assert.ok(made[i] >= whole / 2 && made[i] <= whole, `${i % 7}: ${made[i]}`);
  }
  assert.ok(new Set(made).size > made.length / 2);
});

test("an error contains the service's problem", async () => {
  const { parley } = client([problem(404, "not_found", false)]);
  await assert.rejects(parley.agents.get("ag_1"), (error) => {
    assert.deepEqual([error.status, error.code, error.requestId, error.retryable, error.errors, error.retryAfter], [404, "not_found", "R1", false, [], null]);
    assert.equal(error.message, "404 not_found: it is not_found (request R1)");
    assert.equal(error.problem.instance, "/api");
    return true;
  });
  const { parley: proxied } = client([page(404)]);
  await assert.rejects(proxied.agents.get("ag_1"), { name: "NotFoundError", status: 404, code: null, problem: null, requestId: null });
  const { parley: marked } = client([new Response("away", { status: 404, headers: { "X-Request-Id": "R2" } })]);
  await assert.rejects(marked.agents.get("ag_1"), { requestId: "R2" });
  const { parley: elsewhere } = client([page(200)]);
  await assert.rejects(elsewhere.agents.get("ag_1"), { name: "ParleyError", message: /not JSON; check baseUrl/ });
});

test("the client and the call configure retries", async (t) => {
  pauses(t);
  for (const [ofClient, ofCall, requests] of [[undefined, undefined, 3], [0, undefined, 1], [5, undefined, 6], [5, 1, 2], [0, 1, 2]]) {
    const { parley, asked } = client([broken()], { maxRetries: ofClient });
    await assert.rejects(parley.agents.list({}, { maxRetries: ofCall }), sdk.ConnectionError);
    assert.equal(asked.length, requests);
  }
});

test("a request that is not repeatable is sent again only if it had no effect", async (t) => {
  pauses(t);
  for (const [answer, requests] of [
    [broken(), 1], [broken("ECONNREFUSED"), 3], [broken("ENOTFOUND"), 3], [page(502), 1], [page(503), 1], [page(429), 3],
    [problem(503, "unavailable", true, { "Retry-After": "1" }), 3],
  ]) {
    const { parley, asked } = client([answer]);
    await assert.rejects(parley.agents.create(agent));
    assert.equal(asked.length, requests);
  }
});

test("a deletion whose response was lost counts as done", async (t) => {
  pauses(t);
  const gone = problem(404, "not_found", false);
  for (const [answers, found] of [
    [[broken(), gone], { id: "x", deleted: true }], [[broken(), json({ id: "x", deleted: true })], { id: "x", deleted: true }],
    [[gone], sdk.NotFoundError], [[problem(503, "unavailable", true), gone], sdk.NotFoundError],
  ]) {
    for (const part of ["agents", "knowledge"]) {
      const deletion = client(answers).parley[part].delete("x");
      if (typeof found === "function") await assert.rejects(deletion, found);
      else assert.deepEqual(await deletion, found);
    }
  }
});

test("all requests of a call have the same key", async () => {
  const { parley, asked } = client([json(run())]);
  await parley.chat({ agentId: "ag_1", message: "hi" });
  await parley.chat({ agentId: "ag_1", message: "hi" });
  await parley.automations.run({ target: "ag_1", message: "hi" });
  await parley.automations.run({ target: "ag_1", message: "hi", idempotencyKey: "mine", input: { host: "db1" } });
  await parley.chat({ agentId: "ag_1", message: "hi", idempotencyKey: "mïne" });
  const keys = asked.map(({ headers, body }) => headers["Idempotency-Key"] ?? body.idempotencyKey);
  assert.equal(new Set(keys).size, 5);
  assert.match(keys[0], /^[0-9a-f]{32}$/);
  assert.deepEqual(asked[3].body, { target: "ag_1", input: { host: "db1", message: "hi" }, idempotencyKey: "mine" });
  assert.equal(Buffer.from(keys[4], "latin1").toString(), "mïne");
  const sessions = [0, 1, 4].map((i) => asked[i].body.sessionId);
  assert.deepEqual(sessions, [`key-${keys[0]}`, `key-${keys[1]}`, "key-mïne"]);
  await assert.rejects(parley.chat({ agentId: "ag_1", message: "hi", idempotencyKey: "a\nb" }), { name: "ParleyError", message: "Idempotency-Key contains a line break" });
});

test("the same message with the same key is the same request in any process", async () => {
  const { parley, asked } = client([json(run()), json(run()), events(completed("1.1", "hello")), json(run())]);
  const message = { agentId: "ag_1", message: "hi", idempotencyKey: "k2" };
  await parley.chat(message);
  await parley.chat(message);
  await parley.chat.stream(message).finalRun();
  const wanted = { sessionId: "key-k2", message: "hi" };
  assert.deepEqual(asked.map(({ body }) => body), [wanted, wanted, { ...wanted, stream: true }]);
  const long = { ...message, idempotencyKey: "😀".repeat(124) };
  await parley.chat(long);
  assert.equal([...asked.at(-1).body.sessionId].length, 128);
  const longer = { ...message, idempotencyKey: "k".repeat(125) };
  await assert.rejects(parley.chat(longer), { name: "ParleyError", message: "sessionId is required with an idempotencyKey of more than 124 characters" });
  await parley.chat({ ...longer, sessionId: "s" });
  assert.equal(asked.at(-1).body.sessionId, "s");
});

test("missing arguments are reported before anything is sent", async () => {
  const { parley, asked } = client([json({ data: [], hasMore: false, nextCursor: null })]);
  const { agents, automations, chat, knowledge, runs } = parley;
  const byId = [
    ...["get", "update", "delete"].map((name) => [agents, name]), ...["get", "wait", "cancel", "act", "submitToolResults"].map((name) => [runs, name]),
    ...["get", "wait", "delete"].map((name) => [knowledge, name]),
  ];
  for (const [id, shown] of [[undefined, "undefined"], ["", '""'], [null, "null"], [7, "7"]]) {
    const error = { name: "ParleyError", message: `id must be a non-empty string, not ${shown}` };
    for (const [part, name] of byId) await assert.rejects(part[name](id, {}), error, name);
    assert.throws(() => runs.stream(id), error);
    await assert.rejects(automations.run({ target: id, message: "x" }), error);
  }
  const rows = [
    [() => chat(), "pass { agentId, message } or { templateId, message }"],
    [() => chat({ message: "x" }), "pass exactly one of agentId and templateId"],
    [() => chat({ agentId: "", message: "x" }), "pass exactly one of agentId and templateId"],
    [() => chat({ agentId: "ag_1", templateId: "tpl_1", message: "x" }), "pass exactly one of agentId and templateId"],
    [async () => chat.stream("hi"), "pass { agentId, message } or { templateId, message }"],
    [() => automations.run(), "pass { target, message } or { target, input }"],
    [() => automations.run({ target: "ag_1", message: "a", input: { message: "b" } }), "message and input.message differ; pass only one of them"],
    [() => knowledge.upload("a.md"), "pass { file, name }, { name, content } or { url }"],
    [() => knowledge.upload({ file: "a.md", name: "a.md" }), "file must be a Blob, a File or bytes; in Node use await openAsBlob(path)"],
    [() => knowledge.search(), "search requires a question"],
  ];
  for (const [call, message] of rows) await assert.rejects(call(), { name: "ParleyError", message });
  assert.equal(asked.length, 0);
});

test("the requests that are sent", async () => {
  const { parley, asked } = client([json(run())], { organizationId: "org_1" });
  await parley.chat({ templateId: "tpl_1", message: "hi", sessionId: "s", wait: false });
  await parley.automations.run({ target: "ag_1", input: { message: "hi", host: "db1" }, automationId: "nächtlich", triggerType: "schedule", ttlOverride: 60, sessionId: "s" });
  await parley.runs.act("run_1", "approve", "call_1");
  await parley.knowledge.search("a b", { documentIds: ["doc_1", "doc_2"], metadata: { team: "x" }, limit: 3 });
  const sent = asked.map(({ method, path }) => `${method} ${path}`);
  assert.deepEqual(sent, [
    "POST /base/api/agents?action=chat&template=tpl_1", "POST /base/api/internal/run-automation",
    "POST /base/api/runs?id=run_1&action=approve&toolCallId=call_1",
    "GET /base/api/knowledge?query=a+b&documentId=doc_1&documentId=doc_2&metadata=team%3Ax&limit=3",
  ]);
  assert.deepEqual(asked[0].body, { sessionId: "s", message: "hi" });
  assert.deepEqual({ ...asked[1].body, idempotencyKey: "" }, { target: "ag_1", input: { message: "hi", host: "db1" }, ttlOverride: 60, sessionId: "s", idempotencyKey: "" });
  assert.equal(asked[0].headers.Prefer, "respond-async");
  assert.equal(asked[1].headers.Prefer, "wait=55");
  assert.equal(Buffer.from(asked[1].headers["x-automation-id"], "latin1").toString(), "nächtlich");
  assert.equal(asked[1].headers["x-trigger-type"], "schedule");
  for (const { headers, redirect } of asked) {
    assert.equal(headers["x-api-key"], "ak_test");
    assert.equal(headers["x-organization-id"], "org_1");
    assert.equal(redirect, "manual");
  }
});

test("credentials", (t) => {
  const set = (name, value) => {
    const before = process.env[name];
    t.after(() => (before === undefined ? delete process.env[name] : (process.env[name] = before)));
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  };
  const sent = async (options) => {
    const { parley, asked } = client([json({ data: [], hasMore: false, nextCursor: null })], options);
    await parley.templates.list();
    return asked[0].headers;
  };
  return (async () => {
    set("PARLEY_API_KEY", " ak_env\n");
    set("PARLEY_ORGANIZATION_ID", "org_env");
    assert.deepEqual(await sent({ apiKey: undefined }), { "x-api-key": "ak_env", "x-organization-id": "org_env" });
    assert.deepEqual(await sent({ apiKey: "ps_1", organizationId: "org_2" }), { Authorization: "Bearer ps_1", "x-organization-id": "org_2" });
    assert.equal((await sent({ apiKey: "\tak_1 \n" }))["x-api-key"], "ak_1");
    assert.deepEqual(await sent({ apiKey: undefined, demo: true }), { "x-tenant-id": "tenant_demo" });
    assert.throws(() => new sdk.Parley({ apiKey: "ak_1", demo: true }), sdk.ParleyError);
    set("PARLEY_API_KEY", " ");
    assert.throws(() => new sdk.Parley(), { name: "ParleyError", message: /PARLEY_API_KEY/ });
    assert.throws(() => new sdk.Parley({ apiKey: "ak_secret\nx" }), (error) => !error.message.includes("secret"));
    assert.throws(() => new sdk.Parley({ apiKey: " " }), { name: "ParleyError", message: "apiKey is blank" });
    for (const baseUrl of ["nowhere", "", "localhost:8611", "ftp://service", "http://"]) {
      assert.throws(() => new sdk.Parley({ apiKey: "ak_1", baseUrl }), { name: "ParleyError", message: `baseUrl must be an http or https URL, not ${baseUrl}` });
    }
    assert.ok(!JSON.stringify(new sdk.Parley({ apiKey: "ak_secret" })).includes("secret"));
  })();
});

test("a request that times out is sent again", async (t) => {
  const made = pauses(t);
  const hangs = ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError"))));
  const { parley, asked } = client([hangs]);
  await assert.rejects(parley.agents.get("ag_1", { timeout: 40 }), (error) => error instanceof sdk.TimeoutError && error instanceof sdk.ConnectionError);
  assert.equal(asked.length, 3);
  assert.equal(made.filter((ms) => ms === 40).length, 3);
  const { parley: once, asked: first } = client([hangs, json(agent)]);
  assert.deepEqual(await once.agents.get("ag_1", { timeout: 40 }), agent);
  assert.equal(first.length, 2);
});

test("an abort ends a call in any state", async (t) => {
  const hangs = ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const reason = new Error("enough");
  const before = AbortSignal.abort(reason);
  const { parley, asked } = client([json(agent)]);
  await assert.rejects(parley.agents.get("ag_1", { signal: before }), reason);
  assert.equal(asked.length, 0);
  for (const answers of [[hangs], [problem(503, "unavailable", true, { "Retry-After": "50" })]]) {
    const controller = new AbortController();
    const { parley, asked } = client(answers);
    const call = parley.agents.get("ag_1", { signal: controller.signal, maxRetries: answers[0] === hangs ? 0 : 2 });
    setTimeout(() => controller.abort(reason), 5);
    await assert.rejects(call, reason);
    assert.equal(asked.length, 1);
    assert.equal(getEventListeners(controller.signal, "abort").length, 0);
  }
  const { parley: fine } = client([json(agent)]);
  const { signal } = new AbortController();
  await fine.agents.get("ag_1", { signal });
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

test("aborting a wait identifies the run", async () => {
  const reason = new Error("enough");
  const accepted = json(run({ status: "queued" }), 202);
  const key = /^[0-9a-f]{32}$/;
  const chat = (p, options) => p.chat({ agentId: "ag_1", message: "hi" }, options);
  const trigger = (p, options) => p.automations.run({ target: "ag_1", message: "hi", idempotencyKey: "k" }, options);
  const rows = [
    { call: chat, known: true, key, prefers: ["respond-async", undefined] },
    { call: trigger, known: true, key: /^k$/, prefers: ["respond-async", undefined] },
    { call: chat, known: false, key, prefers: ["respond-async"] },
    { call: trigger, known: false, key: /^k$/, prefers: ["respond-async"] },
    { call: (p, options) => p.runs.wait("run_1", options), known: true, key: null, answers: [], prefers: [undefined] },
    { call: chat, known: false, key, prefers: ["wait=55"], options: { apiKey: "wt_1" } },
    { call: chat, known: true, key, prefers: ["respond-async", undefined], pauses: true },
  ];
  for (const { call, known, key, prefers, answers = known ? [accepted] : [], options, pauses } of rows) {
    const controller = new AbortController();
    const hangs = ({ signal }) => new Promise((_, reject) => (signal.addEventListener("abort", () => reject(signal.reason)), controller.abort(reason)));
    const acceptThenAbort = () => (setImmediate(() => controller.abort(reason)), accepted);
    const { parley, asked } = client([...answers, pauses ? acceptThenAbort : hangs], options);
    await assert.rejects(call(parley, { signal: controller.signal }), (error) => {
      assert.ok(error instanceof sdk.WaitEndedError && !(error instanceof sdk.ConnectionError), error);
      assert.deepEqual([error.name, error.cause, error.runId], ["WaitEndedError", reason, known ? "run_1" : null]);
      if (key) assert.match(error.idempotencyKey, key);
      else assert.equal(error.idempotencyKey, null);
      assert.ok(error.message.includes(error.runId ?? error.idempotencyKey), error.message);
      return true;
    });
    assert.deepEqual(asked.map(({ headers }) => headers.Prefer), prefers);
    assert.equal(getEventListeners(controller.signal, "abort").length, 0);
  }
  // No request was sent, so the error contains no run id.
  const { parley, asked } = client([accepted]);
  await assert.rejects(chat(parley, { signal: AbortSignal.abort(reason) }), reason);
  assert.equal(asked.length, 0);
});

test("waiting for a run", async (t) => {
  pauses(t);
  const running = json(run({ status: "running", message: null }), 202);
  const cases = [
    [(p) => p.chat({ agentId: "ag_1", message: "hi" }), "GET /base/api/runs?id=run_1&wait=55"],
    [(p) => p.automations.run({ target: "ag_1", message: "hi" }), "GET /base/api/runs?id=run_1&wait=55"],
    [(p) => p.runs.wait("run_1"), "GET /base/api/runs?id=run_1&wait=55"],
  ];
  for (const [call, poll] of cases) {
    const { parley, asked } = client([running, json(run({ status: "queued" })), json(run())]);
    assert.equal((await call(parley)).status, "completed");
    assert.deepEqual(asked.slice(1).map(({ method, path }) => `${method} ${path}`), [poll, poll]);
  }
  // Visitors may not read runs, so the client waits by sending the message again.
  for (const options of [{ apiKey: undefined, demo: true }, { apiKey: "wt_1" }]) {
    const { parley, asked } = client([running, json(run())], options);
    await parley.chat({ templateId: "tpl_1", message: "hi" });
    assert.deepEqual(asked[1].body, asked[0].body);
    assert.deepEqual(asked[1].headers, asked[0].headers);
  }
  const { parley, asked } = client([running]);
  assert.equal((await parley.automations.run({ target: "ag_1", message: "hi", wait: false })).status, "running");
  assert.equal(asked.length, 1);
  const { parley: asks } = client([json(run({ status: "requires_action" }), 202)]);
  assert.equal((await asks.chat({ agentId: "ag_1", message: "hi" })).status, "requires_action");
  for (const [timeout, wait] of [[2_000, 1], [20_000, 15], [guards.request, 55], [600_000, 55]]) {
    const { parley, asked } = client([json(run())]);
    await parley.runs.wait("run_1", { timeout });
    assert.equal(asked[0].query.wait, String(wait));
  }
});

test("a failed run is returned, unless orThrow is used", async () => {
  const failed = json(run({ status: "failed", message: null, error: { code: "turn_limit", message: "too many calls" } }));
  const { parley } = client([failed]);
  assert.equal((await parley.chat({ agentId: "ag_1", message: "hi" })).status, "failed");
  await assert.rejects(parley.runs.get("run_1").orThrow(), (error) => {
    assert.equal(error.message, "run run_1 is failed: too many calls (turn_limit)");
    return error instanceof sdk.RunFailedError && error.run.error.code === "turn_limit";
  });
  const { parley: fine } = client([json(run())]);
  assert.equal((await fine.runs.wait("run_1").orThrow()).message, "hello");
  assert.throws(() => sdk.orThrow(run({ status: "requires_action" })), sdk.RunFailedError);
});

test("lists", async () => {
  const pages = [json({ data: [1, 2], hasMore: true, nextCursor: "c" }), json({ data: [], hasMore: true, nextCursor: "d" }), json({ data: [3], hasMore: false, nextCursor: null })];
  const { parley, asked } = client(pages);
  assert.deepEqual(await all(parley.runs.list({ status: "failed", limit: 2 })), [1, 2, 3]);
  assert.deepEqual(asked.map(({ query }) => query), [{ status: "failed", limit: "2" }, { status: "failed", limit: "2", cursor: "c" }, { status: "failed", limit: "2", cursor: "d" }]);
  const { parley: again, asked: some } = client(pages);
  const first = await again.agents.list();
  assert.deepEqual([first.data, first.hasMore, first.nextCursor], [[1, 2], true, "c"]);
  const second = await first.nextPage();
  assert.equal((await second.nextPage()).nextCursor, null);
  assert.equal(await (await client([pages[2]]).parley.agents.list()).nextPage(), null);
  assert.equal(some.length, 3);
  for await (const one of again.agents.list()) if (one) break;
});

test("files", async () => {
  const { parley, asked } = client([json({ id: "doc_1" }, 202)]);
  await parley.knowledge.upload({ file: new TextEncoder().encode("text"), name: "a.txt", metadata: { team: "x" } });
  await parley.knowledge.upload({ file: new File(["text"], "b.txt") });
  await parley.knowledge.upload({ name: "c.md", content: "text" });
  const [bytes, file, text] = asked;
  assert.equal(bytes.body.get("file").name, "a.txt");
  assert.equal(await bytes.body.get("file").text(), "text");
  assert.equal(bytes.body.get("metadata"), '{"team":"x"}');
  assert.equal(bytes.headers["Content-Type"], undefined);
  assert.equal(file.body.get("file").name, "b.txt");
  assert.deepEqual(text.body, { name: "c.md", content: "text" });
  await assert.rejects(parley.knowledge.upload({ file: new Blob(["x"]) }), sdk.ParleyError);
});

test("waiting for a document", async (t) => {
  const made = pauses(t);
  const at = (status) => json({ id: "doc_1", status });
  const { parley } = client([at("queued"), at("processing"), at("ready")]);
  assert.equal((await parley.knowledge.wait("doc_1")).status, "ready");
  assert.deepEqual(made, [100, 200]);
  assert.equal((await client([at("failed")]).parley.knowledge.wait("doc_1")).status, "failed");
});

test("a page of another origin gets an explanation", async (t) => {
  const made = pauses(t);
  const page = (origin) => Object.assign(globalThis, { document: {}, location: { origin } });
  t.after(() => { delete globalThis.document; delete globalThis.location; });
  const withheld = new TypeError("Failed to fetch");

  page("https://app.example");
  const { parley, asked } = client([withheld]);
  const error = await parley.agents.list().catch((reason) => reason);
  assert.ok(error instanceof sdk.CrossOriginError && error instanceof sdk.ConnectionError, error);
  assert.match(error.message, /https:\/\/app\.example .*http:\/\/service\/base.*CORS.*widget token/);
  assert.deepEqual([error.name, error.cause, asked.length, made.length], ["CrossOriginError", withheld, 1, 0]);

  // After the service has responded once, a failure is reported as a broken connection.
  const { parley: reached } = client([json({ data: [], hasMore: false, nextCursor: null }), withheld]);
  await reached.agents.list();
  await assert.rejects(reached.agents.list(), { name: "ConnectionError" });

  page("http://service");
  await assert.rejects(client([withheld]).parley.agents.list(), { name: "ConnectionError" });
});

test("functions make the calls of a run's tools until it has finished", async () => {
  const calls = (...names) => ({ kind: "client_tools", calls: names.map((name, i) => ({ toolCallId: `call_${i}`, name, input: { n: i } })), expiresAt: "2030-01-01T00:00:00.000Z" });
  const waiting = run({ status: "requires_action", message: null, requiredAction: calls("add", "fail", "none") });
  const { parley, asked } = client([json(run({ status: "queued" })), json(run({ message: "done" }))]);
  const ended = await parley.runs.runTools(waiting, { add: ({ n }) => n + 1, fail: () => { throw new Error("no"); } });
  assert.equal(ended.message, "done");
  assert.equal(asked[0].path, "/base/api/runs?id=run_1&action=tool-results");
  assert.deepEqual(asked[0].body, { results: [
    { toolCallId: "call_0", output: 1 }, { toolCallId: "call_1", output: "no", isError: true },
    { toolCallId: "call_2", output: "no function for the tool none", isError: true },
  ] });
  assert.match(asked[1].path, /wait=/);
});
