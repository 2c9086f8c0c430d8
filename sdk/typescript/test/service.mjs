// A fake service with scripted responses, and a fake clock: waits are recorded and end immediately.
import { mock } from "node:test";
import { Parley } from "parley-sdk";

/**
 * The timeouts of a request and of a stream, in milliseconds. They expire only when a test makes
 * them expire.
 */
export const guards = { request: 75_000, stream: 30_000 };

/** Makes the SDK record the durations of its pauses instead of waiting. */
export function pauses(t) {
  const made = [];
  const real = globalThis.clearTimeout;
  mock.method(globalThis, "setTimeout", (done, ms) => {
    if (Object.values(guards).includes(ms)) return {};
    made.push(ms);
    return setImmediate(done);
  });
  mock.method(globalThis, "clearTimeout", (timer) => (timer?.constructor.name === "Immediate" ? clearImmediate(timer) : real(timer)));
  t.after(() => mock.restoreAll());
  return made;
}

/**
 * Returns a client whose requests get the given results in order. A result is a response, an error,
 * or a function of the request.
 */
export function client(answers, options = {}) {
  const asked = [];
  const fetch = async (url, init) => {
    const { pathname, search, searchParams } = new URL(url);
    const request = {
      method: init.method, path: pathname + search, query: Object.fromEntries(searchParams), headers: init.headers,
      body: typeof init.body === "string" ? JSON.parse(init.body) : init.body, signal: init.signal, redirect: init.redirect,
    };
    const answer = answers[Math.min(asked.push(request), answers.length) - 1];
    const given = typeof answer === "function" ? await answer(request) : answer;
    if (given instanceof Error) throw given;
    return given.clone();
  };
  const parley = new Parley({ apiKey: "ak_test", baseUrl: "http://service/base/", fetch, ...options });
  return { parley, asked };
}

export const json = (body, status = 200, headers = {}) =>
  new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json", ...headers } });

export const problem = (status, code, retryable, headers = {}) =>
  json({ type: `/docs/errors#${code}`, title: code, status, detail: `it is ${code}`, instance: "/api", code, requestId: "R1", retryable, errors: [] }, status,
    { "Content-Type": "application/problem+json", "X-Request-Id": "R1", ...headers });

export const run = (fields = {}) => ({ id: "run_1", status: "completed", message: "hello", error: null, ...fields });

/** Returns the error that fetch throws if a connection breaks or cannot be opened. */
export const broken = (code = "UND_ERR_SOCKET") =>
  new TypeError("fetch failed", { cause: Object.assign(new Error("it broke"), { code }) });

export const frame = (id, event, data = {}) => `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify({ runId: "run_1", ...data })}\n\n`;
export const delta = (id, text) => frame(id, "message.delta", { text });
export const begun = frame("0.1", "run.created") + frame("1.1", "run.started");
export const completed = (id, message) => frame(id, "run.completed", { run: run({ message }) });

/**
 * Returns a stream whose body consists of the given chunks of text or bytes. After the chunks, the
 * stream ends. A chunk that is an error breaks the stream.
 */
export const events = (...pieces) => () => {
  const left = pieces.map((piece) => (typeof piece === "string" ? new TextEncoder().encode(piece) : piece));
  const body = new ReadableStream({
    pull(controller) {
      const piece = left.shift();
      if (piece instanceof Error) controller.error(piece);
      else if (piece) controller.enqueue(piece);
      else controller.close();
    },
  });
  const response = new Response(body, { headers: { "Content-Type": "text/event-stream; charset=utf-8" } });
  response.clone = () => response;
  return response;
};

export const all = async (iterable) => {
  const got = [];
  for await (const one of iterable) got.push(one);
  return got;
};
