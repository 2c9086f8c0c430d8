import { ParleyError, WaitEndedError } from "./errors.js";
import { checkId } from "./given.js";
import { list, type PagePromise } from "./page.js";
import { sleep } from "./retry.js";
import { runPromise, waitIsOver, type RunPromise } from "./run.js";
import { RunStream } from "./stream.js";
import type { Call, RequestOptions, Transport } from "./transport.js";
import type { GetRunsQuery, PostRunsQuery, Run, RunSummary, Timeline, ToolResult, ToolResults } from "./types.js";

/** A filter for runs. */
export type RunQuery = Pick<GetRunsQuery, "agentId" | "sessionId" | "automationId" | "triggerType" | "status" | "waitsFor" | "from" | "to" | "q" | "limit" | "cursor">;

/**
 * The decisions about a run's `requiredAction`: `approve` or `deny` an approval, or resolve a call
 * of unknown outcome.
 */
export type RunDecision = Exclude<PostRunsQuery["action"], "cancel" | "tool-results">;

/** Functions that execute a run's tool calls, by tool name. A function returns JSON. */
export type ToolFunctions = Record<string, (input: any) => unknown>;

const path = "/api/runs";
/** The maximum number of seconds for which the service waits in one request. */
const maxWait = 55;

/** Runs started by messages and triggers. */
export class Runs {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Reads a run's current state. */
  get(id: string, options?: RequestOptions): RunPromise {
    return runPromise(() => this.#transport.json<Run>({ method: "GET", path, query: { id: checkId(id) } }, options));
  }

  /** Lists runs in short form, newest first. `get` returns a complete run. */
  list(query: RunQuery = {}, options?: RequestOptions): PagePromise<RunSummary> {
    return list(this.#transport, path, { ...query }, options);
  }

  /**
   * Waits until a run has finished or requires an action, and returns it. `options.signal` ends the
   * wait with a `WaitEndedError`.
   */
  wait(id: string, options: RequestOptions = {}): RunPromise {
    const known: Known = { runId: id, idempotencyKey: null };
    return runPromise(async () => {
      const poll: Call = { method: "GET", path, query: { id: checkId(id), wait: this.#patience(options) } };
      return this.#findable(known, options, () => this.#pollUntilOver(poll, poll, options, known));
    });
  }

  /** Returns a run's events, from the first one or after `lastEventId`. */
  stream(id: string, options: RequestOptions & { lastEventId?: string | undefined } = {}): RunStream {
    const call = this.streamCall(checkId(id));
    return new RunStream(this.#transport, () => call, options, options.lastEventId);
  }

  /** Reads how a run spent its time: queue, attempts, model turns, tool calls and waits. */
  async timeline(id: string, options?: RequestOptions): Promise<Timeline> {
    return this.#transport.json({ method: "GET", path, query: { id: checkId(id), timeline: 1 } }, options);
  }

  /** Cancels a run. A finished run is returned unchanged. */
  cancel(id: string, options?: RequestOptions): RunPromise {
    return runPromise(() => this.#transport.json<Run>({ method: "POST", path, query: { id: checkId(id), action: "cancel" } }, options));
  }

  /** Sends decisions about a run's `requiredAction`. The run then continues. */
  act(id: string, decision: RunDecision, toolCallId: string, options?: RequestOptions): RunPromise {
    const answer = (): Call => ({ method: "POST", path, query: { id: checkId(id), action: decision, toolCallId } });
    return runPromise(() => this.#transport.json<Run>(answer(), options));
  }

  /**
   * Sends the results of all tool calls that the client must make for a run. They are listed in a
   * `requiredAction` of the kind `client_tools`. The run then continues. `wait` returns its next
   * state.
   */
  submitToolResults(id: string, results: ToolResult[], options?: RequestOptions): RunPromise {
    const body: ToolResults = { results };
    return runPromise(() => this.#transport.json<Run>({ method: "POST", path, query: { id: checkId(id), action: "tool-results" }, body }, options));
  }

  /**
   * Executes the tool calls of a run with the given functions until the run has finished or
   * requires a person. An error that a function throws becomes the result of its call.
   */
  runTools(run: Run, functions: ToolFunctions, options: RequestOptions = {}): RunPromise {
    return runPromise(async () => {
      while (run.status === "requires_action" && run.requiredAction?.kind === "client_tools") {
        const results = await Promise.all((run.requiredAction.calls ?? []).map(async ({ toolCallId, name, input }): Promise<ToolResult> => {
          try {
            const made = functions[name];
            if (!made) throw new ParleyError(`no function for the tool ${name}`);
            return { toolCallId, output: (await made(input)) ?? null };
          } catch (error) {
            return { toolCallId, output: error instanceof Error ? error.message : String(error), isError: true };
          }
        }));
        await this.submitToolResults(run.id, results, options);
        run = await this.wait(run.id, options);
      }
      return run;
    });
  }

  /** @internal */
  streamCall(id: string): Call {
    return { method: "GET", path, query: { id, stream: 1 } };
  }

  /**
   * @internal Submits a run, and waits for it if wait is true. If again is true, it waits by
   * submitting the run again with the same key, because visitors may not read runs.
   */
  async submit(call: Call, key: string, wait: boolean, again: boolean, options: RequestOptions): Promise<Run> {
    const known: Known = { runId: null, idempotencyKey: key };
    const withPreference = (preference: string): Call => ({ ...call, headers: { ...call.headers, Prefer: preference } });
    const patient = withPreference(`wait=${this.#patience(options)}`);
    const hasty = withPreference("respond-async");
    // If the caller ends the wait, the error must contain the run's id. Therefore the first request
    // returns without waiting.

    const first = options.signal && !again ? hasty : patient;
    return this.#findable(known, options, () => {
      if (!wait) return this.#transport.json<Run>(hasty, options);
      return this.#pollUntilOver(first, again ? patient : undefined, options, known);
    });
  }

  async #pollUntilOver(call: Call, again: Call | undefined, options: RequestOptions, known: Known): Promise<Run> {
    let asked = call.headers?.["Prefer"] === "respond-async" ? 0 : Date.now();
    let run = await this.#transport.json<Run>(call, options);

    known.runId = run.id;
    const poll = again ?? { method: "GET", path, query: { id: run.id, wait: this.#patience(options) } };
    while (!waitIsOver(run)) {
      // A service that is shutting down responds immediately, so this prevents a busy loop.
      if (Date.now() - asked < 500) await sleep(500, options.signal);
      asked = Date.now();

      run = await this.#transport.json<Run>(poll, options);
    }
    return run;
  }

  // If the signal ends the wait, this function throws an error that identifies the run. If nothing
  // was sent, it throws the signal's reason, because there is no run.
  async #findable(known: Known, { signal }: RequestOptions, work: () => Promise<Run>): Promise<Run> {
    signal?.throwIfAborted();
    return work().catch((error: unknown) => {
      throw signal?.aborted && error === signal.reason ? new WaitEndedError(known.runId, known.idempotencyKey, error) : error;
    });
  }

  #patience(options: RequestOptions): number {
    return Math.max(1, Math.min(maxWait, Math.floor(this.#transport.timeout(options) / 1000) - 5));
  }
}

/** The identifiers of an awaited run, as far as they are known. */
interface Known {
  runId: string | null;
  readonly idempotencyKey: string | null;
}

/**
 * Returns a unique id. It uses random bytes, because `randomUUID` is missing on pages without TLS.
 */
export function random(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
