// Creates, reads, changes and deletes each kind of resource of an organization with the client.
import assert from "node:assert/strict";
import { clientOf } from "./features.mjs";
import { NotFoundError, Parley } from "parley-sdk";

const client = new Parley();
const mark = `resources-${process.pid}-${Date.now()}`;
const ids = async (list) => {
  const all = [];
  for await (const { id } of list) all.push(id);
  return all;
};

const agent = await client.agents.create({
  name: mark, systemPrompt: "Answer.", allowedCallers: ["user", "system"], tools: { codeExecution: { enabled: true } },
});
const agentId = agent.id;

const program = "Run this:\n```python\nopen('made.txt', 'w').write('made')\n```";

const image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="; // a PNG with one pixel

// talks sends messages with attached files, and continues their session.
async function talks() {
  const note = await client.files.upload({ file: Buffer.from("The canteen opens at noon."), name: "note.txt" });
  const attachments = [{ fileId: note.id }, { data: image, mediaType: "image/png", name: "dot.png" }];
  const seen = await client.chat({ agentId, sessionId: `${mark}-talks`, message: "Which image and file are attached?", attachments }).orThrow();
  assert.match(seen.message, /image\/png/);
  assert.match(seen.message, /note\.txt/);
  assert.deepEqual(seen.attachments.map(({ name }) => name), ["note.txt", "dot.png"]);
  await client.chat({ agentId, sessionId: `${mark}-talks`, message: "My code word is heron." }).orThrow();
  assert.match((await client.chat({ agentId, sessionId: `${mark}-talks`, message: "What is my code word?" }).orThrow()).message, /heron/);
  assert.doesNotMatch((await client.chat({ agentId, message: "What is my code word?" }).orThrow()).message, /heron/);
}

async function runs() {
  const run = await client.chat({ agentId, sessionId: mark, message: program }).orThrow();
  const [file] = run.toolCalls[0].output.files;
  assert.equal(await (await client.files.download(file.id)).text(), "made");
  const uploaded = await client.files.upload({ file: Buffer.from("# Notes"), name: "notes.md" });
  assert.equal(uploaded.mimeType, "text/markdown");
  const asks = await client.chat({
    agentId, sessionId: `${mark}-tools`, message: "Call weather with city: Bern",
    tools: [{ name: "weather", inputSchema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } }],
  });
  assert.equal(asks.requiredAction.kind, "client_tools");
  await client.runs.submitToolResults(asks.id, asks.requiredAction.calls.map(({ toolCallId }) => ({ toolCallId, output: { degrees: 7 } })));
  assert.match((await client.runs.wait(asks.id)).message, /7/);
  assert.ok((await client.runs.timeline(run.id)).spans.length > 1);
  await assert.rejects(client.sources.get(`src_${"0".repeat(64)}`), NotFoundError);
  assert.deepEqual((await client.sessions.get(mark, { agentId, limit: 5 })).messages.map(({ role }) => role), ["user", "assistant"]);
  assert.ok((await client.sessions.list({ limit: 5 })).data.length > 0);
  assert.deepEqual(await client.sessions.delete(mark, { agentId }), { id: mark, deleted: true });
  await assert.rejects(client.sessions.get(mark, { agentId }), NotFoundError);
  await client.automations.run({ target: agentId, message: "hello", automationId: mark }).orThrow();
  assert.equal((await client.automations.get(mark)).agentId, agentId);
  assert.ok((await ids(client.automations.list())).includes(mark));
}

async function knowledge() {
  const text = `# ${mark}\n\nTickets are counted.`;
  const { id } = await client.knowledge.upload({ name: `${mark}.md`, content: text });
  await client.knowledge.wait(id);
  assert.equal(await (await client.knowledge.download(id)).text(), text);
  await assert.rejects(client.knowledge.page(id, 1), { code: "not_found", message: /has no pages/ });
  assert.match((await client.knowledge.passages(id, 0)).passages[0].text, /counted/);
  assert.deepEqual((await client.knowledge.update(id, { metadata: { team: mark } })).metadata, { team: mark });
  await client.knowledge.update(id, { file: new Blob([`# ${mark}\n\nTickets are weighed.`]), name: `${mark}.md` });
  await client.knowledge.wait(id);
  assert.equal((await client.knowledge.retry(id)).id, id);
  await client.knowledge.wait(id);
  assert.match((await client.knowledge.passages(id, 0)).passages[0].text, /weighed/);
  await client.knowledge.delete(id);
}

async function hooks() {
  const hook = await client.hooks.create({ name: mark, agentId, source: "github", messageTemplate: "An issue was {{action}}." });
  assert.equal((await client.hooks.get(hook.id)).name, mark);
  assert.ok((await ids(client.hooks.list())).includes(hook.id));
  assert.equal((await client.hooks.update(hook.id, { messageTemplate: "It was {{action}}." })).messageTemplate, "It was {{action}}.");
  assert.notEqual((await client.hooks.rotateSecret(hook.id, { keepSeconds: 60 })).secret, hook.secret);
  const taken = await client.hooks.test(hook.id, { event: "issues", payload: { action: "opened" } });
  assert.equal((await client.hooks.getDelivery(hook.id, taken.deliveryId)).status, "accepted");
  const again = await client.hooks.redeliver(hook.id, taken.deliveryId);
  assert.deepEqual(await ids(client.hooks.listDeliveries({ hookId: hook.id, limit: 1 })), [again.deliveryId, taken.deliveryId]);
  assert.equal((await client.hooks.delete(hook.id)).deleted, true);
}

async function notifications() {
  const endpoint = await client.notifications.create({ url: process.env.LEDGER, events: ["run.failed"], agentId });
  assert.equal((await client.notifications.get(endpoint.id)).secret, "***");
  assert.ok((await ids(client.notifications.list())).includes(endpoint.id));
  assert.equal((await client.notifications.update(endpoint.id, { description: mark })).description, mark);
  assert.notEqual((await client.notifications.rotateSecret(endpoint.id)).secret, endpoint.secret);
  const message = await client.notifications.test(endpoint.id);
  assert.equal((await client.notifications.getMessage(message.id)).payload.type, "ping");
  assert.deepEqual(await ids(client.notifications.listMessages({ endpointId: endpoint.id })), [message.id]);
  assert.equal((await client.notifications.resend(message.id)).id, message.id);
  assert.equal((await client.notifications.delete(endpoint.id)).deleted, true);
}

async function organization() {
  const made = await client.keys.create({ name: mark, scope: "organization" });
  assert.equal((await new Parley({ apiKey: made.key }).keys.get(made.id)).name, mark);
  const next = await client.keys.rotate(made.id, { overlapSeconds: 0 });
  assert.ok((await ids(client.keys.list({ limit: 100 }))).includes(next.id));
  assert.deepEqual(await client.keys.delete(next.id), { id: next.id, deleted: true });
  const budget = await client.budgets.create({ scope: "agent", subjectId: agentId, metric: "tokens", period: "month", limit: 1_000_000_000 });
  assert.equal((await client.budgets.update(budget.id, { limit: 2_000_000_000 })).limit, 2_000_000_000);
  assert.equal((await client.budgets.get(budget.id)).subjectId, agentId);
  assert.ok((await ids(client.budgets.list())).includes(budget.id));
  assert.equal((await client.budgets.delete(budget.id)).deleted, true);
  assert.equal((await client.usage.get({ days: 2, agentId })).interval, "hour");
  assert.ok((await client.usage.limits()).rates.length > 0);
}

async function imports() {
  const document = {
    openapi: "3.1.0", info: { title: "Tickets", version: "1" }, servers: [{ url: "https://tickets.example.com/v1" }],
    paths: { "/tickets": { get: { operationId: "listTickets", summary: "Lists tickets", responses: { 200: { description: "The tickets" } } } } },
  };
  const checked = await client.agents.check(agentId);
  assert.ok(checked.checks.length > 0);
  assert.deepEqual((await client.agents.get(agentId)).lastCheck, checked);
  const preview = { systemPrompt: "You help {{input.customer}}.", input: { customer: "Ada" } };
  assert.deepEqual(await client.agents.preview(agentId, preview), { systemPrompt: "You help Ada." });
  assert.deepEqual((await client.agents.importEndpoints(agentId, { document })).imported, ["listTickets"]);
  assert.equal((await client.templates.get("tpl_support")).id, "tpl_support");
}

await Promise.all([talks(), runs(), knowledge(), hooks(), notifications(), organization()]);
await imports();
await client.agents.delete(agentId);
clientOf("`parley-sdk`, TypeScript").works("history", "tools", "images");
console.log("done");
