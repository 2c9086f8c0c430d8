// Calls agents whose model provider rejects requests or drops streams. OpenAI's client uses a
// member's key and receives the public reason. Parley's own API shows the provider's response to an
// admin, but not to the member.
import assert from "node:assert/strict";
import OpenAI from "openai";

const { PARLEY_BASE_URL, PARLEY_API_KEY, MEMBER_KEY, ORGANIZATION_ID, STUB_ID, DROPS_ID } = process.env;
const organization = { "x-organization-id": ORGANIZATION_ID };
const client = new OpenAI({ apiKey: MEMBER_KEY, baseURL: `${PARLEY_BASE_URL}/v1`, maxRetries: 0, defaultHeaders: organization });
const get = async (path, key = PARLEY_API_KEY) => (await fetch(PARLEY_BASE_URL + path, { headers: { "x-api-key": key, ...organization } })).json();

// refused sends a message whose run fails. It returns the client's error and two forms of the run
// object: for an admin and for a member.
async function refused(model, content) {
  const error = await client.chat.completions.create({ model, messages: [{ role: "user", content }] }).then(() => assert.fail("no error"), (e) => e);
  assert.ok(error instanceof OpenAI.BadRequestError, String(error));
  assert.equal(error.type, "run_error");
  const runId = error.headers.get("x-parley-run-id");
  const [run, seen] = [await get(`/api/runs?id=${runId}`), await get(`/api/runs?id=${runId}`, MEMBER_KEY)];
  assert.equal(seen.error.code, run.error.code, JSON.stringify(seen));
  assert.equal(seen.error.provider, undefined);
  return { error, run, timeline: await get(`/api/runs?id=${runId}&timeline=1`) };
}

const attempts = ({ spans }) => spans.filter(({ provider }) => provider).map(({ provider }) => provider);

// The provider rejects a request. The client's error shows no credentials, no addresses, and only
// the beginning of a long message.
const secret = "sk-proj-abcdefghijklmnopqrstuvwx";
const rejected = await refused(STUB_ID, `refuse max_tokens: must be at most 8192. Key ${secret} at https://internal.example/v1. ${"More. ".repeat(500)}`);
assert.equal(rejected.error.code, "model_rejected");
assert.doesNotMatch(rejected.error.message, /max_tokens|8192/);
const { status, message } = rejected.run.error.provider;
assert.equal(status, 400);
assert.match(message, /^refuse max_tokens: must be at most 8192\. Key \[redacted\] at \[redacted\]/);
assert.ok(message.length <= 1_000, String(message.length));
assert.deepEqual(attempts(rejected.timeline), [{ status, message }]);

// If the provider's refusal concerns the operator's account, clients do not get the refusal's
// message.
for (const [fault, code, number] of [["401", "model_rejected", 401], ["quota", "model_quota_exceeded", 429]]) {
  const { error, run, timeline } = await refused(STUB_ID, `fault ${fault}: refusal-${fault}`);
  assert.equal(error.code, code);
  assert.deepEqual(run.error.provider, { status: number, message: "" });
  assert.deepEqual(attempts(timeline), [run.error.provider]);
}

// After rate limit errors of the provider, the worker retries the model call a few times, and then
// the run gets another attempt. The run's timeline shows why the first attempt failed.
const limited = await client.chat.completions.create({ model: STUB_ID, messages: [{ role: "user", content: "fault 429*4: refusal-429" }] });
assert.equal(limited.choices[0].message.content, "echo: refusal-429");
const waited = await get(`/api/runs?id=${limited.parley.runId}&timeline=1`);
assert.deepEqual(attempts(waited), [{ status: 429, message: "" }]);

// A provider that drops every stream.
const began = Date.now();
const dropped = await refused(DROPS_ID, "fault eof: refusal-dropped one two three four");
const took = (Date.now() - began) / 1000;
assert.equal(dropped.error.code, "model_truncated");
assert.equal(dropped.run.attempts, 4);
assert.deepEqual(dropped.run.error.provider, { status: 200, message: "The stream ended before the answer was complete." });
assert.equal(attempts(dropped.timeline).length, 4);
console.log(JSON.stringify({ rejected: rejected.run.id, took }));
process.exit(0);
