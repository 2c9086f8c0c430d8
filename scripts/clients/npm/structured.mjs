// Uses OpenAI's client, the AI SDK, LangChain and OpenAI's Agents SDK to request answers that match
// a schema. The agents use the offline model, so the expected answers are known.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, streamObject } from "ai";
import { ChatOpenAI } from "@langchain/openai";
import { Agent, OpenAIProvider, Runner } from "@openai/agents";
import { createAgent, providerStrategy } from "langchain";
import { z } from "zod";
import { clientOf } from "./features.mjs";

const { PARLEY_BASE_URL, PARLEY_API_KEY, LAMPS_ID, ECHO_ID, KNOWS_ID, FIXED_ID } = process.env;
const baseURL = `${PARLEY_BASE_URL}/v1`;
const openai = new OpenAI({ apiKey: PARLEY_API_KEY, baseURL });
const Person = z.object({ name: z.string(), age: z.number().int(), city: z.string().nullable() });
const message = "My name is Ada Lovelace, I am 36 and live in London.";
const person = { name: "Ada Lovelace", age: 36, city: "London" };
const messages = [{ role: "user", content: message }];

// OpenAI's client, with Zod.
const parsed = await openai.chat.completions.parse({ model: LAMPS_ID, messages, response_format: zodResponseFormat(Person, "person") });
assert.deepEqual(parsed.choices[0].message.parsed, person);
const response = await openai.responses.parse({ model: LAMPS_ID, input: message, text: { format: zodTextFormat(Person, "person") } });
assert.deepEqual(response.output_parsed, person);
assert.equal(response.text.format.name, "person");
const stream = openai.chat.completions.stream({ model: LAMPS_ID, messages, response_format: zodResponseFormat(Person, "person") });
assert.deepEqual((await stream.finalChatCompletion()).choices[0].message.parsed, person);
const object = await openai.chat.completions.create({ model: LAMPS_ID, messages: [{ role: "user", content: "watts: 7" }], response_format: { type: "json_object" } });
assert.deepEqual(JSON.parse(object.choices[0].message.content), { watts: "7" });

// An agent with its own schema answers every client with JSON.
const fixed = await openai.chat.completions.create({ model: FIXED_ID, messages });
assert.deepEqual(JSON.parse(fixed.choices[0].message.content), { age: 36 });

// If the model answers with plain text, the run fails, and the client receives no part of the text.
const invalid = { model: ECHO_ID, messages, response_format: zodResponseFormat(Person, "person") };
for (const request of [() => openai.chat.completions.parse(invalid), () => openai.chat.completions.stream(invalid).finalChatCompletion()]) {
  await assert.rejects(request, (error) => error.code === "output_invalid");
}
await assert.rejects(openai.chat.completions.create({ ...invalid, response_format: { type: "json_schema", json_schema: { name: "n", schema: { type: "x" } } } }), (error) => {
  return error instanceof OpenAI.BadRequestError && error.param === "response_format.json_schema.schema";
});

// If the agent has tools, the values in its answer are cited.
const Days = z.object({ days: z.number().int() });
const cited = await openai.chat.completions.parse({
  model: KNOWS_ID, messages: [{ role: "user", content: process.env.QUESTION }], response_format: zodResponseFormat(Days, "days"),
});
assert.deepEqual(cited.choices[0].message.parsed, { days: 30 });
const [annotation] = cited.choices[0].message.annotations;
assert.equal(annotation.type, "url_citation");
assert.equal(annotation.file_citation.file_id, process.env.DOCUMENT_ID);
clientOf("`openai`, JavaScript").works("structured");

// The AI SDK.
const provider = createOpenAI({ apiKey: PARLEY_API_KEY, baseURL });
const compatible = createOpenAICompatible({ name: "parley", apiKey: PARLEY_API_KEY, baseURL, supportsStructuredOutputs: true });
for (const model of [provider.chat(LAMPS_ID), provider.responses(LAMPS_ID), compatible(LAMPS_ID)]) {
  assert.deepEqual((await generateObject({ model, schema: Person, prompt: message, maxRetries: 0 })).object, person);
  const streamed = streamObject({ model, schema: Person, prompt: message, maxRetries: 0 });
  for await (const _ of streamed.partialObjectStream); // the complete object is available when the stream has been read to its end
  assert.deepEqual(await streamed.object, person);
}

// LangChain sends the schema as a response format or as a function. Its createAgent uses a response
// format.
const chat = new ChatOpenAI({ model: LAMPS_ID, apiKey: PARLEY_API_KEY, configuration: { baseURL }, maxRetries: 0 });
for (const method of ["jsonSchema", "functionCalling", "jsonMode"]) {
  const found = await chat.withStructuredOutput(Person, { method, name: "person" }).invoke(method === "jsonMode" ? "Use this: " + JSON.stringify(person) : message);
  assert.deepEqual(found, person);
}
const made = await createAgent({ model: chat, tools: [], responseFormat: providerStrategy(Person) }).invoke({ messages });
assert.deepEqual(made.structuredResponse, person);
clientOf("`@langchain/openai`").works("structured");

// OpenAI's Agents SDK.
const agent = new Agent({ name: "Parley", model: LAMPS_ID, instructions: "Answer.", outputType: Person });
for (const useResponses of [true, false]) {
  const runner = new Runner({ modelProvider: new OpenAIProvider({ baseURL, apiKey: PARLEY_API_KEY, useResponses }), tracingDisabled: true });
  assert.deepEqual((await runner.run(agent, message)).finalOutput, person);
}

console.log(JSON.stringify({ done: true }));
