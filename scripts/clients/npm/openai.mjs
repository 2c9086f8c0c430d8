// Tests OpenAI's client against Parley: its main operations and typical errors. If a result is
// wrong, a part of the script throws an error, and the script's exit status is not 0. The script
// prints the values that only the Go test can check.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { clientOf } from "./features.mjs";

const { PARLEY_BASE_URL, PARLEY_API_KEY, DROPPING_URL, RECORDING_URL } = process.env;
const { AGENT_ID, ECHO_ID, STUB_ID, BOOKS_ID, ASKS_ID, AUTOMATION_ID } = process.env;

const at = (base, more = {}) => new OpenAI({ apiKey: PARLEY_API_KEY, baseURL: `${base}/v1`, ...more });
const client = at(PARLEY_BASE_URL);
const report = {};
const { works, refuses } = clientOf("`openai`, JavaScript");

const user = (content) => ({ role: "user", content });
const session = (name) => `${name}-${Date.now()}`;

// api sends a request to Parley's own API, for data that OpenAI's API does not provide.
async function api(path, options = {}) {
  const answer = await fetch(PARLEY_BASE_URL + path, { ...options, headers: { "x-api-key": PARLEY_API_KEY } });
  assert.ok(answer.ok, `${path}: ${answer.status}`);
  return answer.json();
}

// collect returns all values of a stream.
async function collect(stream) {
  const all = [];
  for await (const event of stream) all.push(event);
  return all;
}

// put concatenates the text in a stream's chunks.
const put = (chunks) => chunks.map((c) => c.choices[0]?.delta.content ?? "").join("");

// refused returns the error from a call that must fail with one of the client's error types.
async function refused(kind, call) {
  try {
    await call();
  } catch (error) {
    assert.ok(error instanceof kind, `${error.constructor.name}, want ${kind.name}: ${error.message}`);
    return error;
  }
  assert.fail(`got no ${kind.name}`);
}

const parts = {
  async models() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    assert.ok(ids.includes(AGENT_ID) && ids.includes(ECHO_ID), "the list of models lacks an agent");
    assert.ok(!ids.includes(AUTOMATION_ID), "the list of models contains an agent for automations only");
    const model = await client.models.retrieve(AGENT_ID);
    assert.deepEqual([model.id, model.object, model.owned_by], [AGENT_ID, "model", process.env.ORGANIZATION_ID]);
    const missing = await refused(OpenAI.NotFoundError, () => client.models.retrieve("ag_none"));
    assert.deepEqual([missing.code, missing.param], ["model_not_found", "model"]);
  },

  async plain() {
    const { data, response, request_id } = await client.chat.completions
      .create({ model: ECHO_ID, messages: [{ role: "system", content: "Be brief." }, user("Hello.")], temperature: 0, seed: 1 })
      .withResponse();
    const [choice] = data.choices;
    assert.equal(choice.message.content, "echo: Hello.");
    assert.deepEqual([choice.finish_reason, choice.message.refusal, data.model, data.object], ["stop", null, ECHO_ID, "chat.completion"]);
    assert.match(data.id, /^chatcmpl-/);
    assert.equal(data.usage.total_tokens, data.usage.prompt_tokens + data.usage.completion_tokens);
    assert.equal(response.headers.get("x-parley-run-id"), data.parley.runId);
    assert.ok(request_id);
    const cut = await client.chat.completions.create({ model: ECHO_ID, messages: [user("One two three.")], max_completion_tokens: 2, top_p: 1 });
    assert.deepEqual([cut.choices[0].message.content, cut.choices[0].finish_reason], ["echo: One", "length"]);
    const stopped = await client.chat.completions.create({ model: ECHO_ID, messages: [user("One two three.")], stop: [" two", "x"], temperature: 0.2 });
    assert.deepEqual([stopped.choices[0].message.content, stopped.choices[0].finish_reason], ["echo: One", "stop"]);
    const run = await api(`/api/runs?id=${stopped.parley.runId}`);
    assert.deepEqual(run.settings, { temperature: 0.2, stop: [" two", "x"] });
    const hot = await refused(OpenAI.BadRequestError, () => client.chat.completions.create({ model: ECHO_ID, messages: [user("Hello.")], temperature: 3 }));
    assert.deepEqual([hot.param, hot.code], ["temperature", "invalid_request"]);
    const template = await client.chat.completions.create({ model: "tpl_support", messages: [user("Hello.")] });
    assert.equal(template.model, "tpl_support");
    works("answers");
  },

  async streamed() {
    const chunks = await collect(
      await client.chat.completions.create({
        model: ECHO_ID, messages: [user("One two three.")], stream: true, stream_options: { include_usage: true },
      }),
    );
    assert.equal(put(chunks), "echo: One two three.");
    assert.equal(chunks.at(-1).choices.length, 0);
    assert.ok(chunks.at(-1).usage.total_tokens > 0);
    const whole = await client.chat.completions.stream({ model: ECHO_ID, messages: [user("Again.")] }).finalChatCompletion();
    assert.equal(whole.choices[0].message.content, "echo: Again.");
    assert.equal(whole.choices[0].finish_reason, "stop");
    works("streams");
  },

  async sessions() {
    const id = session("chat");
    for (const text of ["First.", "Second."]) {
      await client.chat.completions.create({ model: ECHO_ID, user: "u", metadata: { session_id: id }, messages: [user(text)] });
    }
    const kept = await api(`/api/sessions?id=${id}&agentId=${ECHO_ID}`);
    assert.deepEqual(kept.messages.map((m) => m.content), ["First.", "echo: First.", "Second.", "echo: Second."]);
    report.echoSession = id;
  },

  async responses() {
    const { data, response } = await client.responses
      .create({ model: ECHO_ID, input: "Hello.", instructions: "Be brief.", metadata: { a: "b" }, max_output_tokens: 9 })
      .withResponse();
    assert.equal(data.output_text, "echo: Hello.");
    assert.deepEqual([data.object, data.status, data.model, data.instructions], ["response", "completed", ECHO_ID, "Be brief."]);
    assert.deepEqual([data.metadata, data.error, data.tools, data.tool_choice], [{ a: "b" }, null, [], "auto"]);
    assert.equal(data.usage.total_tokens, data.usage.input_tokens + data.usage.output_tokens);
    assert.equal(response.headers.get("x-parley-run-id"), data.parley.runId);
    const again = await client.responses.retrieve(data.id);
    assert.deepEqual(again.output, data.output);
    const items = await client.responses.create({
      model: ECHO_ID, input: [user("Hello."), ...data.output, user([{ type: "input_text", text: "Once more." }])],
    });
    assert.equal(items.output_text, "echo: Once more.");
  },

  async responsesStreamed() {
    const stream = client.responses.stream({ model: ECHO_ID, input: "One two three." });
    const events = await collect(stream);
    const last = await stream.finalResponse();
    assert.deepEqual(events.map((e) => e.sequence_number), [...events.keys()]);
    assert.deepEqual([events[0].type, events[1].type, events.at(-1).type], ["response.created", "response.in_progress", "response.completed"]);
    const text = events.filter((e) => e.type === "response.output_text.delta").map((e) => e.delta).join("");
    assert.deepEqual([text, last.output.at(-1).content[0].text], ["echo: One two three.", "echo: One two three."]);
    assert.deepEqual((await client.responses.retrieve(last.id)).output, events.at(-1).response.output);
  },

  async codeItems() {
    const events = await collect(await client.responses.create({ model: AGENT_ID, input: "What is 17 * 23? Compute it with Python.", stream: true }));
    const [item] = events.at(-1).response.output;
    assert.deepEqual([item.type, item.status, item.code.trim()], ["code_interpreter_call", "completed", "print(17 * 23)"]);
    assert.match(item.outputs.map((o) => o.logs).join(""), /391/);
    const of = events.filter((e) => e.item_id === item.id).map((e) => e.type.replace(/^response\.code_interpreter_call/, ""));
    assert.deepEqual(of, [".in_progress", "_code.delta", "_code.done", ".interpreting", ".completed"]);
    assert.match(events.at(-1).response.output.at(-1).content[0].text, /391/);
  },

  async citationItems() {
    const question = process.env.QUESTION;
    const stream = client.responses.stream({ model: process.env.KNOWS_ID, input: question });
    const events = await collect(stream);
    const last = await stream.finalResponse();
    const call = last.output.find((item) => item.type === "file_search_call");
    assert.deepEqual([call.status, call.results, call.queries.length], ["completed", null, 1]);
    const { text, annotations } = last.output.at(-1).content[0];
    assert.equal(annotations[0].type, "file_citation");
    assert.equal(annotations[0].file_id, process.env.DOCUMENT_ID);
    assert.ok(annotations[0].filename && annotations[0].index <= [...text].length);
    const told = events.filter((e) => e.type === "response.output_text.annotation.added").map((e) => e.annotation);
    assert.deepEqual(told, annotations);
    const chat = await client.chat.completions.create({ model: process.env.KNOWS_ID, messages: [user(question)] });
    const [{ type, url_citation: cited, file_citation: { file_id: documentId } }] = chat.choices[0].message.annotations;
    assert.deepEqual([type, cited.title, documentId], ["url_citation", annotations[0].filename, process.env.DOCUMENT_ID]);
    assert.ok(cited.url.includes(documentId) && cited.start_index < cited.end_index, JSON.stringify(cited));
    works("citations");
  },

  async endpointItems() {
    const events = await collect(await client.responses.create({ model: BOOKS_ID, input: 'Use bookBill with {"bill": "OPENAI-1"}', stream: true }));
    const [item] = events.at(-1).response.output;
    assert.deepEqual([item.type, item.status, item.name, item.server_label, item.error], ["mcp_call", "completed", "bookBill", "parley", null]);
    assert.deepEqual(JSON.parse(item.arguments), { bill: "OPENAI-1" });
    assert.match(item.output, /booked/);
    const of = events.filter((e) => e.item_id === item.id).map((e) => e.type.replace(/^response\.mcp_call/, ""));
    assert.deepEqual(of, [".in_progress", "_arguments.delta", "_arguments.done", ".completed"]);
  },

  async background() {
    let response = await client.responses.create({ model: STUB_ID, input: "slowly: In the background.", background: true });
    assert.ok(["queued", "in_progress"].includes(response.status), response.status);
    assert.equal(response.background, true);
    await api(`/api/runs?id=${response.parley.runId}&wait=30`);
    response = await client.responses.retrieve(response.id);
    assert.equal(response.status, "completed");
    assert.match(response.output_text, /In the background\./);
  },

  async conversations() {
    const first = await client.responses.create({ model: ECHO_ID, input: "One." });
    const second = await client.responses.create({ model: ECHO_ID, input: "Two.", previous_response_id: first.id });
    assert.equal(second.parley.sessionId, first.parley.sessionId);
    assert.equal(second.previous_response_id, first.id);
    const id = session("conversation");
    for (const conversation of [id, { id }]) {
      const response = await client.responses.create({ model: ECHO_ID, input: "Here.", conversation });
      assert.equal(response.parley.sessionId, id);
    }
    const unknown = await refused(OpenAI.BadRequestError, () =>
      client.responses.create({ model: ECHO_ID, input: "Two.", previous_response_id: "resp_01h455vb4pex5vsknk084sn02q" }));
    assert.deepEqual([unknown.code, unknown.param], ["previous_response_not_found", "previous_response_id"]);
    const others = await refused(OpenAI.BadRequestError, () =>
      client.responses.create({ model: STUB_ID, input: "Two.", previous_response_id: first.id }));
    assert.equal(others.code, "previous_response_not_found");
    works("history");
  },

  async errors() {
    const ask = (body, options) => client.chat.completions.create({ model: ECHO_ID, messages: [user("Hello.")], ...body }, options);
    const stranger = at(PARLEY_BASE_URL, { apiKey: "ak_none" });
    const key = await refused(OpenAI.AuthenticationError, () => stranger.responses.create({ model: ECHO_ID, input: "Hello." }));
    assert.deepEqual([key.status, key.type, key.code], [401, "authentication_error", "invalid_api_key"]);
    assert.ok(key.requestID);
    const model = await refused(OpenAI.NotFoundError, () => ask({ model: "gpt-5" }));
    assert.deepEqual([model.type, model.code, model.param], ["invalid_request_error", "model_not_found", "model"]);
    await refused(OpenAI.NotFoundError, () => client.responses.create({ model: "gpt-5", input: "Hello." }));
    const tools = await refused(OpenAI.BadRequestError, () => ask({ tools: [{ type: "custom", custom: { name: "f" } }] }));
    assert.deepEqual([tools.code, tools.param], ["unsupported_parameter", "tools[0].type"]);
    const several = await refused(OpenAI.BadRequestError, () =>
      client.responses.create({ model: ECHO_ID, input: [{ type: "item_reference", id: "x" }], prompt: { id: "p" } }));
    assert.match(several.message, /prompt.*input\[0\]/s);
    assert.equal(several.code, "unsupported_parameter");
    const shape = await refused(OpenAI.BadRequestError, () => client.responses.create({ model: ECHO_ID, input: 7 }));
    assert.equal(shape.param, "input");
    const caller = await refused(OpenAI.PermissionDeniedError, () => ask({ model: AUTOMATION_ID }));
    assert.deepEqual([caller.type, caller.code], ["permission_error", "caller_not_allowed"]);
    await refused(OpenAI.NotFoundError, () => client.responses.retrieve("resp_01h455vb4pex5vsknk084sn02q"));
    await refused(OpenAI.BadRequestError, () => client.responses.retrieve("resp_01h455vb4pex5vsknk084sn02q", { stream: true }));
    await refused(OpenAI.NotFoundError, () => client.embeddings.create({ model: ECHO_ID, input: "Hello." }));
    const nowhere = await refused(OpenAI.APIError, () => client.delete("/models"));
    assert.equal(nowhere.status, 405);
    works("errors");
    refuses("resume");
  },

  // A failed run must not make the client retry, because a retry would run the agent again.
  async failures() {
    const recording = at(RECORDING_URL, { maxRetries: 2 });
    const failing = { model: STUB_ID, messages: [user("fault 400: no")] };
    const plain = await refused(OpenAI.BadRequestError, () => recording.chat.completions.create(failing));
    assert.equal(plain.type, "run_error");
    assert.equal(plain.headers.get("x-should-retry"), "false");
    const inStream = await refused(OpenAI.APIError, async () => collect(await recording.chat.completions.create({ ...failing, stream: true })));
    assert.deepEqual([inStream.type, inStream.code], ["run_error", plain.code]);
    const response = await refused(OpenAI.BadRequestError, () => recording.responses.create({ model: STUB_ID, input: "fault 400: no" }));
    assert.deepEqual([response.type, response.code], ["run_error", plain.code]);
    const failed = await client.responses.retrieve(response.headers.get("x-parley-run-id").replace(/^run_/, "resp_"));
    assert.deepEqual([failed.status, failed.error.code, failed.output], ["failed", plain.code, []]);
    const events = [];
    const raised = await refused(OpenAI.APIError, async () => {
      for await (const event of await recording.responses.create({ model: STUB_ID, input: "fault 400: no", stream: true })) events.push(event);
    });
    assert.deepEqual([events.at(-1).type, events.at(-1).response.error.code, raised.code], ["response.failed", plain.code, plain.code]);
  },

  async decisions() {
    const input = 'Use bookBill with {"bill": "OPENAI-2"}';
    const recording = at(RECORDING_URL, { maxRetries: 2 });
    const asked = await refused(OpenAI.BadRequestError, () => recording.responses.create({ model: ASKS_ID, input }));
    assert.deepEqual([asked.type, asked.code], ["run_error", "requires_action"]);
    assert.match(asked.message, /bookBill/);
    const inStream = await refused(OpenAI.APIError, async () => collect(await recording.responses.create({ model: ASKS_ID, input, stream: true })));
    assert.equal(inStream.code, "requires_action");
    const runId = asked.headers.get("x-parley-run-id");
    const id = runId.replace(/^run_/, "resp_");
    assert.equal((await client.responses.retrieve(id)).status, "in_progress");
    const run = await api(`/api/runs?id=${runId}`);
    await api(`/api/runs?id=${runId}&action=approve&toolCallId=${run.requiredAction.toolCallId}`, { method: "POST" });
    await api(`/api/runs?id=${runId}&wait=30`);
    assert.equal((await client.responses.retrieve(id)).status, "completed");
    refuses("approvals");
  },

  // The connection breaks after the service has received the request. The client's retry has the
  // idempotency key of the first request, so the retry gets the existing run.
  async retries() {
    const dropping = at(DROPPING_URL, { maxRetries: 2 });
    const key = (name) => ({ headers: { "Idempotency-Key": `${name}-${Date.now()}` } });
    const options = key("chat");
    const body = { model: BOOKS_ID, messages: [user('Use bookBill with {"bill": "OPENAI-3"}')] };
    const chat = await dropping.chat.completions.create(body, options);
    assert.match(chat.choices[0].message.content, /booked/);
    const { data, response } = await client.chat.completions.create(body, options).withResponse();
    assert.deepEqual(data, chat);
    assert.equal(response.headers.get("idempotency-replayed"), "true");
    const asked = await dropping.responses.create({ model: BOOKS_ID, input: 'Use bookBill with {"bill": "OPENAI-4"}' }, key("responses"));
    assert.equal(asked.output[0].type, "mcp_call");
    const events = await collect(
      await dropping.responses.create({ model: BOOKS_ID, input: 'Use bookBill with {"bill": "OPENAI-5"}', stream: true }, key("stream")));
    assert.equal(events.at(-1).type, "response.completed");
    const recording = at(RECORDING_URL, { maxRetries: 2 });
    const reused = await refused(OpenAI.UnprocessableEntityError, () =>
      recording.chat.completions.create({ ...body, messages: [user("Something else.")] }, options));
    assert.equal(reused.code, "idempotency_key_reused");
    works("retries");
  },

  // If a client disconnects from a stream, the service still finishes a run that needs less than 5
  // more seconds.
  async leaving() {
    const stream = await client.responses.create({ model: STUB_ID, input: "slowly: one two three four five six seven eight nine ten", stream: true });
    let runId;
    for await (const event of stream) {
      runId ??= event.response?.parley.runId;
      if (event.type === "response.output_text.delta") break;
    }
    const run = await api(`/api/runs?id=${runId}&wait=30`);
    assert.equal(run.status, "completed");
    assert.match(run.message, /ten$/);
  },
};

for (const [name, part] of Object.entries(parts)) {
  try {
    await part();
  } catch (error) {
    error.message = `${name}: ${error.message}`;
    throw error;
  }
}
console.log(JSON.stringify({ ...report, parts: Object.keys(parts).length }));
