import { APIError, ConnectionError, CrossOriginError } from "./errors.js";

const minPause = 500;
const maxPause = 8_000;
/**
 * The longest Retry-After that is followed, in milliseconds. If the service asks for a longer
 * pause, the error is thrown.
 */
const maxRetryAfter = 60_000;

/**
 * Returns the milliseconds after which a failed request may be sent again, or undefined if it must
 * not be sent again.
 */
export function retryDelay(error: unknown, failures: number, repeatable: boolean): number | undefined {
  if (error instanceof CrossOriginError) return undefined;
  if (error instanceof ConnectionError) return repeatable || neverConnected(error) ? backoff(failures) : undefined;
  if (!(error instanceof APIError) || !error.retryable) return undefined;
  // If Parley itself sent the error, it has not accepted the request. If a proxy sent the error,
  // the request may have been accepted.
  if (!repeatable && error.problem === null && error.status !== 408 && error.status !== 429) return undefined;
  const asked = error.retryAfter ?? 0;
  if (asked > maxRetryAfter) return undefined;
  return Math.max(backoff(failures), asked + Math.random() * minPause);
}

/**
 * Returns a pause that doubles with every failure, with jitter, so that clients do not retry
 * simultaneously.
 */
export function backoff(failures: number): number {
  return Math.min(minPause * 2 ** failures, maxPause) * (0.5 + Math.random() / 2);
}

const unreached = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"]);

function neverConnected(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (unreached.has((at as { code?: string }).code ?? "")) return true;
  }
  return false;
}

/** Waits for a time. It rejects if the signal aborts first. */
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
