// Server-sent events over fetch. Unlike EventSource, this module supports methods, headers and
// bodies. After a lost connection, it continues after the last event.
import { FrameParser, type Frame } from "../../../sdk/typescript/src/sse";
import type { FieldError } from "../../../sdk/typescript/src/types";
import { connectionLost, responded, unreachable } from "./texts";

export type ServerEvent = Frame;

/** The error of a request for a stream. Status 0 means that there was no response. */
export class StreamProblem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly errors: FieldError[] = [],
    readonly requestId = "",
    /** The value of the header Retry-After in seconds, if the service has sent it. */
    readonly retryAfter: number | null = null,
  ) {
    super(detail);
    this.name = "StreamProblem";
  }
}

export interface StreamOptions {
  method?: "GET" | "POST";
  /** The options of the request. If headers is a function, it is called for each connection. */
  headers?: Record<string, string> | (() => Record<string, string> | Promise<Record<string, string>>);
  body?: string;
  credentials?: RequestCredentials;
  signal?: AbortSignal;
  /**
   * Reconnects after a break. The request must be safe to repeat: a GET, or one with an
   * Idempotency-Key.
   */
  resume?: boolean;
  /** The id of the event after which to continue. */
  lastEventId?: string;
  /**
   * Reports whether an event is the last one. Without this function, a resumed stream never ends.
   */
  last?: (event: ServerEvent) => boolean;
  /**
   * Called with a response that is not a stream. If it returns true, the request is repeated once
   * immediately, for example with a new token. It throws an error to end the stream.
   */
  refused?: (problem: StreamProblem) => boolean | Promise<boolean>;
  /** The maximum number of consecutive connections without an event. The default is no limit. */
  attempts?: number;
  /**
   * Called with false when a connection is lost, and with true when the next connection delivers an
   * event.
   */
  connected?: (up: boolean) => void;
  /**
   * Called when the service responds again after a lost connection, before the first event. The
   * first event may come much later, for example when another worker takes over a run.
   */
  reached?: () => void;
  /**
   * Milliseconds without a byte after which a connection counts as broken. The service sends
   * something every 10 s.
   */
  silence?: number;
  /** The first pause in milliseconds. Pauses double, up to thirty times the first. */
  pause?: number;
  fetch?: typeof fetch;
}

/** Waits until the given time has passed, the network is available again, or the signal aborts. */
function rest(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      removeEventListener("online", done);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    addEventListener("online", done);
    signal?.addEventListener("abort", done);
    if (signal?.aborted) done();
  });
}

/** Reads the problem document in an error response. */
export async function problem(answer: Response): Promise<StreamProblem> {
  let fields: Record<string, unknown> = {};
  try {
    fields = Object(await answer.json()) as Record<string, unknown>;
  } catch {
    // The response is not JSON of the service. It may be a page of a proxy, for example. Only the
    // status is known.
  }
  const text = (name: string, other: string) => (typeof fields[name] === "string" ? fields[name] : other);

  const after = Number.parseInt(answer.headers.get("Retry-After") ?? "", 10);
  return new StreamProblem(
    answer.status,
    text("code", "unavailable"),
    text("detail", text("title", responded(answer.status))),
    Array.isArray(fields.errors) ? (fields.errors as FieldError[]) : [],
    text("requestId", answer.headers.get("X-Request-Id") ?? ""),
    Number.isNaN(after) ? null : after,
  );
}

/** Reports whether a later retry may succeed. */
const isTransient = (status: number): boolean => status === 0 || status === 408 || status === 429 || status >= 500;

/** The position of a reader in a stream, over all its connections. */
interface StreamPosition {
  lastEventId: string;
  over: boolean;
}

/**
 * Yields the events from one connection. Throws a StreamProblem if the response is not a stream,
 * and any error that breaks the connection.
 */
async function* connection(url: string, options: StreamOptions, position: StreamPosition, reached: () => void): AsyncGenerator<ServerEvent> {
  const { method = "GET", body, credentials, signal, silence = 35_000 } = options;
  const headers = typeof options.headers === "function" ? await options.headers() : options.headers;
  const stop = new AbortController();
  const abort = () => stop.abort();
  signal?.addEventListener("abort", abort);
  if (signal?.aborted) abort();

  let watch = setTimeout(abort, silence * 2); // the first byte may take longer, because the service first accepts the message
  try {
    const answer = await (options.fetch ?? fetch)(url, {
      method,
      body,
      credentials,
      signal: stop.signal,
      cache: "no-store",
      headers: {
        Accept: "text/event-stream",
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...(position.lastEventId === "" ? {} : { "Last-Event-ID": position.lastEventId }),
        ...headers,
      },
    });

    if (answer.status === 204) {
      position.over = true; // the stream has ended, and all of it has been read
      return;
    }
    if (!answer.ok || !answer.body || !/^text\/event-stream\b/i.test(answer.headers.get("Content-Type") ?? "")) throw await problem(answer);

    reached();
    const reader = answer.body.getReader();
    const decoder = new TextDecoder();
    const parser = new FrameParser(position.lastEventId);
    for (;;) {
      clearTimeout(watch);
      watch = setTimeout(abort, silence);
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    clearTimeout(watch);
    signal?.removeEventListener("abort", abort);
    abort(); // closes the connection if the caller leaves the loop early
  }
}

/**
 * Yields the events of a stream, and opens as many connections as needed. Ends after the last
 * event, or when the signal aborts.
 */
export async function* events(url: string, options: StreamOptions = {}): AsyncGenerator<ServerEvent> {
  const { signal, refused, connected, resume = false, attempts = Infinity, pause = 500 } = options;
  const position: StreamPosition = { lastEventId: options.lastEventId ?? "", over: false };

  let failures = 0;
  let asked = false;
  while (!signal?.aborted) {
    let trouble = new StreamProblem(0, "unreachable", connectionLost);
    try {
      const reached = () => {
        if (failures > 0) options.reached?.();
      };
      for await (const event of connection(url, options, position, reached)) {
        if (failures > 0) connected?.(true);
        failures = 0;
        asked = false;
        position.lastEventId = event.id;
        position.over = options.last?.(event) ?? false;
        yield event;
        if (position.over) return;
      }
      if (!resume || position.over) return;
    } catch (cause) {
      if (signal?.aborted) return;
      trouble = cause instanceof StreamProblem ? cause : new StreamProblem(0, "unreachable", unreachable);
    }

    const again = trouble.status > 0 && (await refused?.(trouble));
    if (again && !asked) {
      asked = true;
      continue;
    }

    failures++;
    if (!resume || !isTransient(trouble.status) || failures >= attempts) throw trouble;
    connected?.(false);

    const max = Math.min(pause * 2 ** (failures - 1), pause * 30);
    await rest(Math.max((trouble.retryAfter ?? 0) * 1000, max / 2 + (Math.random() * max) / 2), signal);
  }
}
