// Runs agents with AG-UI's client, which checks the order and the shape of every event.
import assert from "node:assert/strict";
import { clientOf } from "./features.mjs";
import { HttpAgent } from "@ag-ui/client";

const { PARLEY_BASE_URL, PARLEY_API_KEY, AGENT_ID, ASKING_ID, FAILING_ID, PARKING_ID, QUESTION } = process.env;
const warnings = [];
console.warn = (...what) => warnings.push(what.join(" "));

const agentOf = (id, threadId) => new HttpAgent({
  url: `${PARLEY_BASE_URL}/api/agents?action=chat&id=${id}&format=ag-ui`, headers: { "x-api-key": PARLEY_API_KEY }, threadId,
});
const ask = (agent, content, parameters, subscriber) => {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
  return agent.runAgent(parameters, subscriber);
};

// Sends two messages in one thread, each of which causes a tool call. All IDs must be distinct.
const agent = agentOf(AGENT_ID, "agui-1");
const events = [];
const first = await ask(agent, "What is 12 * 12?", { runId: "mine" }, { onEvent: ({ event }) => { events.push(event); } });
assert.equal(events[0].type, "RUN_STARTED");
assert.equal(events[0].runId, "mine");
assert.equal(events.at(-1).type, "RUN_FINISHED");
assert.equal(events.at(-1).outcome.type, "success");
assert.match(first.result.message, /144/);
await ask(agent, "And 13 * 13?");
const roles = agent.messages.map((message) => message.role).join(" ");
assert.equal(roles, "user assistant tool assistant user assistant tool assistant");
assert.match(agent.messages[3].content, /144/);
assert.match(agent.messages[7].content, /169/);
assert.equal(agent.messages[1].toolCalls[0].function.name, "codeExecution");
assert.equal(new Set(agent.messages.map((message) => message.id)).size, agent.messages.length);
assert.equal(agent.messages[2].toolCallId, agent.messages[1].toolCalls[0].id);

// The stream must contain a citation as soon as the answer cites the source.
const cited = [];
await ask(agentOf(ASKING_ID, "agui-2"), QUESTION, {}, { onCustomEvent: ({ event }) => { if (event.name === "citation") cited.push(event.value); } });
assert.ok(cited.length > 0 && cited[0].citedText);

// A run that waits for a person must continue after the person's decision.
let parked;
await ask(agentOf(PARKING_ID, "agui-7"), 'Use bookBill with {"bill": "AGUI-1"}', {}, {
  onCustomEvent: async ({ event: { name, value } }) => {
    if (name === "run") parked = value.runId;
    if (name !== "required_action") return;
    const url = `${PARLEY_BASE_URL}/api/runs?id=${parked}&action=approve&toolCallId=${value.toolCallId}`;
    assert.equal((await fetch(url, { method: "POST", headers: { "x-api-key": PARLEY_API_KEY } })).status, 200);
  },
  onRunFinishedEvent: ({ event }) => { assert.equal(event.result.status, "completed"); parked = undefined; },
});
assert.equal(parked, undefined);

// A failing run, and rejected requests.
const failures = [];
await ask(agentOf(FAILING_ID, "agui-3"), "fault 400: no", {}, { onRunErrorEvent: ({ event }) => { failures.push(event); } }).catch(() => {});
assert.equal(failures.length, 1);
assert.ok(failures[0].code && failures[0].message);
await assert.rejects(ask(agentOf(AGENT_ID, "agui-4"), "x", { tools: [{ name: "x", description: "x", parameters: {} }] }), /tools/);
await assert.rejects(ask(agentOf("ag_00000000000000000000000000", "agui-5"), "x"), /404/);

// System messages and a seeded history must reach the model; the Go test checks the prompts. The
// service must reject results of tools that belong to other agents.
const seeded = new HttpAgent({
  url: agentOf(FAILING_ID).url, headers: { "x-api-key": PARLEY_API_KEY }, threadId: "agui-6", initialMessages: [
    { id: "s", role: "system", content: "Be formal." }, { id: "u", role: "user", content: "My name is Ada." },
    { id: "a", role: "assistant", content: "Good day, Ada." },
  ],
});
await ask(seeded, "AGUI-SEEDED one");
await ask(seeded, "AGUI-SEEDED two");
seeded.addMessage({ id: "t", role: "tool", toolCallId: "c", content: "5" });
await assert.rejects(ask(seeded, "AGUI-SEEDED three"), /messages/);

// A request for another answer to the first message replaces the first answer. The agent must not
// receive the messages that followed the first answer.
const reloaded = agentOf(AGENT_ID, "agui-7");
await ask(reloaded, "What is my code word?");
await ask(reloaded, "My code word is heron.");
reloaded.setMessages(reloaded.messages.slice(0, 1));
const again = await reloaded.runAgent();
assert.doesNotMatch(again.result.message, /heron/);
const stored = await fetch(`${PARLEY_BASE_URL}/api/runs?id=${again.result.runId}`, { headers: { "x-api-key": PARLEY_API_KEY } });
assert.equal((await stored.json()).previousRunId, null);
assert.doesNotMatch((await ask(reloaded, "What is my code word?")).result.message, /heron/);

assert.deepEqual(warnings, [], "the client dropped a part of the events");
const { works, refuses, lacks } = clientOf("`@ag-ui/client`");
works("answers", "streams", "history", "citations", "approvals", "errors");
refuses("tools");
lacks("retries", "resume", "structured");
console.log(JSON.stringify({ runId: first.result.runId, code: failures[0].code, cited: cited.length }));
