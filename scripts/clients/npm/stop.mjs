// Stops answers as users of OpenAI's client, the AI SDK, AG-UI and MCP do. It also makes requests
// fail before their responses arrive: those of OpenAI's client, which announces its retries, and of
// the AI SDK's provider, which does not.
import assert from "node:assert/strict";
import { HttpAgent } from "@ag-ui/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { createOpenAI } from "@ai-sdk/openai";
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, generateText } from "ai";
import OpenAI from "openai";
import { clientOf } from "./features.mjs";
import { cancelled, get, headers, long, pause, runsOf, shows, until } from "./runs.mjs";

const { PARLEY_BASE_URL, PARLEY_API_KEY, STUB_ID, LEAVING_URL, RETRIED } = process.env;

// session returns the name of a session that no other run of this script uses.
const session = (name) => `stop-${name}-${STUB_ID}`;

const took = {};
const openai = new OpenAI({ baseURL: `${PARLEY_BASE_URL}/v1`, apiKey: PARLEY_API_KEY });

// This run acts as that of another client with the same API key. None of the following parts may
// cancel this run.
const neighbour = await openai.responses.create({ model: STUB_ID, input: long("neighbour"), stream: true, conversation: session("neighbour") });
const neighbours = (async () => { for await (const event of neighbour) if (event.type === "response.completed") return true; return false; })();

// Background runs, and runs with an idempotency key, continue after their streams have been closed.
const kept = [["background", { background: true }, {}], ["keyed", {}, { headers: { "Idempotency-Key": session("keyed") } }]].map(async ([name, more, options]) => {
  const open = await openai.responses.create({ model: STUB_ID, input: long(name), stream: true, ...more }, options);
  let runId;
  for await (const event of open) {
    runId ??= event.response?.parley.runId;
    if (event.type === "response.output_text.delta") break; // aborts the request
  }
  const run = await get(`/api/runs?id=${runId}&wait=60`);
  assert.equal(run.status, "completed", name);
  assert.match(run.message, /w599$/);
});

// A closed stream of a completion.
const stream = await openai.chat.completions.create(
  { model: STUB_ID, messages: [{ role: "user", content: long("completion") }], stream: true, metadata: { session_id: session("completion") } });
let seen = "";
for await (const chunk of stream) {
  seen += chunk.choices[0]?.delta?.content ?? "";
  if (seen.length > 100) break; // aborts the request
}
took.completion = await cancelled((await runsOf(session("completion")))[0].id);
await shows(STUB_ID, session("completion"), seen);

// responses.cancel cancels a streamed response and a background response.
const background = await openai.responses.create({ model: STUB_ID, input: long("background"), background: true });
assert.equal((await openai.responses.cancel(background.id)).status, "cancelled");
const cancelling = await openai.responses.create({ model: STUB_ID, input: long("cancel"), stream: true, conversation: session("cancel") });
let id, last, said = "";
await assert.rejects((async () => {
  for await (const event of cancelling) {
    last = event;
    id ??= event.response?.id;
    if (event.type === "response.output_text.delta") said += event.delta;
    if (said.length > 100 && !took.cancel) took.cancel = (await openai.responses.cancel(id)).status === "cancelled" ? 1 : 0;
  }
})(), { code: "cancelled" });
assert.deepEqual([last.type, last.response.status], ["response.failed", "cancelled"]);
await shows(STUB_ID, session("cancel"), said.slice(0, 100));

// OpenAI's client times out and retries twice. All three requests attach to one run, and the client
// gets that run's answer.
const impatient = new OpenAI({ baseURL: `${PARLEY_BASE_URL}/v1`, apiKey: PARLEY_API_KEY, timeout: 1_500, maxRetries: 2 });
const late = await impatient.responses.create({ model: STUB_ID, input: "sleep 3s: late", conversation: session("late") });
assert.match(late.output_text, /late/);
assert.equal((await runsOf(session("late"))).length, 1);
const lateChat = await impatient.chat.completions.create(
  { model: STUB_ID, messages: [{ role: "user", content: "sleep 3s: late chat" }], metadata: { session_id: session("late-chat") } });
assert.match(lateChat.choices[0].message.content, /late chat/);
assert.equal((await runsOf(session("late-chat"))).length, 1);

// Equal requests that are not retries start separate runs.
const twin = { model: STUB_ID, input: "sleep 1s: twin" };
const twins = await Promise.all([openai.responses.create(twin), openai.responses.create(twin)]);
assert.notEqual(twins[0].parley.runId, twins[1].parley.runId);

// The AI SDK's provider does not announce that a request is a retry. The service therefore cancels
// the run of the request whose response was lost.
const provider = createOpenAI({ baseURL: `${LEAVING_URL}/v1`, apiKey: PARLEY_API_KEY });
const silent = await generateText({ model: provider.responses(STUB_ID), prompt: RETRIED, providerOptions: { openai: { conversation: session("silent") } } });
assert.equal(silent.text, "echo: " + RETRIED);
const [second, lost, ...others] = await runsOf(session("silent"));
assert.deepEqual([second.status, others], ["completed", []]);
await cancelled(lost.id);

// After a completion's stream has been closed, the session's next message starts immediately.
const left = await openai.chat.completions.create(
  { model: STUB_ID, messages: [{ role: "user", content: long("left") }], stream: true, metadata: { session_id: session("left") } });
let before = "";
for await (const chunk of left) if ((before += chunk.choices[0]?.delta?.content ?? "").length > 100) break;
const following = Date.now();
const followed = await openai.chat.completions.create(
  { model: STUB_ID, messages: [{ role: "user", content: "following" }], metadata: { session_id: session("left") } });
took.following = (Date.now() - following) / 1000;
assert.equal(followed.choices[0].message.content, "echo: following");
assert.equal((await runsOf(session("left")))[1].status, "cancelled");
await shows(STUB_ID, session("left"), before);

// useChat's stop cancels the run. The next message does not wait for the stopped answer.
const chat = new Chat({
  id: session("chat"), transport: new DefaultChatTransport({ api: `${PARLEY_BASE_URL}/api/agents?action=chat&id=${STUB_ID}&format=ai-sdk`, headers }),
});
const textOf = (message) => message?.parts.filter((part) => part.type === "text").map((part) => part.text).join("") ?? "";
const sending = chat.sendMessage({ text: long("chat") });
await until(() => textOf(chat.messages[1]).length > 100);
await chat.stop();
await sending;
const stopped = textOf(chat.messages[1]);
const asked = Date.now();
await chat.sendMessage({ text: "next" });
took.chat = (Date.now() - asked) / 1000;
assert.match(textOf(chat.messages.at(-1)), /next/);
const [, first] = await runsOf(session("chat"));
assert.deepEqual([first.status, first.finishReason], ["cancelled", "cancelled"]);
assert.ok(first.message.startsWith(stopped.slice(0, 100)), first.message);
await shows(STUB_ID, session("chat"), stopped);

// AG-UI's abortRun.
const agent = new HttpAgent({ url: `${PARLEY_BASE_URL}/api/agents?action=chat&id=${STUB_ID}&format=ag-ui`, headers, threadId: session("agui") });
agent.addMessage({ id: "m1", role: "user", content: long("agui") });
let received = "";
const running = agent.runAgent({}, { onTextMessageContentEvent: ({ event }) => { received += event.delta; } }).catch(() => {});
await until(() => received.length > 100);
agent.abortRun();
took.agui = await cancelled((await runsOf(session("agui")))[0].id);
await running;
await shows(STUB_ID, session("agui"), received.slice(0, 100));

// In MCP, a cancellation stops only a call of the client that sends it. Here, another client has
// the same API key and uses the same request IDs.
async function connect() {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${PARLEY_BASE_URL}/mcp`), { requestInit: { headers } }));
  const { tools } = await client.listTools();
  return (sessionId, options) => client.callTool(
    { name: tools.find((tool) => tool.name.endsWith("_" + STUB_ID.slice(-5))).name, arguments: { message: long(sessionId), sessionId } }, undefined, options);
}
const [call, callOther] = [await connect(), await connect()];
const abort = new AbortController();
const other = callOther(session("mcp-other"), { timeout: 120_000 });
const cancelling2 = call(session("mcp"), { signal: abort.signal, timeout: 120_000 });
let mcpRuns = [];
while ((mcpRuns = await runsOf(session("mcp"))).length === 0 || (await runsOf(session("mcp-other"))).length === 0) await pause(50);
abort.abort("enough");
await assert.rejects(cancelling2);
took.mcp = await cancelled(mcpRuns[0].id);
assert.equal((await other).structuredContent.status, "completed");
assert.equal(await neighbours, true, "the neighbour's run was cancelled");
await Promise.all(kept);

for (const client of ["`openai`, JavaScript", "`ai`", "`@ai-sdk/react`", "`@ag-ui/client`", "`@modelcontextprotocol/sdk`"]) clientOf(client).works("stop");
console.log(JSON.stringify(took));
process.exit(0);
