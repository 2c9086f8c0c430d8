// Lets agents call functions of the client through frameworks. Each framework calls the functions
// in a loop, hands the chat over to another agent, or returns data that matches a schema. Parley's
// agent also has its own tool, which adds bookings to a ledger; the Go test counts the bookings.
import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ChatOpenAI } from "@langchain/openai";
import { openai as llamaOpenAI } from "@llamaindex/openai";
import { agent as llamaAgent } from "@llamaindex/workflow";
import { Agent, OpenAIProvider, Runner, tool as agentsTool } from "@openai/agents";
import { generateText, stepCountIs, streamText, tool as aiTool } from "ai";
import { createAgent, providerStrategy, tool as langchainTool } from "langchain";
import { tool as llamaTool } from "llamaindex";
import { z } from "zod";
import { clientOf } from "./features.mjs";

const { PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID, OFFLINE_ID } = process.env;
const baseURL = `${PARLEY_BASE_URL}/v1`;
const description = "The weather now.";
const City = z.object({ city: z.string() });
const Weather = z.object({ degrees: z.number().int() });
const messages = [
  { role: "user", content: "My code word is heron." }, { role: "assistant", content: "Good." }, { role: "user", content: "What is my code word?" },
];
const ask = (bill) => `Call weather with city: Bern. Then call bookBill with bill: ${bill}`;

// calls counts the calls of the client's function, which no framework may repeat.
let calls = 0;
const weather = ({ city }) => { calls++; return { city, degrees: 7 }; };

const parts = {
  async compatible() {
    const { works } = clientOf("`@ai-sdk/openai-compatible`");
    const model = createOpenAICompatible({ name: "parley", baseURL, apiKey: PARLEY_API_KEY, supportsStructuredOutputs: true });
    const tools = { weather: aiTool({ description, inputSchema: City, execute: weather }) };
    const { text, steps } = await generateText({ model: model(AGENT_ID), tools, prompt: ask("AGENTS-1"), stopWhen: stepCountIs(3) });
    assert.match(text, /"degrees":7/);
    assert.equal(steps.length, 2);
    const streamed = streamText({ model: model(AGENT_ID), tools, prompt: ask("AGENTS-2"), stopWhen: stepCountIs(3) });
    assert.match(await streamed.text, /"degrees":7/);

    assert.match((await generateText({ model: model(OFFLINE_ID), messages })).text, /heron/);
    works("history", "tools");
  },

  async createAgent() {
    const made = langchainTool((input) => JSON.stringify(weather(input)), { name: "weather", description, schema: City });
    const model = new ChatOpenAI({ model: AGENT_ID, apiKey: PARLEY_API_KEY, configuration: { baseURL } });
    const { messages } = await createAgent({ model, tools: [made] }).invoke({ messages: [{ role: "user", content: ask("AGENTS-3") }] });
    assert.deepEqual(messages.map(({ type }) => type), ["human", "ai", "tool", "ai"]);
    assert.match(messages.at(-1).text, /"degrees":7/);
    assert.match(messages.at(-1).text, /bookBill answered/);
  },

  async llamaIndex() {
    const { works } = clientOf("`@llamaindex/openai`");
    const llm = llamaOpenAI({ model: AGENT_ID, apiKey: PARLEY_API_KEY, baseURL });
    const made = llamaTool({ name: "weather", description, parameters: City, execute: (input) => JSON.stringify(weather(input)) });
    const { data } = await llamaAgent({ llm, tools: [made] }).run(ask("AGENTS-4"));
    assert.match(JSON.stringify(data.result), /degrees/);
    assert.match(JSON.stringify(data.result), /bookBill answered/);

    const plain = llamaOpenAI({ model: OFFLINE_ID, apiKey: PARLEY_API_KEY, baseURL });
    assert.match((await plain.chat({ messages })).message.content, /heron/);
    works("history", "tools");
  },

  // The agent first calls its function, and then answers with data made from the function's result.
  async createAgentWithSchema() {
    const made = langchainTool((input) => JSON.stringify(weather(input)), { name: "weather", description, schema: City });
    const model = new ChatOpenAI({ model: OFFLINE_ID, apiKey: PARLEY_API_KEY, configuration: { baseURL }, supportsStrictToolCalling: true });
    const agent = createAgent({ model, tools: [made], responseFormat: providerStrategy(Weather) });
    const { messages, structuredResponse } = await agent.invoke({ messages: [{ role: "user", content: "Call weather with city: Bern" }] });
    assert.deepEqual(messages.map(({ type }) => type), ["human", "ai", "tool", "ai"]);
    assert.deepEqual(structuredResponse, { degrees: 7 });
  },

  // The agent "Forecaster" returns data that it makes from a function's result. The agent
  // "Reception" hands the chat over to "Forecaster".
  async handoffs() {
    for (const useResponses of [true, false]) await handOver(useResponses);
  },
};

async function handOver(useResponses) {
  const modelProvider = new OpenAIProvider({ baseURL, apiKey: PARLEY_API_KEY, useResponses });
  const runner = new Runner({ modelProvider, tracingDisabled: true });
  const made = agentsTool({ name: "weather", description, parameters: City, execute: weather });
  const forecaster = new Agent({
    name: "Forecaster", model: OFFLINE_ID, instructions: "Answer briefly.", tools: [made], outputType: Weather,
    handoffDescription: "Knows the weather.",
  });
  const direct = await runner.run(forecaster, "Call weather with city: Bern");
  assert.deepEqual(direct.finalOutput, { degrees: 7 });

  const reception = Agent.create({ name: "Reception", model: OFFLINE_ID, instructions: "Hand over.", handoffs: [forecaster] });
  const handed = await runner.run(reception, "Use transfer_to_Forecaster with {}. It has 7 degrees.");
  assert.equal(handed.lastAgent.name, "Forecaster");
  assert.deepEqual(handed.finalOutput, { degrees: 7 });
}

const failures = [];
for (const [name, part] of Object.entries(parts)) {
  await part().catch((error) => failures.push(`${name}: ${error.stack}`));
}
assert.deepEqual(failures, []);
console.log(JSON.stringify({ parts: Object.keys(parts).length, calls }));
