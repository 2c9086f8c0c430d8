import { ConnectionError, ParleyError, TimeoutError } from "./errors.js";

/** What ends one exchange with the service before its time: the caller's signal, or a clock that every sign of life winds up anew. */
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

  /** Ends the exchange when it is aborted. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Ends the exchange after so many milliseconds, counted from now. */
  wind(ms: number): void {
    this.unwind();
    const silent = (): void => this.#controller.abort(new TimeoutError(`the service was silent for ${ms} ms`));
    this.#timer = setTimeout(silent, ms);
  }

  /** Stops the clock. */
  unwind(): void {
    clearTimeout(this.#timer);
  }

  /** Ends the exchange, if it goes on, and closes its connection. */
  close(): void {
    this.unwind();
    this.#caller?.removeEventListener("abort", this.#abort);
    this.#controller.abort();
  }

  /** Gives the error that what was thrown in the exchange stands for. */
  error(thrown: unknown): unknown {
    if (this.#caller?.aborted) return this.#caller.reason;
    if (this.signal.reason instanceof TimeoutError) return this.signal.reason;
    if (thrown instanceof ParleyError) return thrown;
    return new ConnectionError(`the connection broke: ${told(thrown)}`, { cause: thrown });
  }
}

// Node says "fetch failed", and what failed in the cause.
function told(thrown: unknown): string {
  const { cause, message } = thrown as Error;
  return cause instanceof Error ? `${message}: ${cause.message || (cause as { code?: string }).code}` : message;
}
