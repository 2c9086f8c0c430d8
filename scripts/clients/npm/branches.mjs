// Continues sessions as the AI SDK's OpenAI provider, useChat and OpenAI's client do: with IDs
// instead of messages, with edited and regenerated messages, and with several responses that
// continue one earlier response. The offline model can repeat facts from earlier messages, so its
// answers show which messages it received.
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, generateText, streamText } from "ai";
import OpenAI from "openai";
import { clientOf } from "./features.mjs";

const { PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID, STUB_ID } = process.env;
const headers = { "x-api-key": PARLEY_API_KEY };
const get = async (path) => (await fetch(PARLEY_BASE_URL + path, { headers })).json();
const user = (content) => ({ role: "user", content });
const sent = []; // bodies of the provider's requests

// The AI SDK's provider refers to earlier answers by their IDs instead of repeating their text.
const provider = createOpenAI({
  baseURL: `${PARLEY_BASE_URL}/v1`, apiKey: PARLEY_API_KEY,
  fetch: (url, options) => { sent.push(JSON.parse(options.body)); return fetch(url, options); },
});
const model = provider.responses(AGENT_ID);
let messages = [user("My code word is heron.")];
for (const [question, answer] of [["What is 12 * 12?", /144/], ["What is my code word?", /heron/], ["What did I first say?", /My code word is heron/]]) {
  const result = await generateText({ model, messages });
  messages = [...messages, ...result.response.messages, user(question)];
  const stream = streamText({ model, messages });
  assert.match(await stream.text, answer);
}
const types = sent.at(-1).input.map((item) => item.type ?? item.role);
assert.ok(types.filter((type) => type === "item_reference").length >= 3, JSON.stringify(types));
const stranger = { type: "item_reference", id: "msg_01h455vb4pex5vsknk084sn02q" };
const openai = new OpenAI({ baseURL: `${PARLEY_BASE_URL}/v1`, apiKey: PARLEY_API_KEY });
await assert.rejects(
  openai.responses.create({ model: AGENT_ID, input: [user("a"), stranger, user("b")] }),
  (error) => error.status === 400 && error.code === "item_not_found" && error.param === "input[1].id");

// useChat: edits a message, and requests another answer.
const chat = new Chat({
  id: "branches-chat", transport: new DefaultChatTransport({ api: `${PARLEY_BASE_URL}/api/agents?action=chat&id=${AGENT_ID}&format=ai-sdk`, headers }),
});
const last = () => chat.messages.at(-1).parts.filter((part) => part.type === "text").map((part) => part.text).join("");
const say = async (message) => {
  await chat.sendMessage(message);
  assert.equal(chat.error, undefined, String(chat.error));
  return last();
};
const runOf = (message) => get(`/api/runs?id=${message.metadata.runId}`);
await say({ text: "My code word is heron." });
assert.match(await say({ text: "What is my code word?" }), /heron/);
await say({ text: "My code word is otter.", messageId: chat.messages[0].id });
assert.equal(chat.messages.length, 2);
assert.match(await say({ text: "What did I first say?" }), /otter/);
assert.match(await say({ text: "What is my code word?" }), /otter/);
await say({ text: "My favourite tea is sencha.", messageId: chat.messages[2].id });
assert.equal((await runOf(chat.messages[3])).previousRunId, chat.messages[1].metadata.runId);
assert.match(await say({ text: "What did I say?" }), /sencha/);
await chat.regenerate({ messageId: chat.messages[3].id });
assert.equal((await runOf(chat.messages[3])).previousRunId, chat.messages[1].metadata.runId);
assert.equal((await say({ text: "What did I first say?" })).includes("otter"), true);
await chat.regenerate();
assert.match(last(), /otter/);

// Two answers to one response.
const ask = (input, more) => openai.responses.create({ model: AGENT_ID, input, ...more });
const told = await ask("My code word is heron.");
const other = await ask("My code word is otter.", { previous_response_id: told.id });
const branch = await ask("What is my code word?", { previous_response_id: told.id });
assert.match(branch.output_text, /heron/);
assert.match((await ask("What is my code word?", { previous_response_id: other.id })).output_text, /otter/);
assert.equal((await openai.responses.retrieve(branch.id)).previous_response_id, told.id);
assert.equal((await get(`/api/runs?id=${branch.parley.runId}`)).previousRunId, told.parley.runId);

// One user has two separate sessions. A request with a whole history replaces a session's history.
const complete = async (list, more) => (await openai.chat.completions.create({ model: AGENT_ID, messages: list, ...more })).choices[0].message.content;
await complete([user("My code word is heron.")], { user: "ada" });
assert.doesNotMatch(await complete([user("What is my code word?")], { user: "ada" }), /heron/);
const named = { metadata: { session_id: "branches-session" } };
await complete([user("My code word is heron.")], named);
assert.match(await complete([user("What is my code word?")], named), /heron/);
const changed = [user("My code word is otter."), { role: "assistant", content: "Noted." }, user("What is my code word?")];
assert.match(await complete(changed, named), /otter/);
assert.match(await complete([user("What is my code word?")], named), /otter/);

// A cancelled background response is still marked as a background response.
const background = await ask("slowly: In the background, for a while.", { model: STUB_ID, background: true, metadata: { a: "b" } });
const cancelled = await openai.responses.cancel(background.id);
assert.deepEqual([cancelled.background, cancelled.metadata], [true, { a: "b" }]);

clientOf("`@ai-sdk/openai`").works("history");
console.log(JSON.stringify({ requests: sent.length }));
