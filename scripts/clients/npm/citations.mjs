// Reads chat completions that cite documents, with clients that validate responses against schemas
// and with clients that do not.
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { ChatOpenAI } from "@langchain/openai";
import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled } from "@openai/agents";
import { generateText, streamText } from "ai";
import OpenAI from "openai";

const { PARLEY_BASE_URL, PARLEY_API_KEY, KNOWS_ID, DOCUMENT_ID, QUESTION } = process.env;
const baseURL = `${PARLEY_BASE_URL}/v1`;
const openai = new OpenAI({ baseURL, apiKey: PARLEY_API_KEY });

// The AI SDK's schema of completions and chunks allows only annotations of the type url_citation.
const model = createOpenAI({ baseURL, apiKey: PARLEY_API_KEY }).chat(KNOWS_ID);
const cites = (sources) => {
  assert.ok(sources.length > 0, "no sources");
  for (const source of sources) {
    assert.deepEqual([source.type, source.sourceType], ["source", "url"]);
    assert.ok(source.url.includes(DOCUMENT_ID) && source.title, JSON.stringify(source));
  }
};
const whole = await generateText({ model, prompt: QUESTION });
assert.match(whole.text, /thirty/);
cites(whole.sources);
const errors = [];
const stream = streamText({ model, prompt: QUESTION, onError: ({ error }) => { errors.push(error); } });
assert.match(await stream.text, /thirty/);
assert.deepEqual(errors, []);
cites(await stream.sources);

// OpenAI's client returns all annotations to its caller, including the document's ID.
const messages = [{ role: "user", content: QUESTION }];
const named = (annotations) => {
  for (const annotation of annotations) {
    assert.deepEqual([annotation.type, annotation.file_citation.file_id], ["url_citation", DOCUMENT_ID]);
    assert.equal(annotation.url_citation.end_index, annotation.file_citation.end_index);
  }
  return annotations.length;
};
const completion = await openai.chat.completions.create({ model: KNOWS_ID, messages });
const n = named(completion.choices[0].message.annotations);
assert.ok(n > 0);
const streamed = [];
for await (const chunk of await openai.chat.completions.create({ model: KNOWS_ID, messages, stream: true })) {
  streamed.push(...(chunk.choices[0]?.delta.annotations ?? []));
}
assert.equal(named(streamed), n);

// LangChain and the Agents SDK can read an answer that has citations.
const chat = new ChatOpenAI({ model: KNOWS_ID, apiKey: PARLEY_API_KEY, configuration: { baseURL } });
assert.match((await chat.invoke(QUESTION)).text, /thirty/);
let text = "";
for await (const chunk of await chat.stream(QUESTION)) text += chunk.text;
assert.match(text, /thirty/);
setTracingDisabled(true);
const agent = new Agent({ name: "a", model: new OpenAIChatCompletionsModel(openai, KNOWS_ID) });
assert.match((await run(agent, QUESTION)).finalOutput, /thirty/);
const told = await run(agent, QUESTION, { stream: true });
await told.completed;
assert.match(told.finalOutput, /thirty/);
console.log(JSON.stringify({ annotations: n }));
