import { FrameParser } from "../../../sdk/typescript/src/sse";
import { equal, ok, quick, thrown, type Test } from "./check";
import { events, StreamProblem, type ServerEvent, type StreamOptions } from "./sse";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** Returns a response that streams the given chunks and then ends or breaks. */
function stream(pieces: Uint8Array[], breaks = false): Response {
  const body = new ReadableStream<Uint8Array>({
    start(control) {
      for (const piece of pieces) control.enqueue(piece);
      if (!breaks) control.close();
    },
    pull(control) {
      if (breaks) control.error(new TypeError("network error"));
    },
  });
  return new Response(body, { headers: { "Content-Type": "text/event-stream; charset=utf-8" } });
}

const refusal = (status: number, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify({ code: "some_code", detail: "Said why.", requestId: "r1", errors: [{ field: "message", code: "required", message: "is missing" }] }), {
    status,
    headers: { "Content-Type": "application/problem+json", ...headers },
  });

interface Asked {
  url: string;
  headers: Record<string, string>;
  body: unknown;
}

/**
 * Returns a replacement for fetch that returns the given responses in order, and a list of the
 * requests that it received.
 */
function answers(...list: (Response | Error)[]): { fetch: typeof fetch; asked: Asked[] } {
  const asked: Asked[] = [];
  const give = (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    asked.push({ url: String(input), headers: { ...(init?.headers as Record<string, string>) }, body: init?.body });
    const next = list.shift() ?? new Error("too many requests");
    return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
  };
  return { fetch: give, asked };
}

async function all(url: string, options: StreamOptions): Promise<ServerEvent[]> {
  const found: ServerEvent[] = [];
  for await (const event of events(url, options)) found.push(event);
  return found;
}

const sample = ": hello\r\n\r\nid: 1.1\r\nevent: message.delta\r\ndata: {\"text\":\"é😀\"}\r\n\r\n: ping\n\nid:1.2\ndata: one\ndata:  two\ndata\n\nevent: nothing\n\nid: 1.3\rdata: last\r\r";
const sampleEvents: ServerEvent[] = [
  { id: "1.1", event: "message.delta", data: '{"text":"é😀"}' },
  { id: "1.2", event: "message", data: "one\n two\n" },
  { id: "1.3", event: "message", data: "last" },
];
const last = (e: ServerEvent): boolean => e.data === "last";

export const tests: Test[] = [
  {
    name: "frames split at every byte",
    async run() {
      const whole = bytes(sample);
      for (let i = 0; i <= whole.length; i++) {
        equal(await all("/x", { fetch: answers(stream([whole.slice(0, i), whole.slice(i)])).fetch }), sampleEvents, `split at ${i}`);
      }
      equal(await all("/x", { fetch: answers(stream([...whole].map((b) => new Uint8Array([b])))).fetch }), sampleEvents, "byte by byte");
    },
  },
  {
    name: "a byte order mark, an id with NUL, and a truncated frame",
    run() {
      const parser = new FrameParser();
      const chunks = ["\uFEFFid: a\r", "", "\ndata: x\n\n", "\uFEFFid: b\nid: c\0\ndata: y\n\nid: d\ndata: z\n"];
      equal(chunks.flatMap((chunk) => parser.push(chunk)), [
        { id: "a", event: "message", data: "x" },
        { id: "a", event: "message", data: "y" },
      ]);
    },
  },
  {
    name: "an event without data is not delivered, but its id counts, as does the id before the stream",
    run() {
      const parser = new FrameParser("a");
      equal(parser.push("data\n\nevent: e\nid: b\n\ndata: x\n\nid\ndata: y\n\n"), [
        { id: "a", event: "message", data: "" },
        { id: "b", event: "message", data: "x" },
        { id: "", event: "message", data: "y" },
      ]);
    },
  },
  {
    name: "a long frame in small chunks takes linear time",
    run() {
      quick("200,000 pieces", () => {
        const parser = new FrameParser();
        for (let i = 0; i < 200_000; i++) parser.push("data: 0123");
        equal(parser.push("\n\n")[0]?.data.length, 200_000 * 10 - 6);
      });
    },
  },
  {
    name: "resumes broken streams from the last event, with fresh headers",
    async run() {
      const first = sample.indexOf("id:1.2");
      const { fetch, asked } = answers(stream([bytes(sample.slice(0, first))], true), new TypeError("down"), refusal(503), stream([bytes(sample.slice(first))]));
      let n = 0;
      const up: boolean[] = [];
      const got = await all("/x", { fetch, method: "POST", body: "{}", headers: () => ({ "X-N": String(n++) }), resume: true, last, pause: 1, connected: (is) => up.push(is) });
      equal(got, sampleEvents);
      equal(asked.map((a) => a.headers["Last-Event-ID"] ?? ""), ["", "1.1", "1.1", "1.1"]);
      equal(asked.map((a) => a.headers["X-N"]), ["0", "1", "2", "3"]);
      equal(asked[3]?.body, "{}");
      equal(up, [false, false, false, true]);
    },
  },
  {
    name: "reports that the service responds again, before the first event",
    async run() {
      const silent = stream([bytes(": ping\n\n")]);
      const { fetch } = answers(stream([bytes("id: 1\ndata: x\n\n")], true), new TypeError("down"), silent, stream([bytes("id: 2\ndata: last\n\n")]));
      const states: string[] = [];
      const options = { fetch, resume: true, last, pause: 1, connected: (is: boolean) => states.push(is ? "connected" : "lost"), reached: () => states.push("reached") };
      equal((await all("/x", options)).length, 2);
      equal(states.filter((s, i) => s !== states[i - 1]), ["lost", "reached", "lost", "reached", "connected"], "not at the first connection");
    },
  },
  {
    name: "a stream that ends without its last event is resumed, and 204 ends it",
    async run() {
      const { fetch, asked } = answers(stream([bytes("id: 1\ndata: x\n\n")]), new Response(null, { status: 204 }));
      equal((await all("/x", { fetch, resume: true, last, pause: 1 })).length, 1);
      equal(asked.length, 2);
    },
  },
  {
    name: "continues after the caller's last event",
    async run() {
      const { fetch, asked } = answers(stream([bytes("id: 7\ndata: last\n\n")]));
      await all("/x", { fetch, lastEventId: "6", resume: true, last });
      equal(asked[0]?.headers["Last-Event-ID"], "6");
    },
  },
  {
    name: "a broken stream is an error if it must not resume",
    async run() {
      const { fetch, asked } = answers(stream([bytes("id: 1\ndata: x\n\n")], true));
      const cause = await thrown(() => all("/x", { fetch }));
      ok(cause instanceof StreamProblem && cause.status === 0, String(cause));
      equal(asked.length, 1);
    },
  },
  {
    name: "a refusal is an error with the problem's fields",
    async run() {
      const cause = await thrown(() => all("/x", { fetch: answers(refusal(403)).fetch, resume: true }));
      ok(cause instanceof StreamProblem, String(cause));
      const { status, code, message, requestId, errors } = cause as StreamProblem;
      equal([status, code, message, requestId, errors[0]?.field], [403, "some_code", "Said why.", "r1", "message"]);
      const page = new Response("<html>", { status: 200, headers: { "Content-Type": "text/html" } });
      equal(((await thrown(() => all("/x", { fetch: answers(page).fetch, resume: true }))) as StreamProblem).status, 200);
    },
  },
  {
    name: "a refused token is renewed once",
    async run() {
      let asks = 0;
      const refused = (p: StreamProblem) => p.status === 401 && ++asks > 0;
      const good = answers(refusal(401), stream([bytes("id: 1\ndata: last\n\n")]));
      equal((await all("/x", { fetch: good.fetch, resume: true, last, refused })).length, 1);
      const bad = answers(refusal(401), refusal(401));
      equal(((await thrown(() => all("/x", { fetch: bad.fetch, resume: true, last, refused }))) as StreamProblem).status, 401);
      equal(asks, 3);
    },
  },
  {
    name: "gives up after the maximum number of connections, and obeys Retry-After",
    async run() {
      const { fetch, asked } = answers(new TypeError("1"), new TypeError("2"), new TypeError("3"));
      await thrown(() => all("/x", { fetch, resume: true, pause: 1, attempts: 3 }));
      equal(asked.length, 3);
      const began = performance.now();
      const late = answers(refusal(503, { "Retry-After": "1" }), stream([bytes("id: 1\ndata: last\n\n")]));
      await all("/x", { fetch: late.fetch, resume: true, pause: 1, last });
      ok(performance.now() - began >= 990, "the retry came too early");
    },
  },
  {
    name: "silence counts as a broken connection",
    async run() {
      const silent = (_: unknown, init?: RequestInit) =>
        new Promise<Response>((_resolve, reject) => init?.signal?.addEventListener("abort", () => reject(new DOMException("", "AbortError"))));
      const cause = await thrown(() => all("/x", { fetch: silent as typeof fetch, silence: 10, resume: true, attempts: 2, pause: 1 }));
      ok(cause instanceof StreamProblem && cause.status === 0, String(cause));
    },
  },
  {
    name: "stops on abort: in a pause, in a stream, and before",
    async run() {
      const stop = new AbortController();
      stop.abort();
      equal(await all("/x", { fetch: answers().fetch, signal: stop.signal }), []);
      const pause = new AbortController();
      const { fetch } = answers(new TypeError("down"));
      equal(await all("/x", { fetch, signal: pause.signal, resume: true, pause: 1e6, connected: () => setTimeout(() => pause.abort()) }), []);
      const during = new AbortController();
      let left = false;
      const body = new ReadableStream<Uint8Array>({
        start: (control) => control.enqueue(bytes("id: 1\ndata: x\n\n")),
        cancel: () => void (left = true),
      });
      const endless = (_: unknown, init?: RequestInit) => {
        const answer = new Response(body, { headers: { "Content-Type": "text/event-stream" } });
        init?.signal?.addEventListener("abort", () => (left = true));
        return Promise.resolve(answer);
      };
      for await (const event of events("/x", { fetch: endless as typeof fetch, signal: during.signal, resume: true })) {
        equal(event.data, "x");
        break; // leaving the loop closes the connection
      }
      ok(left, "the connection is still open");
    },
  },
];
