import { WaitEndedError } from "./errors.js";
import { idOf } from "./given.js";
import { list, type PagePromise } from "./page.js";
import { sleep } from "./retry.js";
import { runPromise, settled, type RunPromise } from "./run.js";
import { RunStream } from "./stream.js";
import type { Call, RequestOptions, Transport } from "./transport.js";
import type { GetRunsQuery, PostRunsQuery, Run, RunSummary } from "./types.js";

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
    return runPromise(() => this.#transport.json<Run>({ method: "GET", path, query: { id: idOf(id) } }, options));
  }

  /** Lists runs in short, newest first: `get` gives the whole of one. */
  list(query: RunQuery = {}, options?: RequestOptions): PagePromise<RunSummary> {
    return list(this.#transport, path, { ...query }, options);
  }

  /** Waits until a run has ended or requires an action, and gives it. `options.signal` ends the waiting, with a `WaitEndedError`. */
  wait(id: string, options: RequestOptions = {}): RunPromise {
    const known: Known = { runId: id, idempotencyKey: null };
    return runPromise(async () => {
      const poll: Call = { method: "GET", path, query: { id: idOf(id), wait: this.#patience(options) } };
      return this.#findable(known, options, () => this.#settle(poll, poll, options, known));
    });
  }

  /** Gives a run's events from its first one, or from behind the last event that is known. */
  stream(id: string, options: RequestOptions & { lastEventId?: string | undefined } = {}): RunStream {
    const call = this.streamCall(idOf(id));
    return new RunStream(this.#transport, () => call, options, options.lastEventId);
  }

  /** Ends a run as cancelled; one that has ended stays as it is. */
  cancel(id: string, options?: RequestOptions): RunPromise {
    return runPromise(() => this.#transport.json<Run>({ method: "POST", path, query: { id: idOf(id), action: "cancel" } }, options));
  }

  /** Answers a run's `requiredAction`; the run then goes on. */
  act(id: string, decision: RunDecision, toolCallId: string, options?: RequestOptions): RunPromise {
    const answer = (): Call => ({ method: "POST", path, query: { id: idOf(id), action: decision, toolCallId } });
    return runPromise(() => this.#transport.json<Run>(answer(), options));
  }

  /** @internal */
  streamCall(id: string): Call {
    return { method: "GET", path, query: { id, stream: 1 } };
  }

  /** @internal Sends what makes a run, and waits for the run if so wished; by sending it again where the caller may not read runs. */
  async submit(call: Call, key: string, wait: boolean, again: boolean, options: RequestOptions): Promise<Run> {
    const known: Known = { runId: null, idempotencyKey: key };
    const preferring = (preference: string): Call => ({ ...call, headers: { ...call.headers, Prefer: preference } });
    const patient = preferring(`wait=${this.#patience(options)}`);
    const hasty = preferring("respond-async");
    // Who may end the waiting has to know the run then: it is asked for before it is waited for.
    const first = options.signal && !again ? hasty : patient;
    return this.#findable(known, options, () => {
      if (!wait) return this.#transport.json<Run>(hasty, options);
      return this.#settle(first, again ? patient : undefined, options, known);
    });
  }

  async #settle(call: Call, again: Call | undefined, options: RequestOptions, known: Known): Promise<Run> {
    let asked = call.headers?.["Prefer"] === "respond-async" ? 0 : Date.now();
    let run = await this.#transport.json<Run>(call, options);
    known.runId = run.id;
    const poll = again ?? { method: "GET", path, query: { id: run.id, wait: this.#patience(options) } };
    while (!settled(run)) {
      // A service that is being stopped does not keep anybody waiting.
      if (Date.now() - asked < 500) await sleep(500, options.signal);
      asked = Date.now();
      run = await this.#transport.json<Run>(poll, options);
    }
    return run;
  }

  // Tells whose waiting was ended by its signal how the run is found. Before anything was sent there is no run.
  async #findable(known: Known, { signal }: RequestOptions, work: () => Promise<Run>): Promise<Run> {
    signal?.throwIfAborted();
    return work().catch((error: unknown) => {
      throw signal?.aborted && error === signal.reason ? new WaitEndedError(known.runId, known.idempotencyKey, error) : error;
    });
  }

  #patience(options: RequestOptions): number {
    return Math.max(1, Math.min(longest, Math.floor(this.#transport.timeout(options) / 1000) - 5));
  }
}

/** What is known of a run that is waited for. */
interface Known {
  runId: string | null;
  readonly idempotencyKey: string | null;
}

/** Gives a name that nobody else has; of random bytes, for pages without TLS have no `randomUUID`. */
export function random(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
