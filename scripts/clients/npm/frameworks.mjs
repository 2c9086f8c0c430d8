// Calls agents with frameworks that use OpenAI's API: the AI SDK's providers, OpenAI's Agents SDK,
// LangChain and LlamaIndex. Each framework reads whole and streamed answers, gets data that matches
// a schema, retries after a broken connection, and reports why a request was rejected. A framework
// that supports citations also reads citations. A framework that can stop answers also stops an
// answer.
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ChatOpenAI } from "@langchain/openai";
import { openai as llamaOpenAI } from "@llamaindex/openai";
import { Agent, OpenAIProvider, Runner } from "@openai/agents";
import { Output, generateText, jsonSchema, streamText } from "ai";
import { clientOf } from "./features.mjs";
import { cancelled, long, runsOf, shows } from "./runs.mjs";

const { PARLEY_BASE_URL, PARLEY_API_KEY, DROPPING_URL, LEAVING_URL, AGENT_ID, ASKS_ID, ECHO_ID, KNOWS_ID, LAMPS_ID, MARK, QUESTION, STUB_ID } = process.env;
const lamp = { type: "object", properties: { watts: { type: "integer" } }, required: ["watts"], additionalProperties: false };

// Each framework has three functions. ask returns an answer's text, and its citations if the
// framework supports them. fill returns the data of an answer that matches the schema of a lamp.
// read passes the pieces of a stream to a function. door is the URL of a proxy that breaks the
// connection once.
const frameworks = {
  "`@ai-sdk/openai`": {
    model: (agent, base = PARLEY_BASE_URL, headers = {}) => createOpenAI({ baseURL: `${base}/v1`, apiKey: PARLEY_API_KEY, headers }).responses(agent),
    async ask(agent, prompt, { base, headers, ...options } = {}) {
      const { text, sources } = await generateText({ model: this.model(agent, base, headers), prompt, ...options });
      return { text, cited: sources.map(({ title }) => title) };
    },
    async fill(agent, prompt) {
      return (await generateText({ model: this.model(agent), prompt, output: Output.object({ schema: jsonSchema(lamp) }) })).output;
    },
    async read(agent, prompt, onText, abortSignal, conversation) {
      const providerOptions = { openai: { conversation } };
      for await (const part of streamText({ model: this.model(agent), prompt, abortSignal, providerOptions, onError() {} }).fullStream) {
        if (part.type === "text-delta") onText(part.text);
        if (part.type === "error") throw part.error;
      }
    },
    door: DROPPING_URL,
  },
  "`@ai-sdk/openai-compatible`": {
    model: (agent, base = PARLEY_BASE_URL, headers = {}) =>
      createOpenAICompatible({ name: "parley", baseURL: `${base}/v1`, apiKey: PARLEY_API_KEY, headers, supportsStructuredOutputs: true })(agent),
    async ask(agent, prompt, { base, headers } = {}) {
      return { text: (await generateText({ model: this.model(agent, base, headers), prompt })).text };
    },
    async fill(agent, prompt) {
      return (await generateText({ model: this.model(agent), prompt, output: Output.object({ schema: jsonSchema(lamp) }) })).output;
    },
    async read(agent, prompt, onText, abortSignal, session_id) {
      const providerOptions = { parley: { metadata: { session_id } } };
      for await (const part of streamText({ model: this.model(agent), prompt, abortSignal, providerOptions, onError() {} }).fullStream) {
        if (part.type === "text-delta") onText(part.text);
        if (part.type === "error") throw part.error;
      }
    },
    door: DROPPING_URL,
  },
  "`@llamaindex/openai`": {
    model: (agent, base = PARLEY_BASE_URL, defaultHeaders = {}) =>
      llamaOpenAI({ model: agent, apiKey: PARLEY_API_KEY, baseURL: `${base}/v1`, additionalSessionOptions: { defaultHeaders } }),
    async ask(agent, prompt, { base, headers } = {}) {
      return { text: (await this.model(agent, base, headers).chat({ messages: [{ role: "user", content: prompt }] })).message.content };
    },
    async fill(agent, prompt) {
      const responseFormat = { type: "json_schema", json_schema: { name: "lamp", strict: true, schema: lamp } };
      return JSON.parse((await this.model(agent).chat({ messages: [{ role: "user", content: prompt }], responseFormat })).message.content);
    },
    async read(agent, prompt, onText, _, session_id) {
      const additionalChatOptions = { metadata: { session_id } };
      for await (const { delta } of await this.model(agent).chat({ messages: [{ role: "user", content: prompt }], stream: true, additionalChatOptions })) {
        onText(delta);
      }
    },
    door: DROPPING_URL,
    stops: false, // the method chat takes no abort signal, and does not close its stream if the loop ends early
  },
  "`@openai/agents`": {
    runner: (base = PARLEY_BASE_URL) => new Runner({
      modelProvider: new OpenAIProvider({ baseURL: `${base}/v1`, apiKey: PARLEY_API_KEY, useResponses: true }), tracingDisabled: true,
    }),
    agent: (model, options) => new Agent({ name: "Parley", model, instructions: "Answer briefly.", ...options }),
    async ask(agent, prompt, { base, headers, ...options } = {}) { // a retry contains its number, but no idempotency key
      const { finalOutput, history } = await this.runner(base).run(this.agent(agent, options), prompt);
      return { text: finalOutput, cited: (history.at(-1).content[0].providerData?.annotations ?? []).map(({ filename }) => filename) };
    },
    async fill(agent, prompt) {
      const outputType = { type: "json_schema", name: "lamp", strict: true, schema: lamp };
      return (await this.runner().run(this.agent(agent, { outputType }), prompt)).finalOutput;
    },
    async read(agent, prompt, onText, signal, conversationId) {
      const result = await this.runner().run(this.agent(agent), prompt, { stream: true, signal, conversationId });
      for await (const text of result.toTextStream()) onText(text);
      await result.completed;
    },
    door: LEAVING_URL,
  },
  "`@langchain/openai`": {
    model: (agent, options, base = PARLEY_BASE_URL, defaultHeaders = {}) =>
      new ChatOpenAI({ model: agent, apiKey: PARLEY_API_KEY, configuration: { baseURL: `${base}/v1`, defaultHeaders }, ...options }),
    async ask(agent, prompt, { base, headers } = {}) {
      const model = this.model(agent, { useResponsesApi: true }, base, headers); // for citations
      const message = await model.invoke(prompt);
      return { text: message.text, cited: message.content[0]?.annotations?.map(({ filename, title }) => filename ?? title) };
    },
    fill(agent, prompt) {
      return this.model(agent, { useResponsesApi: true }).withStructuredOutput(lamp).invoke(prompt);
    },
    async read(agent, prompt, onText, signal, session_id) {
      const model = this.model(agent, { modelKwargs: { metadata: { session_id } } });
      for await (const chunk of await model.stream(prompt, { signal })) onText(chunk.text);
    },
    door: DROPPING_URL,
  },
};

// refusal returns the code and the message of a failed call's error.
async function refusal(call) {
  const error = await call.then(() => assert.fail("the call did not fail"), (e) => e.lastError ?? e);
  return `${error.code ?? error.data?.error?.code}: ${error.message ?? error}`; // some frameworks throw a string
}

async function check(name, framework) {
  const mark = name.replace(/\W+/g, "-") + MARK; // part of prompts, session IDs and idempotency keys
  const { works, refuses, lacks } = clientOf(name);
  assert.match((await framework.ask(AGENT_ID, "What is 12 * 12?")).text, /144/);
  const pieces = [];
  await framework.read(STUB_ID, "slowly one two three four five", (text) => pieces.push(text), undefined, `read${mark}`);
  assert.equal(pieces.join(""), "echo: slowly one two three four five");
  assert.ok(pieces.length > 2, JSON.stringify(pieces));
  works("answers", "streams");
  const { text, cited } = await framework.ask(KNOWS_ID, QUESTION);
  assert.match(text, /thirty/);
  if (cited) assert.match(cited[0], /\.txt$/);
  (cited ? works : lacks)("citations");

  assert.match(await refusal(framework.ask("gpt-5", "Hello.")), /^model_not_found: /);
  assert.match(await refusal(framework.ask(STUB_ID, "fault 400: no")), /model provider rejected/);
  assert.match(await refusal(framework.read(STUB_ID, "fault 400: no", () => {}, undefined, `failed${mark}`)), /model provider rejected/);
  works("errors");
  assert.match(await refusal(framework.ask(ASKS_ID, `Use bookBill with {"bill": "asked${mark}"}`)), /^requires_action: .*bookBill/);
  refuses("approvals");
  lacks("resume");

  assert.deepEqual(await framework.fill(LAMPS_ID, "a lamp of 7 watts"), { watts: 7 });
  assert.match(await refusal(framework.fill(ECHO_ID, "a lamp of 7 watts")), /^output_invalid: .*does not match the output schema/);
  works("structured");

  // The proxy breaks the connection, and the framework retries its request.
  const retried = `slowly retried${mark} one two three four five six seven eight nine ten`;
  assert.equal((await framework.ask(STUB_ID, retried, { base: framework.door, headers: { "Idempotency-Key": mark } })).text, `echo: ${retried}`);
  works("retries");

  if (framework.stops === false) {
    lacks("stop");
    return;
  }
  const abort = new AbortController();
  let seen = "";
  const stopped = framework.read(STUB_ID, long(mark), (text) => { if ((seen += text).length > 100) abort.abort(); }, abort.signal, `stop${mark}`);
  await stopped.catch(() => {}); // some throw
  assert.ok(abort.signal.aborted);
  await cancelled((await runsOf(`stop${mark}`))[0].id);
  await shows(STUB_ID, `stop${mark}`, seen.slice(0, 100));
  works("stop");
}

const names = Object.keys(frameworks);
const outcomes = await Promise.allSettled(names.map((name) => check(name, frameworks[name])));
const faults = outcomes.flatMap(({ reason }, n) => (reason ? [`${names[n]}: ${reason.stack}`] : []));
assert.deepEqual(faults, []);
console.log(JSON.stringify({ frameworks: names.length }));
process.exit(0);
