// Runs agents with OpenAI's Agents SDK, which sends the items of earlier responses back to the
// service. Two of these items are failed calls, one of a program and one of an MCP server's tool.
import assert from "node:assert/strict";
import { clientOf } from "./features.mjs";
import { Agent, OpenAIProvider, Runner } from "@openai/agents";
import { get } from "./runs.mjs";

const { PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID, REFUNDS_ID } = process.env;
const modelProvider = new OpenAIProvider({ baseURL: `${PARLEY_BASE_URL}/v1`, apiKey: PARLEY_API_KEY, useResponses: true });
const runner = new Runner({ modelProvider, tracingDisabled: true });
const agent = new Agent({ name: "Parley", model: AGENT_ID, instructions: "Answer briefly." });

const first = await runner.run(agent, "Run this:\n```python\nprint(1 / 0)\n```");
assert.match(first.finalOutput, /division by zero/);
const call = first.history.find((item) => item.type === "hosted_tool_call");
assert.equal(call.name, "code_interpreter_call");
assert.match(JSON.stringify(call.providerData.outputs), /ZeroDivisionError/);

const second = await runner.run(agent, [...first.history, { role: "user", content: "What is 12 * 12?" }]);
assert.match(second.finalOutput, /144/);

const refunds = new Agent({ name: "Refunds", model: REFUNDS_ID, instructions: "Answer briefly." });
const refused = await runner.run(refunds, 'Use shop_refund with {"bill": "R-1"}');
const refund = refused.history.find((item) => item.type === "hosted_tool_call");
assert.deepEqual([refund.providerData.type, refund.providerData.name, refund.providerData.status], ["mcp_call", "shop_refund", "failed"], JSON.stringify(refund));
assert.match(refund.providerData.error, /R-1 is not paid/);
const run = await get(`/api/runs?id=${refused.lastResponseId.replace(/^resp_/, "run_")}`);
assert.deepEqual(run.toolCalls.map(({ name, status }) => [name, status]), [["shop_refund", "failed"]]);
const after = await runner.run(refunds, [...refused.history, { role: "user", content: "What did I ask?" }]);
assert.match(after.finalOutput, /R-1/);
clientOf("`@openai/agents`").works("history");
console.log(JSON.stringify({ status: call.status, answer: second.finalOutput }));
