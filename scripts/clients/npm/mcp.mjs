// Connects MCP's client to /mcp: lists the agents, calls one with progress, continues the session,
// and causes errors.
import assert from "node:assert/strict";
import { clientOf } from "./features.mjs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const { PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID, ASKING_ID, PARKING_ID, QUESTION } = process.env;

async function connect(headers) {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${PARLEY_BASE_URL}/mcp`), { requestInit: { headers } }));
  return client;
}

const client = await connect({ "x-api-key": PARLEY_API_KEY });
assert.equal(client.getServerVersion().name, "parley");
assert.match(client.getInstructions(), /sessionId/);

const { tools } = await client.listTools();
const toolOf = (id) => tools.find((tool) => tool.name.endsWith("_" + id.slice(-5)));
const tool = toolOf(AGENT_ID);
assert.deepEqual(Object.keys(tool.inputSchema.properties), ["message", "sessionId"]);

const progress = [];
const first = await client.callTool(
  { name: tool.name, arguments: { message: "What is 12 * 12?" }, _meta: { "parley/idempotencyKey": "mcp-1" } }, undefined,
  { onprogress: ({ message }) => progress.push(message), resetTimeoutOnProgress: true });
assert.match(first.content[0].text, /144/);
assert.equal(first.structuredContent.status, "completed");
assert.match(progress.join("|"), /was accepted.*has started.*codeExecution: running.*codeExecution: completed/);

const again = await client.callTool({ name: tool.name, arguments: { message: "What is 12 * 12?" }, _meta: { "parley/idempotencyKey": "mcp-1" } });
assert.equal(again.structuredContent.runId, first.structuredContent.runId);

const second = await client.callTool(
  { name: tool.name, arguments: { message: "What did I ask?", sessionId: first.structuredContent.sessionId } });
assert.equal(second.structuredContent.sessionId, first.structuredContent.sessionId);
assert.notEqual(second.structuredContent.runId, first.structuredContent.runId);

const cited = await client.callTool({ name: toolOf(ASKING_ID).name, arguments: { message: QUESTION } });
assert.ok(cited.structuredContent.citations[0].citedText);

const parked = await client.callTool({ name: toolOf(PARKING_ID).name, arguments: { message: "Use bookBill with {\"bill\": \"MCP-1\"}" } });
assert.equal(parked.isError, true);
assert.equal(parked.structuredContent.status, "requires_action");
assert.match(parked.content[0].text, /waits for a person/);

const wrong = await client.callTool({ name: tool.name, arguments: {} });
assert.equal(wrong.isError, true);
assert.match(wrong.content[0].text, /message: is required/);
await assert.rejects(client.callTool({ name: "nobody_00000", arguments: { message: "x" } }), /unknown tool/);

await assert.rejects(connect({}), /api_key_required/);
await assert.rejects(connect({ authorization: "Bearer nonsense" }), /api_key_required|unauthenticated/);
const bearer = await connect({ authorization: `Bearer ${PARLEY_API_KEY}` });
assert.ok((await bearer.listTools()).tools.some(({ name }) => name === tool.name));
await Promise.all([bearer.close(), client.close()]);
const { works, refuses, lacks } = clientOf("`@modelcontextprotocol/sdk`");
works("answers", "history", "retries", "citations", "errors");
refuses("approvals");
lacks("streams", "resume", "tools", "structured"); // a tool call returns the whole answer, as text
console.log(JSON.stringify({ tools: tools.length, runId: first.structuredContent.runId, parked: parked.structuredContent.runId }));
