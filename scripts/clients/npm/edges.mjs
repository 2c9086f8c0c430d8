// Tests unusual requests with OpenAI's client: responses that are not stored, wrong paths, one key
// in two headers, and long messages.
import assert from "node:assert/strict";
import OpenAI from "openai";

const { PARLEY_BASE_URL, PARLEY_API_KEY, ECHO_ID, STUB_ID } = process.env;
const at = (baseURL, more = {}) => new OpenAI({ apiKey: PARLEY_API_KEY, baseURL, maxRetries: 0, ...more });
const client = at(`${PARLEY_BASE_URL}/v1`);

// A response that was requested without storage cannot be retrieved or continued.
const unstored = await client.responses.create({ model: ECHO_ID, input: "Hello.", store: false });
assert.equal(unstored.status, "completed");
assert.equal(unstored.store, false);
await assert.rejects(client.responses.retrieve(unstored.id), OpenAI.NotFoundError);
await assert.rejects(client.responses.create({ model: ECHO_ID, input: "And?", previous_response_id: unstored.id }), /previous_response_id/);
await assert.rejects(client.responses.create({ model: ECHO_ID, input: "Hello.", store: false, background: true }), /store/);
const stored = await client.responses.create({ model: ECHO_ID, input: "Hello." });
assert.equal((await client.responses.retrieve(stored.id)).id, stored.id);

// The error for a wrong path lists the paths that exist.
const moderation = await client.moderations.create({ input: "x" }).catch((error) => error);
assert.ok(moderation instanceof OpenAI.NotFoundError);
assert.match(moderation.message, /POST \/v1\/chat\/completions/);
const doubled = await at(`${PARLEY_BASE_URL}/v1/v1`).models.list().catch((error) => error);
assert.match(doubled.message, /the base URL ends with \/v1/);
const short = await at(PARLEY_BASE_URL).chat.completions.create({ model: ECHO_ID, messages: [] }).catch((error) => error);
assert.match(short.message, /the base URL ends with \/v1/);

// The same key in two headers counts as one credential. A request with two different keys is
// rejected.
const both = at(`${PARLEY_BASE_URL}/v1`, { defaultHeaders: { "x-api-key": PARLEY_API_KEY } });
assert.ok((await both.models.list()).data.length > 0);
const two = at(`${PARLEY_BASE_URL}/v1`, { defaultHeaders: { "x-api-key": PARLEY_API_KEY + "x" } });
assert.equal((await two.models.list().catch((error) => error)).code, "conflicting_credentials");

// Messages and instructions have no length limit of their own. Only the size of the request's body
// and the model's context limit them.
const long = "long ".repeat(100_000);
const answer = await client.chat.completions.create({
  model: ECHO_ID, messages: [{ role: "system", content: long }, { role: "user", content: long + "end" }],
});
assert.ok(answer.choices[0].message.content.length > 0);
const full = await client.chat.completions.create({ model: STUB_ID, messages: [{ role: "user", content: "fault context: " + long }] }).catch((error) => error);
assert.equal(full.code, "context_too_long");
assert.match(full.message, /The prompt has \d+ bytes \(about \d+ tokens\)/);
console.log(JSON.stringify({ unstored: unstored.parley.runId, full: full.message }));
