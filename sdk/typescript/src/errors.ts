import type { ErrorCode, FieldError, Problem, Run } from "./types.js";

/** What every error of this package is. */
export class ParleyError extends Error {
  static {
    this.prototype.name = "ParleyError"; // by hand: who bundles may rename classes
  }
}

/** The service could not be reached, or the connection broke before its answer was whole. */
export class ConnectionError extends ParleyError {
  static {
    this.prototype.name = "ConnectionError";
  }
}

/** The service did not answer within the request's `timeout`. */
export class TimeoutError extends ConnectionError {
  static {
    this.prototype.name = "TimeoutError";
  }
}

/** `text()` has given words of an attempt that was lost, and the next attempt answers in other words: `finalRun()` has its answer. */
export class StreamRestartedError extends ParleyError {
  static {
    this.prototype.name = "StreamRestartedError";
  }
}

/** Thrown by `orThrow()` alone: the run has not completed. `run.status`, `run.error` and `run.requiredAction` say why. */
export class RunFailedError extends ParleyError {
  static {
    this.prototype.name = "RunFailedError";
  }

  /** The run as the service tells it. */
  readonly run: Run;

  constructor(run: Run) {
    super(`run ${run.id} is ${run.status}` + (run.error ? `: ${run.error.message} (${run.error.code})` : ""));
    this.run = run;
  }
}

/**
 * The waiting for a run was ended by the call's `signal`, whose reason is the `cause`. The run goes on: `client.runs.wait(runId)` waits
 * again, and so does the same call with this `idempotencyKey`.
 */
export class WaitEndedError extends ParleyError {
  static {
    this.prototype.name = "WaitEndedError";
  }

  /** The run; null when the service had not answered yet. */
  readonly runId: string | null;
  /** The key of the message or the trigger; null when the run was waited for by its id. */
  readonly idempotencyKey: string | null;

  constructor(runId: string | null, idempotencyKey: string | null, cause: unknown) {
    const unknown = `the waiting ended before the service had answered: the same call with idempotencyKey ${idempotencyKey} finds the run`;
    super(runId === null ? unknown : `run ${runId} has not ended yet: it goes on`, { cause });
    this.runId = runId;
    this.idempotencyKey = idempotencyKey;
  }
}

/** The service refused the request, or failed to carry it out. */
export class APIError extends ParleyError {
  static {
    this.prototype.name = "APIError";
  }

  /** The HTTP status. */
  readonly status: number;
  /** The stable code of the problem; null when something else than the service answered. */
  readonly code: ErrorCode | null;
  /** Finds the request in the service's log. */
  readonly requestId: string | null;
  /** Each field at fault, all of them at once. */
  readonly errors: FieldError[];
  /** The same request may succeed later. */
  readonly retryable: boolean;
  /** Milliseconds after which trying again makes sense; null when the service does not say. */
  readonly retryAfter: number | null;
  /** The whole problem document; null when something else than the service answered. */
  readonly problem: Problem | null;

  constructor(status: number, headers: Headers, problem: Problem | null) {
    const requestId = problem?.requestId ?? headers.get("x-request-id");
    const said = problem ? `${problem.code}: ${problem.detail}` : "the answer is none of Parley's: is baseUrl right?";
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

/** 400, 405, 413, 415, 416: the request is not as it must be; `errors` names each field. */
export class BadRequestError extends APIError {
  static {
    this.prototype.name = "BadRequestError";
  }
}
/** 401: no credential, or one that is not valid. */
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
/** 404, 410: there is nothing by this id for this caller, or no more. */
export class NotFoundError extends APIError {
  static {
    this.prototype.name = "NotFoundError";
  }
}
/** 409, 412, 422: it was changed meanwhile, or the idempotency key belongs to another request. */
export class ConflictError extends APIError {
  static {
    this.prototype.name = "ConflictError";
  }
}
/** 429: too many requests, or the budget is used up; `retryAfter` says when to come back. */
export class RateLimitError extends APIError {
  static {
    this.prototype.name = "RateLimitError";
  }
}
/** 5xx: the service failed, or is away. */
export class ServerError extends APIError {
  static {
    this.prototype.name = "ServerError";
  }
}

/** Gives the error that a refusal's status stands for. */
export function errorOf(status: number, headers: Headers, body: string): APIError {
  return new (classOf(status))(status, headers, problemOf(body));
}

function classOf(status: number): typeof APIError {
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

function problemOf(body: string): Problem | null {
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
