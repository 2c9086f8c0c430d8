import { ConnectionError, ParleyError, TimeoutError } from "./errors.js";

/**
 * Limits an exchange with the service: by the caller's signal, and by a timeout that each received
 * chunk restarts.
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

  /** Aborts when the exchange must end. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Restarts the timeout with a number of milliseconds. */
  wind(ms: number): void {
    this.unwind();
    const silent = (): void => this.#controller.abort(new TimeoutError(`no data from the service for ${ms} ms`));
    this.#timer = setTimeout(silent, ms);
  }

  /** Stops the timeout. */
  unwind(): void {
    clearTimeout(this.#timer);
  }

  /** Ends the exchange and closes its connection. */
  close(): void {
    this.unwind();
    this.#caller?.removeEventListener("abort", this.#abort);
    this.#controller.abort();
  }

  /** Returns the error to throw for an error of the exchange. */
  error(thrown: unknown): unknown {
    if (this.#caller?.aborted) return this.#caller.reason;
    if (this.signal.reason instanceof TimeoutError) return this.signal.reason;
    if (thrown instanceof ParleyError) return thrown;
    return new ConnectionError(`connection lost: ${messageOf(thrown)}`, { cause: thrown });
  }
}

// Node reports "fetch failed", with the reason in the cause.
function messageOf(thrown: unknown): string {
  const { cause, message } = thrown as Error;
  return cause instanceof Error ? `${message}: ${cause.message || (cause as { code?: string }).code}` : message;
}
