// Runs an agent with OpenAI's Agents SDK, which sends the items of earlier responses back. One of them is a program that failed.
import assert from "node:assert/strict";
import { Agent, OpenAIProvider, Runner } from "@openai/agents";

const { PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID } = process.env;
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
console.log(JSON.stringify({ status: call.status, answer: second.finalOutput }));
