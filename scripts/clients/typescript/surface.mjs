// Calls every method of the client against the service.
import assert from "node:assert/strict";
import { clientOf } from "./features.mjs";
import { openAsBlob } from "node:fs";
import { writeFile } from "node:fs/promises";
import {
  AuthenticationError, BadRequestError, ConflictError, NotFoundError, Parley, PermissionDeniedError, RunFailedError, StreamRestartedError,
  WaitEndedError,
} from "parley-sdk";

const client = new Parley();
const mark = `surface-${process.pid}-${Date.now()}`;

async function agents() {
  const made = await client.agents.create({
    name: mark, systemPrompt: "Answer.", model: "offline/echo", allowedCallers: ["user", "system"],
  });
  assert.deepEqual(await client.agents.get(made.id), made);
  const changed = await client.agents.update(made.id, { version: made.version, description: "changed" });
  assert.equal(changed.description, "changed");
  await assert.rejects(client.agents.update(made.id, { version: made.version, description: "late" }), (error) => {
    return error instanceof ConflictError && error.code === "version_conflict" && !error.retryable;
  });
  const fromTemplate = await client.agents.create({ templateId: "tpl_researcher", name: mark });
  const listed = [];
  for await (const agent of client.agents.list({ q: mark, limit: 1 })) listed.push(agent.id);
  assert.deepEqual(listed, [fromTemplate.id, made.id]);
  const page = await client.agents.list({ q: mark, limit: 1 });
  assert.equal(page.hasMore, true);
  assert.deepEqual((await page.nextPage()).data, [changed]);
  assert.deepEqual(await client.agents.delete(fromTemplate.id), { id: fromTemplate.id, deleted: true });
  await assert.rejects(client.agents.delete(fromTemplate.id), NotFoundError);
  const templates = [];
  for await (const template of client.templates.list({ limit: 2 })) templates.push(template.id);
  assert.ok(templates.length > 2 && templates.includes("tpl_support"));
  return made.id;
}

async function chat(agentId) {
  const key = `${mark}-ключ`;
  const first = await client.chat({ agentId, message: "hällo 😀", sessionId: mark, idempotencyKey: key }).orThrow();
  assert.deepEqual([first.message, first.sessionId, first.trigger.type, first.idempotencyKey], ["echo: hällo 😀", mark, "chat", key]);
  assert.deepEqual(await client.chat({ agentId, message: "hällo 😀", sessionId: mark, idempotencyKey: key }), first);
  await assert.rejects(client.chat({ agentId, message: "other", sessionId: mark, idempotencyKey: key }), (error) => {
    return error instanceof ConflictError && error.status === 422 && error.code === "idempotency_key_reused";
  });
  const question = { agentId, message: "once", idempotencyKey: `${key}-2` };
  const asked = await client.chat(question).orThrow();
  assert.equal(asked.sessionId, `key-${question.idempotencyKey}`);
  assert.deepEqual(await new Parley().chat(question), asked);
  assert.equal((await client.chat.stream(question).finalRun()).id, asked.id);
  await assert.rejects(client.chat({ ...question, message: "other" }), ConflictError);
  const template = await client.chat({ templateId: "tpl_support", message: "hello" });
  assert.deepEqual([template.status, template.templateId, template.agentId], ["completed", "tpl_support", null]);
}

async function streams(agentId) {
  const stream = client.chat.stream({ agentId, message: "hällo 😀" });
  assert.equal(stream.runId, undefined);
  const events = [];
  for await (const event of stream) events.push(event);
  assert.deepEqual([events[0].event, events[1].event, events.at(-1).event], ["run.created", "run.started", "run.completed"]);
  const run = await stream.finalRun().orThrow();
  assert.deepEqual(await client.runs.get(run.id), run);
  let text = "";
  for await (const piece of client.runs.stream(run.id).text()) text += piece;
  assert.equal(text, run.message);
  const rest = [];
  for await (const event of client.runs.stream(run.id, { lastEventId: events[1].id })) rest.push(event);
  assert.deepEqual(rest, events.slice(2));
  await assert.rejects(client.runs.stream("run_none").finalRun(), NotFoundError);
  await assert.rejects(client.chat.stream({ agentId: "ag_none", message: "x" }).finalRun(), NotFoundError);
  assert.equal(new StreamRestartedError("x").name, "StreamRestartedError");
}

async function automations(agentId) {
  const trigger = {
    target: agentId, input: { message: "hi", host: "db1" }, automationId: `nächtlich ${mark}`, triggerType: "schedule",
    idempotencyKey: `${mark}-ü`, ttlOverride: 172_800,
  };
  const run = await client.automations.run(trigger).orThrow();
  assert.deepEqual(run.trigger, { type: "schedule", automationId: trigger.automationId });
  assert.equal(Date.parse(run.expiresAt) - Date.parse(run.finishedAt), 172_800_000);
  assert.deepEqual(await client.automations.run(trigger), run);
  const accepted = await client.automations.run({ target: agentId, message: "later", sessionId: mark, wait: false });
  assert.equal((await client.runs.wait(accepted.id)).message, "echo: later");
  assert.equal((await client.runs.cancel(accepted.id)).status, "completed");
  const listed = [];
  for await (const one of client.runs.list({ automationId: trigger.automationId, status: "completed", agentId })) listed.push(one.id);
  assert.deepEqual(listed, [run.id]);
  const inSession = await client.runs.list({ sessionId: mark });
  assert.equal(inSession.data.length, 2);
  const userOnly = await client.agents.create({ name: mark, systemPrompt: "x" });
  await assert.rejects(client.automations.run({ target: userOnly.id, message: "x" }), (error) => {
    return error instanceof PermissionDeniedError && error.code === "caller_not_allowed" && /^\S+$/.test(error.requestId);
  });
}

async function decisions() {
  const agent = process.env.ASKS_ID;
  let run = await client.chat({ agentId: agent, message: process.env.ASKS_MESSAGE });
  assert.equal(run.status, "requires_action");
  await assert.rejects(client.runs.get(run.id).orThrow(), RunFailedError);
  const { toolCallId } = run.requiredAction;
  await client.runs.act(run.id, "deny", toolCallId);
  await assert.rejects(client.runs.act(run.id, "approve", toolCallId), ConflictError);
  run = await client.runs.wait(run.id);
  assert.equal(run.status, "completed");
  const waiting = await client.chat({ agentId: agent, message: process.env.ASKS_MESSAGE });
  assert.equal((await client.runs.cancel(waiting.id)).status, "cancelled");
  await assert.rejects(client.runs.wait(waiting.id).orThrow(), (error) => {
    return error instanceof RunFailedError && error.run.status === "cancelled";
  });
  const failing = await client.chat({ agentId: process.env.STUB_ID, message: "fault context: x" });
  assert.deepEqual([failing.status, failing.error.code], ["failed", "context_too_long"]);
}

async function waits() {
  // With this timeout, the client lets the service wait for at most one second, so a slow answer
  // needs more than one request.
  let requests = 0;
  const counted = new Parley({ timeout: 6_000, fetch: (url, init) => (requests++, fetch(url, init)) });
  const run = await counted.chat({ agentId: process.env.STUB_ID, message: "sleep 2500ms: hello" }).orThrow();
  assert.ok(run.message.includes("hello") && requests >= 2, `${requests} requests`);
}

async function aborts() {
  const controller = new AbortController();
  const watched = new Parley({ fetch: (url, init) => {
    if (init.method === "GET") controller.abort(); // the client sends a GET request once the service has accepted the run
    return fetch(url, init);
  } });
  const question = { agentId: process.env.STUB_ID, message: "sleep 1500ms: hello" };
  const ended = await watched.chat(question, { signal: controller.signal }).catch((error) => error);
  assert.ok(ended instanceof WaitEndedError && ended.cause === controller.signal.reason, ended);
  const run = await client.runs.wait(ended.runId).orThrow();
  assert.deepEqual(await client.chat({ ...question, idempotencyKey: ended.idempotencyKey }), run);
}

async function knowledge() {
  const words = `Releases ${mark} are signed with the key of the release team.`;
  await writeFile(`${mark}.txt`, words);
  const added = await client.knowledge.upload({ file: await openAsBlob(`${mark}.txt`), name: `${mark} ü.txt`, metadata: { team: mark } });
  assert.deepEqual([added.name, added.metadata], [`${mark} ü.txt`, { team: mark }]);
  const ready = await client.knowledge.wait(added.id);
  assert.equal(ready.status, "ready");
  assert.deepEqual(await client.knowledge.get(added.id), ready);
  const bytes = await client.knowledge.upload({ file: Buffer.from(words), name: "again.txt" });
  assert.equal(bytes.id, added.id); // the same bytes yield the same document
  const other = await client.knowledge.upload({ name: `${mark}.md`, content: `# ${mark}\n\nTickets are counted daily.` });
  await client.knowledge.wait(other.id);
  const where = { metadata: { team: mark }, documentIds: [added.id, other.id], limit: 5 };
  const found = await client.knowledge.search("who signs releases", where);
  assert.ok(found.data.length > 0 && found.data.every((passage) => passage.documentId === added.id));
  const asking = await client.agents.create({
    name: `${mark} asks`, systemPrompt: "Answer.", tools: { knowledge: { enabled: true, documentIds: [added.id] } },
  });
  const { citations } = await client.chat({ agentId: asking.id, message: "Which key are releases signed with?" }).orThrow();
  assert.deepEqual([citations[0].type, citations[0].documentId], ["document", added.id]);
  await client.agents.delete(asking.id);
  const listed = [];
  for await (const one of client.knowledge.list({ q: mark, status: "ready", limit: 1 })) listed.push(one.id);
  assert.deepEqual(listed.sort(), [added.id, other.id].sort());
  assert.deepEqual(await client.knowledge.delete(added.id), { id: added.id, deleted: true });
  await assert.rejects(client.knowledge.get(added.id), NotFoundError);
  await client.knowledge.delete(other.id);
}

async function structured() {
  const agent = await client.agents.create({ name: `${mark}-data`, systemPrompt: "Answer.", model: "offline", allowedCallers: ["user", "system"] });
  const schema = { type: "object", properties: { watts: { type: "integer" } }, required: ["watts"] };
  const { data, run } = await client.chat.parse({ agentId: agent.id, message: "a lamp of 7 watts", schema });
  assert.deepEqual([data, run.output.data, run.message], [{ watts: 7 }, { watts: 7 }, '{"watts":7}']);
  // library acts like a schema library's object: it can write its JSON schema, and parse the data.
  const library = { toJSONSchema: () => schema, parse: ({ watts }) => ({ watts: BigInt(watts) }) };
  assert.deepEqual((await client.automations.parse({ target: agent.id, message: "9 watts", schema: library })).data, { watts: 9n });
  const standard = { "~standard": { jsonSchema: { output: ({ target }) => (assert.equal(target, "draft-2020-12"), schema) } } };
  assert.deepEqual((await client.chat.parse({ agentId: agent.id, message: "11 watts", schema: standard })).data, { watts: 11 });
  await assert.rejects(client.chat.parse({ agentId: agent.id, message: "m", schema: { _def: {} } }), /toJSONSchema/);
  await client.agents.update(agent.id, { model: "offline/echo" });
  await assert.rejects(client.chat.parse({ agentId: agent.id, message: "7", schema }), (error) => {
    return error instanceof RunFailedError && error.run.error.code === "output_invalid" && error.run.error.errors.length > 0;
  });
  let shown = "";
  for await (const event of client.chat.stream({ agentId: agent.id, message: "7", output: { schema } })) shown += event.event === "message.delta" ? "x" : "";
  assert.equal(shown, "");
  await client.agents.delete(agent.id);
}

async function refusals() {
  await assert.rejects(client.agents.create({ name: "", systemPrompt: "" }), (error) => {
    assert.ok(error instanceof BadRequestError && /^\S+$/.test(error.requestId) && error.message.includes(error.requestId));
    assert.deepEqual(error.errors.map(({ field }) => field).sort(), ["name", "systemPrompt"]);
    return true;
  });
  const stranger = new Parley({ apiKey: "ak_wrong" });
  await assert.rejects(stranger.agents.list(), (error) => error instanceof AuthenticationError && error.code === "unauthenticated");
  await assert.rejects(new Parley({ organizationId: "org_01k9z8w4q6e3v8t2m5n7p1r4s9" }).agents.list(), PermissionDeniedError);
  await assert.rejects(new Parley({ demo: true }).agents.list(), (error) => {
    return error instanceof PermissionDeniedError && error.code === "demo_restricted";
  });
}

async function demo() {
  const visitor = new Parley({ demo: true });
  assert.equal((await visitor.chat({ templateId: "tpl_support", message: "hello" })).status, "completed");
  const stream = visitor.chat.stream({ templateId: "tpl_support", message: "hello" });
  for await (const event of stream) if (event.event === "message.delta") break;
  assert.equal((await stream.finalRun()).status, "completed"); // finalRun continues where the iteration stopped
}

const agentId = await agents();
await Promise.all([chat(agentId), streams(agentId), decisions(), waits(), aborts(), knowledge(), refusals(), demo()]);
await automations(agentId);
await structured();
await client.agents.delete(agentId);
clientOf("`parley-sdk`, TypeScript").works("answers", "streams", "stop", "citations", "approvals", "errors", "structured");
console.log("done");
