import type { ErrorCode, FieldError, Problem, Run } from "./types.js";

/** The base class of all errors in this package. */
export class ParleyError extends Error {
  static {
    this.prototype.name = "ParleyError"; // explicit, because bundlers may rename classes
  }
}

/**
 * The service could not be reached, or the connection was lost before the response was complete.
 */
export class ConnectionError extends ParleyError {
  static {
    this.prototype.name = "ConnectionError";
  }
}

/**
 * A page of another origin called the service, and the browser withheld the response (CORS). Pages
 * of the service's own origin may call it. Pages that an agent's widget lists may use a widget
 * token to chat. Other pages must call their own server, which calls Parley.
 */
export class CrossOriginError extends ConnectionError {
  static {
    this.prototype.name = "CrossOriginError";
  }

  constructor(origin: string, service: string, cause: unknown) {
    super(
      `a page of ${origin} cannot read the response: either ${service} is unreachable, or the browser blocked the response (CORS). ` +
        "Serve the page from Parley's origin, call Parley from your own server, or chat with a widget token from a page that the agent's " +
        "widget lists (docs/clients.md)",
      { cause },
    );
  }
}

/** The service did not respond within the request's `timeout`. */
export class TimeoutError extends ConnectionError {
  static {
    this.prototype.name = "TimeoutError";
  }
}

/**
 * The attempt whose text `text()` has returned was lost, and the answer of the next attempt differs
 * from that text. `finalRun()` returns the new answer.
 */
export class StreamRestartedError extends ParleyError {
  static {
    this.prototype.name = "StreamRestartedError";
  }
}

/**
 * Thrown by `orThrow()` if the run did not complete. See `run.status`, `run.error` and
 * `run.requiredAction`.
 */
export class RunFailedError extends ParleyError {
  static {
    this.prototype.name = "RunFailedError";
  }

  /** The run. */
  readonly run: Run;

  constructor(run: Run) {
    super(`run ${run.id} is ${run.status}` + (run.error ? `: ${run.error.message} (${run.error.code})` : ""));
    this.run = run;
  }
}

/**
 * The call's `signal` ended the wait for a run. The signal's reason is the `cause`. The run
 * continues. To wait for it again, call `client.runs.wait(runId)`, or repeat the call with this
 * `idempotencyKey`.
 */
export class WaitEndedError extends ParleyError {
  static {
    this.prototype.name = "WaitEndedError";
  }

  /** The run's id; null if the service had not responded yet. */
  readonly runId: string | null;
  /** The key of the message or trigger; null if the run was awaited by its id. */
  readonly idempotencyKey: string | null;

  constructor(runId: string | null, idempotencyKey: string | null, cause: unknown) {
    const unknown = `waiting ended before the service responded; repeat the call with idempotencyKey ${idempotencyKey} to get the run`;
    super(runId === null ? unknown : `waiting ended before run ${runId} finished; the run continues`, { cause });
    this.runId = runId;
    this.idempotencyKey = idempotencyKey;
  }
}

/** The service rejected the request, or failed to execute it. */
export class APIError extends ParleyError {
  static {
    this.prototype.name = "APIError";
  }

  /** The HTTP status. */
  readonly status: number;
  /** The stable error code; null if another server responded. */
  readonly code: ErrorCode | null;
  /** Identifies the request in the service's log. */
  readonly requestId: string | null;
  /** All invalid fields. */
  readonly errors: FieldError[];
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** Milliseconds before a retry makes sense; null if the service did not send a time. */
  readonly retryAfter: number | null;
  /** The complete problem document; null if another server responded. */
  readonly problem: Problem | null;

  constructor(status: number, headers: Headers, problem: Problem | null) {
    const requestId = problem?.requestId ?? headers.get("x-request-id");
    const said = problem ? `${problem.code}: ${problem.detail}` : "the response is not from Parley; check baseUrl";
    super(`${status} ${said}` + (requestId ? ` (request ${requestId})` : ""));
    this.status = status;
    this.code = problem?.code ?? null;
    this.requestId = requestId;
    this.errors = problem?.errors ?? [];
    this.retryable = status === 408 || (problem?.retryable ?? [429, 502, 503, 504].includes(status));
    this.retryAfter = retryAfter(headers.get("retry-after"));
    this.problem = problem;
  }
}

/** 400, 405, 413, 415, 416: the request is invalid. `errors` lists the fields. */
export class BadRequestError extends APIError {
  static {
    this.prototype.name = "BadRequestError";
  }
}
/** 401: the credential is missing or invalid. */
export class AuthenticationError extends APIError {
  static {
    this.prototype.name = "AuthenticationError";
  }
}
/** 403: the caller may not do this. */
export class PermissionDeniedError extends APIError {
  static {
    this.prototype.name = "PermissionDeniedError";
  }
}
/** 404, 410: the object does not exist for this caller, or was erased. */
export class NotFoundError extends APIError {
  static {
    this.prototype.name = "NotFoundError";
  }
}
/**
 * 409, 412, 422: the object was changed in the meantime, or the idempotency key belongs to another
 * request.
 */
export class ConflictError extends APIError {
  static {
    this.prototype.name = "ConflictError";
  }
}
/** 429: too many requests, or the budget is used up. `retryAfter` is the time before a retry. */
export class RateLimitError extends APIError {
  static {
    this.prototype.name = "RateLimitError";
  }
}
/** 5xx: the service failed or is unavailable. */
export class ServerError extends APIError {
  static {
    this.prototype.name = "ServerError";
  }
}

/** Returns the error for a response's status. */
export function newAPIError(status: number, headers: Headers, body: string): APIError {
  return new (classFor(status))(status, headers, parseProblem(body));
}

function classFor(status: number): typeof APIError {
  if (status >= 500) return ServerError;
  switch (status) {
    case 401: return AuthenticationError;
    case 403: return PermissionDeniedError;
    case 404: case 410: return NotFoundError;
    case 409: case 412: case 422: return ConflictError;
    case 429: return RateLimitError;
    default: return status >= 400 ? BadRequestError : APIError;
  }
}

function parseProblem(body: string): Problem | null {
  try {
    const problem = JSON.parse(body) as Partial<Problem> | null;
    return typeof problem?.code === "string" && typeof problem.requestId === "string" ? (problem as Problem) : null;
  } catch {
    return null;
  }
}

function retryAfter(header: string | null): number | null {
  if (header === null || header.trim() === "") return null;
  const seconds = Number(header);
  const wait = Number.isNaN(seconds) ? Date.parse(header) - Date.now() : seconds * 1000;
  return Number.isNaN(wait) ? null : Math.max(0, wait);
}
