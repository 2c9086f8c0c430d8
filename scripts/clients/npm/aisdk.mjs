// Reads Parley's streams with the AI SDK: with the default transport, chunk schema and messages of
// the package `ai`, and with the chats of `@ai-sdk/react`.
import assert from "node:assert/strict";
import { clientOf } from "./features.mjs";
import { until } from "./runs.mjs";
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, parseJsonEventStream, readUIMessageStream, uiMessageChunkSchema } from "ai";

const { PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID, ASKING_ID, FAILING_ID, QUESTION, PARKING_ID } = process.env;
const headers = { "x-api-key": PARLEY_API_KEY };
const chatURL = (agent) => `${PARLEY_BASE_URL}/api/agents?action=chat&id=${agent}&format=ai-sdk`;
const transport = (agent) => new DefaultChatTransport({ api: chatURL(agent), headers });
const user = (text) => ({ id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] });
const textOf = (message) => message.parts.filter((part) => part.type === "text").map((part) => part.text).join("");

// Checks a chat with two messages and a tool call, and the history of its session.
const errors = [];
const toolCalls = [];
const chat = new Chat({
  id: "aisdk-1", transport: transport(AGENT_ID), onError: (error) => errors.push(error), onToolCall: ({ toolCall }) => { toolCalls.push(toolCall); },
});
await chat.sendMessage({ text: "What is 12 * 12?" });
assert.deepEqual(errors, []);
assert.equal(chat.status, "ready");
const [, answer] = chat.messages;
assert.match(textOf(answer), /144/);
const tool = answer.parts.find((part) => part.type === "dynamic-tool");
assert.equal(tool.toolName, "codeExecution");
assert.equal(tool.state, "output-available");
assert.deepEqual(toolCalls, [], "the client was asked to execute a tool call");
const { runId, sessionId } = answer.metadata;
assert.equal(sessionId, "aisdk-1");
await chat.sendMessage({ text: "And 13 * 13?" });
assert.equal(chat.messages.length, 4);
assert.match(textOf(chat.messages[3]), /169/);

// chunksOf checks that every chunk matches the SDK's schema, and returns the chunks.
async function chunksOf(response) {
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("x-vercel-ai-ui-message-stream"), "v1");
  const chunks = [];
  for await (const chunk of parseJsonEventStream({ stream: response.body, schema: uiMessageChunkSchema })) {
    assert.equal(chunk.success, true, String(chunk.error));
    chunks.push(chunk.value);
  }
  return chunks;
}
const cited = await chunksOf(await fetch(chatURL(ASKING_ID), {
  method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify({ id: "aisdk-2", messages: [user(QUESTION)] }),
}));
assert.ok(cited.some((chunk) => chunk.type === "source-document" && chunk.title), JSON.stringify(cited.map((chunk) => chunk.type)));
assert.ok(cited.some((chunk) => chunk.type === "data-citation" && chunk.data.citedText));

// Reads a run's stream again, from the beginning and from the middle.
const read = (more) => fetch(`${PARLEY_BASE_URL}/api/runs?id=${runId}&format=ai-sdk`, { headers: { ...headers, ...more } });
const whole = await (await read()).text();
let message;
for await (message of readUIMessageStream({ stream: await readStream(whole) }));
assert.equal(textOf(message), textOf(answer));
const ids = [...whole.matchAll(/^id: (.*)$/gm)].map((match) => match[1]);
const middle = ids[Math.floor(ids.length / 2)];
const rest = await (await read({ "last-event-id": middle })).text();
assert.ok(rest.length > 0 && rest.length < whole.length && whole.endsWith(rest));
assert.equal((await read({ "last-event-id": ids.at(-1) })).status, 204);

async function readStream(text) {
  const stream = parseJsonEventStream({ stream: new Response(text).body, schema: uiMessageChunkSchema });
  return stream.pipeThrough(new TransformStream({ transform: (chunk, to) => to.enqueue(chunk.value) }));
}

// After a reload, the page reads the run's stream from the beginning, even while the run continues.
const reloaded = (id, agent, run) => new Chat({
  id, transport: new DefaultChatTransport({
    api: chatURL(agent), headers, prepareReconnectToStreamRequest: () => ({ api: `${PARLEY_BASE_URL}/api/runs?id=${run}&format=ai-sdk`, headers }),
  }),
});
const returned = reloaded("aisdk-1", AGENT_ID, runId);
await returned.resumeStream();
assert.equal(textOf(returned.messages.at(-1)), textOf(answer));
const left = new Chat({ id: "aisdk-6", transport: transport(FAILING_ID) });
const words = "slowly " + Array.from({ length: 60 }, (_, n) => `w${n}`).join(" ");
const leaving = left.sendMessage({ text: words });
await until(() => left.messages.length > 1 && textOf(left.messages[1]).length > 20);
const rest2 = reloaded("aisdk-6", FAILING_ID, left.messages[1].metadata.runId);
const resuming = rest2.resumeStream();
await left.stop();
await Promise.all([leaving, resuming]);
assert.equal(textOf(rest2.messages.at(-1)), "echo: " + words);
assert.equal(rest2.messages.at(-1).metadata.status, "completed");

// The chat reports a failed run, and a rejected request, as its error.
const failing = new Chat({ id: "aisdk-3", transport: transport(FAILING_ID) });
await failing.sendMessage({ text: "fault 400: no" });
assert.equal(failing.status, "error");
const refused = new Chat({ id: "aisdk-4", transport: transport("ag_00000000000000000000000000") });
await refused.sendMessage({ text: "hello" });
assert.match(refused.error.message, /not_found/);

// If a run waits for a person's decision, its stream reports this and stays open.
const stream = await transport(PARKING_ID).sendMessages({
  chatId: "aisdk-5", messages: [user("Use bookBill with {\"bill\": \"AISDK-1\"}")], trigger: "submit-message", abortSignal: undefined,
});
let required, approved = "";
for await (const chunk of stream) {
  if (chunk.type === "data-run") required = { run: chunk.data.runId };
  if (chunk.type === "data-required-action") {
    const url = `${PARLEY_BASE_URL}/api/runs?id=${required.run}&action=approve&toolCallId=${chunk.data.toolCallId}`;
    assert.equal((await fetch(url, { method: "POST", headers })).status, 200);
  }
  if (chunk.type === "finish") approved = chunk.messageMetadata.status;
  assert.notEqual(chunk.type, "error", chunk.errorText);
}
assert.equal(approved, "completed");
for (const client of ["`ai`", "`@ai-sdk/react`"]) {
  const { works, lacks } = clientOf(client);
  works("answers", "streams", "history", "resume", "citations", "approvals", "errors");
  lacks("retries", "tools", "structured"); // of DefaultChatTransport
}
console.log(JSON.stringify({ runId, error: failing.error.message, chunks: cited.length }));
