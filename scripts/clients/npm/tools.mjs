// Lets an agent call functions of the client through several npm packages. The agent also has its
// own tool, which adds bookings to a ledger; the Go test counts the bookings. Each part throws an
// error if a result is wrong.
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool as langchainTool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { Agent, OpenAIProvider, Runner, tool as agentsTool } from "@openai/agents";
import { generateText, jsonSchema, stepCountIs, streamText, tool as aiTool } from "ai";
import OpenAI from "openai";
import { clientOf } from "./features.mjs";

const { PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID } = process.env;
const baseURL = `${PARLEY_BASE_URL}/v1`;
const openai = new OpenAI({ baseURL, apiKey: PARLEY_API_KEY });

const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const description = "The weather now.";
const weather = ({ city }) => ({ city, degrees: 7 });
const ask = (bill) => `Call weather with city: Bern. Then call bookBill with bill: ${bill}`;
const chatTools = [{ type: "function", function: { name: "weather", description, parameters } }];
const responseTools = [{ type: "function", name: "weather", description, parameters, strict: false }];

const parts = {
  // The agent first calls its own tool. With the result of the client's function, the model also
  // receives this earlier call again.
  async completions() {
    const messages = [{ role: "user", content: ask("TOOLS-1") }];
    const first = await openai.chat.completions.create({ model: AGENT_ID, messages, tools: chatTools });
    const [{ message, finish_reason }] = first.choices;
    assert.equal(finish_reason, "tool_calls");
    assert.equal(message.content, null);
    assert.deepEqual(message.tool_calls.map((c) => [c.type, c.function.name, JSON.parse(c.function.arguments)]), [["function", "weather", { city: "Bern" }]]);
    messages.push(message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: JSON.stringify(weather({ city: "Bern" })) });
    const last = await openai.chat.completions.create({ model: AGENT_ID, messages, tools: chatTools });
    assert.equal(last.choices[0].finish_reason, "stop");
    assert.match(last.choices[0].message.content, /"degrees":7/);
    assert.match(last.choices[0].message.content, /bookBill answered/);

    messages.push(last.choices[0].message, { role: "user", content: "Thanks!" });
    const after = await openai.chat.completions.create({ model: AGENT_ID, messages, tools: chatTools });
    assert.equal(after.choices[0].finish_reason, "stop");
  },

  async streamedCompletions() {
    const runner = openai.chat.completions.runTools({
      model: AGENT_ID, stream: true, messages: [{ role: "user", content: ask("TOOLS-2") }],
      tools: [{ type: "function", function: { name: "weather", description, parameters, parse: JSON.parse, function: weather } }],
    });
    assert.match(await runner.finalContent(), /"degrees":7/);
  },

  async choices() {
    const messages = [{ role: "user", content: "Bern" }];
    const choice = { type: "function", function: { name: "weather" } };
    const forced = await openai.chat.completions.create({ model: AGENT_ID, messages, tools: chatTools, tool_choice: choice });
    assert.deepEqual(JSON.parse(forced.choices[0].message.tool_calls[0].function.arguments), { city: "Bern" });
    const none = await openai.chat.completions.create({
      model: AGENT_ID, messages: [{ role: "user", content: "Call weather with city: Bern" }], tools: chatTools, tool_choice: "none",
    });
    assert.equal(none.choices[0].finish_reason, "stop");
    const wrong = openai.chat.completions.create({ model: AGENT_ID, messages, tools: [{ type: "function", function: { name: "bookBill" } }] });
    await assert.rejects(wrong, (error) => error instanceof OpenAI.BadRequestError && error.param === "tools[0].function.name");
  },

  async responses() {
    const first = await openai.responses.create({ model: AGENT_ID, input: ask("TOOLS-3"), tools: responseTools });
    const call = first.output.find((item) => item.type === "function_call");
    assert.deepEqual([first.status, call.name, JSON.parse(call.arguments)], ["completed", "weather", { city: "Bern" }]);
    const output = { type: "function_call_output", call_id: call.call_id, output: JSON.stringify(weather({ city: "Bern" })) };
    const last = await openai.responses.create({ model: AGENT_ID, previous_response_id: first.id, input: [output], tools: responseTools });
    assert.match(last.output_text, /"degrees":7/);
    assert.match(last.output_text, /bookBill answered/);
    await assert.rejects(openai.responses.create({ model: AGENT_ID, previous_response_id: first.id, input: "And now?" }), /is missing/);
  },

  async streamedResponses() {
    const stream = openai.responses.stream({ model: AGENT_ID, input: ask("TOOLS-4"), tools: responseTools });
    const kinds = [];
    for await (const event of stream) kinds.push(event.type);
    const call = (await stream.finalResponse()).output.find((item) => item.type === "function_call");
    assert.ok(kinds.includes("response.function_call_arguments.done"), kinds.join(" "));
    assert.deepEqual(JSON.parse(call.arguments), { city: "Bern" });
    clientOf("`openai`, JavaScript").works("tools");
  },

  async aiSDK() {
    const provider = createOpenAI({ baseURL, apiKey: PARLEY_API_KEY });
    const tools = { weather: aiTool({ description, inputSchema: jsonSchema(parameters), execute: weather }) };
    for (const [model, bill] of [[provider.responses(AGENT_ID), "TOOLS-5"], [provider.chat(AGENT_ID), "TOOLS-6"]]) {
      const { text, steps } = await generateText({ model, tools, prompt: ask(bill), stopWhen: stepCountIs(3) });
      assert.match(text, /"degrees":7/);
      assert.equal(steps.length, 2);
    }
    const streamed = streamText({ model: provider.responses(AGENT_ID), tools, prompt: ask("TOOLS-7"), stopWhen: stepCountIs(3) });
    assert.match(await streamed.text, /"degrees":7/);
    clientOf("`@ai-sdk/openai`").works("tools");
  },

  async langchain() {
    const made = langchainTool((input) => JSON.stringify(weather(input)), { name: "weather", description, schema: parameters });
    for (const [useResponsesApi, bill] of [[false, "TOOLS-8"], [true, "TOOLS-9"]]) {
      const model = new ChatOpenAI({ model: AGENT_ID, apiKey: PARLEY_API_KEY, configuration: { baseURL }, useResponsesApi }).bindTools([made]);
      const messages = [new HumanMessage(ask(bill))];
      const first = await model.invoke(messages);
      assert.deepEqual(first.tool_calls.map((c) => [c.name, c.args]), [["weather", { city: "Bern" }]]);
      messages.push(first, new ToolMessage({ tool_call_id: first.tool_calls[0].id, content: await made.invoke(first.tool_calls[0].args) }));
      assert.match((await model.invoke(messages)).text, /"degrees":7/);
    }
    clientOf("`@langchain/openai`").works("tools");
  },

  async agents() {
    const modelProvider = new OpenAIProvider({ baseURL, apiKey: PARLEY_API_KEY, useResponses: true });
    const made = agentsTool({ name: "weather", description, parameters, strict: false, execute: weather });
    const agent = new Agent({ name: "Parley", model: AGENT_ID, instructions: "Answer briefly.", tools: [made] });
    const result = await new Runner({ modelProvider, tracingDisabled: true }).run(agent, ask("TOOLS-10"));
    assert.match(result.finalOutput, /"degrees":7/);
    clientOf("`@openai/agents`").works("tools");
  },
};

const failures = [];
for (const [name, part] of Object.entries(parts)) {
  await part().catch((error) => failures.push(`${name}: ${error.stack}`));
}
assert.deepEqual(failures, []);
console.log(JSON.stringify({ parts: Object.keys(parts).length }));
