// Requests to the API. The dashboard uses the public API, with the browser's session cookie.
import { leave } from "./panels";
import * as texts from "./texts/frame";
import { Words } from "./texts/frame";
import type { FieldError } from "./types";

/**
 * An error response from the service, or a failure to reach the service (status 0).
 */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly errors: FieldError[] = [],
    readonly requestId = "",
    /** The value of the header Retry-After in seconds, if the service has sent it. */
    readonly retryAfter: number | null = null,
  ) {
    super(detail);
  }
}

/**
 * Returns an error without the entries about a field that the person is editing. If the field is a
 * list of texts, entries about one of the texts are removed, too. Returns undefined if no entry is
 * left.
 */
export function withoutField(error: ApiError | undefined, field: string): ApiError | undefined {
  const about = ({ field: at }: FieldError) => at === field || (at.startsWith(`${field}[`) && /^\[\d+\]$/.test(at.slice(field.length)));
  if (!error?.errors.some(about)) return error;
  const rest = error.errors.filter((e) => !about(e));
  return rest.length === 0 ? undefined : new ApiError(error.status, error.code, error.detail, rest, error.requestId, error.retryAfter);
}

export type Params = Record<string, string | number | boolean | null | undefined>;

const chosen = "parley.organization";
let organization: string | null = readStored();
let demo = false;

function readStored(): string | null {
  try {
    return localStorage.getItem(chosen);
  } catch {
    return null; // the browser blocks its storage: use the oldest membership
  }
}

/**
 * Selects the organization for the following requests. The value null selects the person's oldest
 * membership.
 */
export function chooseOrganization(id: string | null): void {
  organization = id;
  try {
    if (id === null) localStorage.removeItem(chosen);
    else localStorage.setItem(chosen, id);
  } catch {
    // the storage is blocked: the choice lasts until the page is left
  }
}

export const chosenOrganization = (): string | null => organization;

/** Switches between the demo, which sends no cookie, and the session of the signed-in person. */
export function enterDemo(on: boolean): void {
  demo = on;
}

export const inDemo = (): boolean => demo;

/** Returns the headers that identify the caller and the organization. */
export function identity(): Record<string, string> {
  if (demo) return { "x-tenant-id": "tenant_demo" };
  return organization === null ? {} : { "x-organization-id": organization };
}

/** Reports whether requests send cookies. */
export const credentials = (): RequestCredentials => (demo ? "omit" : "same-origin");

export function address(path: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return text === "" ? path : path + (path.includes("?") ? "&" : "?") + text;
}

export const get = <T>(path: string, params?: Params, signal?: AbortSignal): Promise<T> => send<T>("GET", address(path, params), undefined, signal);
export const post = <T>(path: string, body?: unknown, params?: Params, signal?: AbortSignal): Promise<T> => send<T>("POST", address(path, params), body, signal);
export const put = <T>(path: string, body: unknown, params?: Params): Promise<T> => send<T>("PUT", address(path, params), body);
export const del = <T>(path: string, params?: Params): Promise<T> => send<T>("DELETE", address(path, params));

/**
 * Sends a request and returns the JSON of its response. Throws an ApiError if the service rejects
 * the request or cannot be reached.
 */
async function send<T>(method: string, url: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = identity();
  if (body !== undefined) headers["content-type"] = "application/json";
  const ask = async () => {
    const response = await fetch(url, { method, headers, credentials: credentials(), body: body === undefined ? undefined : JSON.stringify(body), signal });
    if (!response.ok) throw await readProblem(response);
    return (response.status === 204 ? undefined : await response.json()) as T;
  };
  return reached(ask, signal, method === "GET" ? askAgain : lookFirst);
}

const askAgain = Words.cantReachServiceCheck;

/**
 * The message for a change that got no response. A browser cannot distinguish an unreachable
 * service from a lost response, so the change may have been made.
 */
export const lookFirst = Words.cantReachService;

/**
 * Returns the result of the function ask. Throws an ApiError with status 0 if there is no response,
 * if the connection breaks, or if the response is not JSON of the service. The parameter otherwise
 * is the message of that error.
 */
export async function reached<T>(ask: () => Promise<T>, signal?: AbortSignal, otherwise = askAgain): Promise<T> {
  try {
    return await ask();
  } catch (cause) {
    if (signal?.aborted || cause instanceof ApiError) throw cause;
    throw new ApiError(0, "unreachable", otherwise);
  }
}

/** Returns a message of the API, which has no capital letter and no period, as a sentence. */
export function sentence(message: string): string {
  return message.charAt(0).toUpperCase() + message.slice(1) + (/(^|[.!?…:])$/.test(message) ? "" : ".");
}

/** Returns the error in a response. If the status is 401, it opens the login page. */
export async function readProblem(response: Response): Promise<ApiError> {
  const wait = Number(response.headers.get("retry-after"));
  const problem: Record<string, unknown> = await response.json().catch(() => ({}));
  const foreign = (problem["error"] ?? {}) as Record<string, unknown>; // the form of errors in the OpenAI-compatible API

  const error = new ApiError(
    response.status,
    String(problem["code"] ?? foreign["code"] ?? "unknown"),
    sentence(String(problem["detail"] ?? problem["title"] ?? foreign["message"] ?? texts.serviceRespondedWithStatus(response.status))),
    Array.isArray(problem["errors"]) ? (problem["errors"] as FieldError[]) : [],
    response.headers.get("x-request-id") ?? "",
    wait > 0 ? wait : null,
  );

  if (error.status === 401 && !demo) toLogin();
  if (error.status === 403 && organization !== null && error.code === "permission_denied") void forgetLostOrganization().catch(() => undefined);

  return error;
}

export function toLogin(): void {
  leave("/login?next=" + encodeURIComponent(location.pathname + location.search));
}

/**
 * Selects the person's oldest membership if the person was removed from the chosen organization,
 * because the service refuses every request for that organization.
 */
async function forgetLostOrganization(): Promise<void> {
  const response = await fetch("/api/auth/session", { credentials: "same-origin" });
  if (!response.ok) return;
  const session = (await response.json()) as { organizations: { id: string }[] };
  if (session.organizations.some((o) => o.id === organization)) return;
  chooseOrganization(null);
  leave();
}
