import { list, type PagePromise } from "./page.js";
import { sleep } from "./retry.js";
import { runPromise, settled, type RunPromise } from "./run.js";
import { RunStream } from "./stream.js";
import type { Call, RequestOptions, Transport } from "./transport.js";
import type { GetRunsQuery, PostRunsQuery, Run } from "./types.js";

/** Which runs to list. */
export type RunQuery = Pick<GetRunsQuery, "agentId" | "sessionId" | "automationId" | "status" | "limit" | "cursor">;

/** Answers to a run's `requiredAction`: `approve` or `deny` an approval, the others what became of a call of unknown outcome. */
export type RunDecision = Exclude<PostRunsQuery["action"], "cancel">;

const path = "/api/runs";
/** The service waits for this many seconds at most. */
const longest = 55;

/** What came of messages and triggers. */
export class Runs {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Reads a run as it stands. */
  get(id: string, options?: RequestOptions): RunPromise {
    return runPromise(() => this.#transport.json<Run>({ method: "GET", path, query: { id } }, options));
  }

  /** Lists runs, newest first. */
  list(query: RunQuery = {}, options?: RequestOptions): PagePromise<Run> {
    return list(this.#transport, path, { ...query }, options);
  }

  /** Waits until a run has ended or requires an action, and gives it. `options.signal` ends the waiting. */
  wait(id: string, options: RequestOptions = {}): RunPromise {
    const poll: Call = { method: "GET", path, query: { id, wait: this.#patience(options) } };
    return runPromise(() => this.#settle(poll, poll, options));
  }

  /** Gives a run's events from its first one, or from behind the last event that is known. */
  stream(id: string, options: RequestOptions & { lastEventId?: string | undefined } = {}): RunStream {
    return new RunStream(this.#transport, () => this.streamCall(id), options, options.lastEventId);
  }

  /** Ends a run as cancelled; one that has ended stays as it is. */
  cancel(id: string, options?: RequestOptions): RunPromise {
    return runPromise(() => this.#transport.json<Run>({ method: "POST", path, query: { id, action: "cancel" } }, options));
  }

  /** Answers a run's `requiredAction`; the run then goes on. */
  act(id: string, decision: RunDecision, toolCallId: string, options?: RequestOptions): RunPromise {
    return runPromise(() => this.#transport.json<Run>({ method: "POST", path, query: { id, action: decision, toolCallId } }, options));
  }

  /** @internal */
  streamCall(id: string): Call {
    return { method: "GET", path, query: { id, stream: 1 } };
  }

  /** @internal Sends what makes a run, and waits for the run if so wished; by sending it again where the caller may not read runs. */
  async submit(call: Call, wait: boolean, again: boolean, options: RequestOptions): Promise<Run> {
    const patience = this.#patience(options);
    const submitted = { ...call, headers: { ...call.headers, Prefer: wait ? `wait=${patience}` : "respond-async" } };
    if (!wait) return this.#transport.json<Run>(submitted, options);
    return this.#settle(submitted, again ? submitted : undefined, options);
  }

  async #settle(call: Call, again: Call | undefined, options: RequestOptions): Promise<Run> {
    let asked = Date.now();
    let run = await this.#transport.json<Run>(call, options);
    const poll = again ?? { method: "GET", path, query: { id: run.id, wait: this.#patience(options) } };
    while (!settled(run)) {
      // A service that is being stopped does not keep anybody waiting.
      if (Date.now() - asked < 500) await sleep(500, options.signal);
      asked = Date.now();
      run = await this.#transport.json<Run>(poll, options);
    }
    return run;
  }

  #patience(options: RequestOptions): number {
    return Math.max(1, Math.min(longest, Math.floor(this.#transport.timeout(options) / 1000) - 5));
  }
}

/** Gives a name that nobody else has; of random bytes, for pages without TLS have no `randomUUID`. */
export function random(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
