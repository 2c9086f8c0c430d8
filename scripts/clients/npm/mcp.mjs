// Connects MCP's SDK to /mcp, directly and through mcp-remote, the proxy that assistants start.
// Each client lists the agents, calls one with progress, continues the session, cancels a call, and
// causes errors.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { clientOf } from "./features.mjs";
import { cancelled, image, long, pause, runsOf } from "./runs.mjs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport, getDefaultEnvironment } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const { PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID, ASKING_ID, FAILING_ID, PARKING_ID, QUESTION } = process.env;
const url = `${PARLEY_BASE_URL}/mcp`;

async function connected(transport) {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  return client;
}

const connect = (headers) => connected(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));

// proxied starts mcp-remote as docs/mcp.md describes and returns a client connected to it. If
// mcp-remote cannot connect, the error contains what it wrote to stderr.
const folder = await mkdtemp(`${tmpdir()}/mcp-remote-`);
async function proxied(key) {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [fileURLToPath(new URL("node_modules/mcp-remote/dist/proxy.js", import.meta.url)), url, "--header", "x-api-key:${PARLEY_API_KEY}"],
    env: { ...getDefaultEnvironment(), PARLEY_API_KEY: key, MCP_REMOTE_CONFIG_DIR: folder }, stderr: "pipe",
  });
  let said = "";
  transport.stderr.on("data", (chunk) => { said += chunk; });
  return connected(transport).catch((error) => { throw new Error(`${error.message}\n${said}`); });
}

// check runs the checks with a client that is connected directly or through mcp-remote. The
// argument reported is a pattern for the progress messages of a call.
async function check(client, name, reported) {
  const mark = name.replace(/\W+/g, "-"); // part of the client's idempotency key and session ID
  assert.equal(client.getServerVersion().name, "parley");
  assert.match(client.getInstructions(), /sessionId/);

  const { tools } = await client.listTools();
  const toolOf = (id) => tools.find((tool) => tool.name.endsWith("_" + id.slice(-5)));
  const tool = toolOf(AGENT_ID);
  assert.deepEqual(Object.keys(tool.inputSchema.properties).sort(), ["attachments", "message", "sessionId"]);

  const progress = [];
  const first = await client.callTool(
    { name: tool.name, arguments: { message: "What is 12 * 12?" }, _meta: { "parley/idempotencyKey": mark } }, undefined,
    { onprogress: ({ message }) => progress.push(message), resetTimeoutOnProgress: true });
  assert.match(first.content[0].text, /144/);
  assert.equal(first.structuredContent.status, "completed");
  assert.match(progress.join("|"), reported);

  const again = await client.callTool({ name: tool.name, arguments: { message: "What is 12 * 12?" }, _meta: { "parley/idempotencyKey": mark } });
  assert.equal(again.structuredContent.runId, first.structuredContent.runId);

  const second = await client.callTool(
    { name: tool.name, arguments: { message: "What did I ask?", sessionId: first.structuredContent.sessionId } });
  assert.match(second.content[0].text, /12 \* 12/);
  assert.equal(second.structuredContent.sessionId, first.structuredContent.sessionId);
  assert.notEqual(second.structuredContent.runId, first.structuredContent.runId);

  const attachments = [{ data: image, mediaType: "image/png" }];
  const seen = await client.callTool({ name: tool.name, arguments: { message: "Which image is attached?", attachments } });
  assert.match(seen.content[0].text, /image\/png/);

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
  const failed = await client.callTool({ name: toolOf(FAILING_ID).name, arguments: { message: "fault 400: no" } });
  assert.equal(failed.isError, true);
  assert.match(failed.content[0].text, /model provider rejected/);

  const abort = new AbortController();
  const call = client.callTool({ name: toolOf(FAILING_ID).name, arguments: { message: long(mark), sessionId: mark } }, undefined, { signal: abort.signal });
  let runs = [];
  while ((runs = await runsOf(mark)).length === 0) await pause(50);
  abort.abort("enough");
  await assert.rejects(call);
  assert.ok(await cancelled(runs[0].id) < 4);

  const { works, refuses, lacks } = clientOf(`\`${name}\``);
  works("answers", "history", "stop", "retries", "citations", "errors", "images");
  refuses("approvals");
  lacks("streams", "resume", "tools", "structured"); // a tool call returns the whole answer, as text
  await client.close();
  return { tools: tools.length, runId: first.structuredContent.runId, parked: parked.structuredContent.runId };
}

await assert.rejects(connect({}), /api_key_required/);
await assert.rejects(connect({ authorization: "Bearer nonsense" }), /api_key_required|unauthenticated/);
await assert.rejects(proxied("nonsense"), /does not use OAuth.*x-api-key/); // after a 401, mcp-remote tries to register as an OAuth client
const bearer = await connect({ authorization: `Bearer ${PARLEY_API_KEY}` });
assert.ok((await bearer.listTools()).tools.length > 0);
await bearer.close();

const steps = /was accepted.*has started.*codeExecution: running.*codeExecution: completed/;
const results = await Promise.all([
  check(await connect({ "x-api-key": PARLEY_API_KEY }), "@modelcontextprotocol/sdk", steps),
  check(await proxied(PARLEY_API_KEY), "mcp-remote", /^/), // /^/: the SDK may drop progress that arrives with the result
]);
await rm(folder, { recursive: true });
console.log(JSON.stringify(results));
