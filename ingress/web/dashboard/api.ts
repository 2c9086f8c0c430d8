// Requests to the API: the same one that everybody uses, with the browser's session cookie.

export interface FieldError {
  field: string;
  code: string;
  message: string;
}

/** What the service, or the way to it, said instead of answering. Status 0: the service was not reached. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly errors: FieldError[] = [],
    readonly requestId = "",
    /** Seconds, when the service names them. */
    readonly retryAfter: number | null = null,
  ) {
    super(detail);
  }
}

export type Params = Record<string, string | number | boolean | null | undefined>;

const chosen = "parley.organization";
let organization: string | null = stored();
let demo = false;

function stored(): string | null {
  try {
    return localStorage.getItem(chosen);
  } catch {
    return null; // storage is closed to us: the oldest membership it is
  }
}

/** Acts in another organization from the next request on; null is the oldest membership. */
export function chooseOrganization(id: string | null): void {
  organization = id;
  try {
    if (id === null) localStorage.removeItem(chosen);
    else localStorage.setItem(chosen, id);
  } catch {
    // it holds until the page is left
  }
}

export const chosenOrganization = (): string | null => organization;

/** Sends what follows as a visitor of the demo, without anybody's cookie. */
export function enterDemo(on: boolean): void {
  demo = on;
}

export const inDemo = (): boolean => demo;

/** The headers that say who acts and where. */
export function identity(): Record<string, string> {
  if (demo) return { "x-tenant-id": "tenant_demo" };
  return organization === null ? {} : { "x-organization-id": organization };
}

/** Whether cookies go along. */
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

async function send<T>(method: string, url: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = identity();
  if (body !== undefined) headers["content-type"] = "application/json";
  const ask = async () => {
    const response = await fetch(url, { method, headers, credentials: credentials(), body: body === undefined ? undefined : JSON.stringify(body), signal });
    if (!response.ok) throw await problemOf(response);
    return (response.status === 204 ? undefined : await response.json()) as T;
  };
  return reached(ask, signal, method === "GET" ? askAgain : lookFirst);
}

const askAgain = "The service cannot be reached. Check the connection and try again.";

/** Of what was to be done, and nobody says whether it was: browsers do not tell a service that is away from an answer that is lost. */
export const lookFirst = "The service cannot be reached, or its answer was lost. See whether it was done before you try again.";

/** What asking brings. Where nothing answers, the way breaks while an answer comes, or a good answer is not the service's, it was not reached. */
export async function reached<T>(ask: () => Promise<T>, signal?: AbortSignal, otherwise = askAgain): Promise<T> {
  try {
    return await ask();
  } catch (cause) {
    if (signal?.aborted || cause instanceof ApiError) throw cause;
    throw new ApiError(0, "unreachable", otherwise);
  }
}

/** Reads a refusal; one for want of a session leads to the login page. */
export async function problemOf(response: Response): Promise<ApiError> {
  const wait = Number(response.headers.get("retry-after"));
  const problem: Record<string, unknown> = await response.json().catch(() => ({}));
  const foreign = (problem["error"] ?? {}) as Record<string, unknown>; // as OpenAI's clients read it
  const error = new ApiError(
    response.status,
    String(problem["code"] ?? foreign["code"] ?? "unknown"),
    String(problem["detail"] ?? problem["title"] ?? foreign["message"] ?? `The service answered ${response.status}.`),
    Array.isArray(problem["errors"]) ? (problem["errors"] as FieldError[]) : [],
    response.headers.get("x-request-id") ?? "",
    wait > 0 ? wait : null,
  );
  if (error.status === 401 && !demo) toLogin();
  if (error.status === 403 && organization !== null && error.code === "permission_denied") void forgetLostOrganization().catch(() => undefined);
  return error;
}

export function toLogin(): void {
  location.assign("/login?next=" + encodeURIComponent(location.pathname + location.search));
}

/** Somebody who was removed from the chosen organization would be refused everywhere. */
async function forgetLostOrganization(): Promise<void> {
  const response = await fetch("/api/auth/session", { credentials: "same-origin" });
  if (!response.ok) return;
  const session = (await response.json()) as { organizations: { id: string }[] };
  if (session.organizations.some((o) => o.id === organization)) return;
  chooseOrganization(null);
  location.reload();
}
