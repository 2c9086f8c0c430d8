// Sends requests through a proxy that drops the first response to each request. The client's
// retries attach to the existing runs.
import { clientOf } from "./features.mjs";
import assert from "node:assert/strict";
import { Parley } from "parley-sdk";

const lossy = new Parley({ baseUrl: process.env.DOOR });
const direct = new Parley();
const { BOOKS_ID: agentId, CHAT_MESSAGE, STREAM_MESSAGE, AUTOMATION_MESSAGE } = process.env;
const only = async (query, id) => assert.deepEqual((await direct.runs.list(query)).data.map((run) => run.id), [id]);

const chat = await lossy.chat({ agentId, message: CHAT_MESSAGE }).orThrow();
await only({ sessionId: chat.sessionId }, chat.id);

const stream = lossy.chat.stream({ agentId, message: STREAM_MESSAGE });
let text = "";
for await (const piece of stream.text()) text += piece;
const streamed = await stream.finalRun().orThrow();
assert.equal(text, streamed.message);
await only({ sessionId: streamed.sessionId }, streamed.id);

const automationId = `effects-${process.pid}-${Date.now()}`;
const automation = await lossy.automations.run({ target: agentId, message: AUTOMATION_MESSAGE, automationId }).orThrow();
await only({ automationId }, automation.id);
console.log(JSON.stringify([chat.id, streamed.id, automation.id]));
clientOf("`parley-sdk`, TypeScript").works("retries");
