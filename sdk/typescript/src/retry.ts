import { APIError, ConnectionError } from "./errors.js";

const first = 500;
const most = 8_000;
/** Who is asked to come back later than this is told so, instead of being kept waiting. */
const mostAsked = 60_000;

/** Gives the milliseconds after which a failed request may be sent again, or undefined when it may not. */
export function retryDelay(error: unknown, failures: number, repeatable: boolean): number | undefined {
  if (error instanceof ConnectionError) return repeatable || neverConnected(error) ? backoff(failures) : undefined;
  if (!(error instanceof APIError) || !error.retryable) return undefined;
  // Parley's own problems say that nothing was accepted; what a proxy answers says nothing of the kind.
  if (!repeatable && error.problem === null && error.status !== 408 && error.status !== 429) return undefined;
  const asked = error.retryAfter ?? 0;
  if (asked > mostAsked) return undefined;
  return Math.max(backoff(failures), asked + Math.random() * first);
}

/** Gives a pause that doubles with every failure, spread so that clients that failed together do not come back together. */
export function backoff(failures: number): number {
  return Math.min(first * 2 ** failures, most) * (0.5 + Math.random() / 2);
}

const unreached = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"]);

function neverConnected(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (unreached.has((at as { code?: string }).code ?? "")) return true;
  }
  return false;
}

/** Waits, unless the signal ends the call before. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
