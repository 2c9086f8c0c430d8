import { ConnectionError, ParleyError, TimeoutError } from "./errors.js";

/**
 * Limits the duration of a request. The request ends when the caller's signal aborts or when the
 * timeout expires. Each received chunk restarts the timeout.
 */
export class Bounds {
  readonly #caller: AbortSignal | undefined;
  readonly #controller = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #abort = (): void => this.#controller.abort(this.#caller?.reason);

  constructor(caller: AbortSignal | undefined) {
    caller?.throwIfAborted();
    this.#caller = caller;
    caller?.addEventListener("abort", this.#abort, { once: true });
  }

  /** A signal that aborts when the request must end. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Restarts the timeout, in milliseconds. */
  restartTimeout(ms: number): void {
    this.stopTimeout();
    const silent = (): void => this.#controller.abort(new TimeoutError(`no data from the service for ${ms} ms`));
    this.#timer = setTimeout(silent, ms);
  }

  /** Stops the timeout. */
  stopTimeout(): void {
    clearTimeout(this.#timer);
  }

  /** Ends the request and closes its connection. */
  close(): void {
    this.stopTimeout();
    this.#caller?.removeEventListener("abort", this.#abort);
    this.#controller.abort();
  }

  /** Returns the error to throw if the request failed with the given error. */
  error(thrown: unknown): unknown {
    if (this.#caller?.aborted) return this.#caller.reason;
    if (this.signal.reason instanceof TimeoutError) return this.signal.reason;
    if (thrown instanceof ParleyError) return thrown;
    return new ConnectionError(`connection lost: ${errorMessage(thrown)}`, { cause: thrown });
  }
}

// The message of Node's error is only "fetch failed". Its cause has the reason.
function errorMessage(thrown: unknown): string {
  const { cause, message } = thrown as Error;
  return cause instanceof Error ? `${message}: ${cause.message || (cause as { code?: string }).code}` : message;
}
