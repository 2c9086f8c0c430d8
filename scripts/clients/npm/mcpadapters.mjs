// Calls agents as tools of LangChain, through @langchain/mcp-adapters.
import assert from "node:assert/strict";
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { clientOf } from "./features.mjs";
import { cancelled, headers, image, long, pause, runsOf } from "./runs.mjs";

const { PARLEY_BASE_URL, AGENT_ID, ASKING_ID, FAILING_ID, PARKING_ID, QUESTION } = process.env;
const connect = (credentials, more) =>
  new MultiServerMCPClient({ mcpServers: { parley: { transport: "http", url: `${PARLEY_BASE_URL}/mcp`, headers: credentials } }, ...more });

let key; // Idempotency-Key of the next call
const client = connect(headers, { beforeToolCall: () => (key ? { headers: { ...headers, "Idempotency-Key": key } } : {}) });
const tools = await client.getTools();

// call returns the text of a tool's message, and the structured content of its artifact.
async function call(agent, args, config) {
  const tool = tools.find(({ name }) => name.endsWith("_" + agent.slice(-5)));
  const { content, artifact } = await tool.invoke({ type: "tool_call", id: "call_1", name: tool.name, args }, config);
  return { text: JSON.stringify(content), run: artifact.find(({ type }) => type === "mcp_structured_content").data };
}

key = "adapters-1";
const first = await call(AGENT_ID, { message: "What is 12 * 12?" });
assert.match(first.text, /144/);
assert.equal((await call(AGENT_ID, { message: "What is 12 * 12?" })).run.runId, first.run.runId);
key = undefined;
const { sessionId } = first.run;
const second = await call(AGENT_ID, { message: "What did I ask?", sessionId });
assert.equal(second.run.sessionId, sessionId);
assert.match(second.text, /12 \* 12/);
const seen = await call(AGENT_ID, { message: "Which image is attached?", attachments: [{ data: image, mediaType: "image/png" }] });
assert.match(seen.text, /image\/png/);
const cited = await call(ASKING_ID, { message: QUESTION });
assert.ok(cited.run.citations[0].citedText);

await assert.rejects(call(FAILING_ID, { message: "fault 400: no" }), (error) => error.name === "ToolException" && /model provider rejected/.test(error.message));
await assert.rejects(connect({ "x-api-key": "nonsense" }).getTools(), /Authentication failed.*unauthenticated/s);
await assert.rejects(call(PARKING_ID, { message: 'Use bookBill with {"bill": "ADAPTERS-1"}', sessionId: "adapters-parked" }), /waits for a person/);
const [parked] = await runsOf("adapters-parked");

const abort = new AbortController();
const stopped = call(FAILING_ID, { message: long("adapters"), sessionId: "adapters-stop" }, { signal: abort.signal });
let runs = [];
while ((runs = await runsOf("adapters-stop")).length === 0) await pause(50);
abort.abort();
await assert.rejects(stopped);
assert.ok(await cancelled(runs[0].id) < 4);
await client.close();

const { works, refuses, lacks } = clientOf("`@langchain/mcp-adapters`");
works("answers", "history", "stop", "retries", "citations", "errors", "images");
refuses("approvals");
lacks("streams", "resume", "tools", "structured"); // a tool call returns the whole answer, as text
console.log(JSON.stringify([{ tools: tools.length, runId: first.run.runId, parked: parked.id }]));
