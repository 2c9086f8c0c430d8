import { Bounds } from "./bounds.js";
import { ConnectionError, CrossOriginError, newAPIError, NotFoundError, ParleyError } from "./errors.js";
import { checkId } from "./given.js";
import { retryDelay, sleep } from "./retry.js";
import type { Deleted } from "./types.js";

/** The options of a single call, which override the client's. */
export interface RequestOptions {
  /**
   * Ends the call, its retries and its waiting. The call rejects with the signal's reason. If a run
   * was awaited, it continues, and the call rejects with a `WaitEndedError` that identifies it.
   */
  signal?: AbortSignal | undefined;
  /**
   * Maximum milliseconds per request. A call that waits for a run makes as many requests as needed.
   */
  timeout?: number | undefined;
  /** How many times a failed request is sent again. */
  maxRetries?: number | undefined;
}

/**
 * Query parameters. Undefined and null values are omitted, and lists become repeated parameters.
 */
export type Query = Readonly<Record<string, string | number | boolean | readonly string[] | null | undefined>>;

/** A request to the service. */
export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly query?: Query;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly body?: object;
  /**
   * Whether sending the request twice has the same effect as sending it once. The default is true.
   */
  readonly repeatable?: boolean;
  /** Called before a retry if the service may have executed the request. */
  readonly onLost?: () => void;
}

/** The settings that all calls of a client share. */
export interface Settings {
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly maxRetries: number;
  readonly timeout: number;
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
}

/** A response whose body has not been read. */
export interface Opened {
  readonly response: Response;
  readonly bounds: Bounds;
}

/** Sends calls to the service. It adds the URL and the credential, and handles timeouts and retries. */
export class Transport {
  readonly #settings: Settings;
  #reached = false; // whether the service has responded at least once

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /** Returns the maximum number of retries of a call. */
  retries(options: RequestOptions): number {
    return options.maxRetries ?? this.#settings.maxRetries;
  }

  /** Returns the timeout of a call's requests in milliseconds. */
  timeout(options: RequestOptions): number {
    return options.timeout ?? this.#settings.timeout;
  }

  /** Sends a call and returns the JSON of its response. */
  async json<T>(call: Call, options: RequestOptions = {}): Promise<T> {
    return this.#persist(call, options, async (response, bounds) => {
      const text = await response.text();
      bounds.close();
      try {
        return JSON.parse(text) as T;
      } catch (cause) {
        throw new ParleyError(`${call.path}: the response is not JSON; check baseUrl`, { cause });
      }
    });
  }

  /** Sends a call and returns the content of its response. */
  async blob(call: Call, options: RequestOptions = {}): Promise<Blob> {
    return this.#persist(call, options, async (response, bounds) => {
      const content = await response.blob();
      bounds.close();
      return content;
    });
  }

  /**
   * Deletes the object with an id. If the response was lost and a retry reports that the object
   * does not exist, the call succeeds, because the first request has deleted it.
   */
  async delete(path: string, id: string, options: RequestOptions = {}, query: Query = {}): Promise<Deleted> {
    let lost = false;
    const onLost = (): void => void (lost = true);
    return this.json<Deleted>({ method: "DELETE", path, query: { ...query, id: checkId(id) }, onLost }, options).catch((error: unknown) => {
      if (lost && error instanceof NotFoundError) return { id, deleted: true };
      throw error;
    });
  }

  /**
   * Sends a call and returns its response with an unread body. The caller must read and close it.
   * Earlier failures of the caller count as retries and lengthen the pauses.
   */
  async open(call: Call, options: RequestOptions, failures = 0): Promise<Opened> {
    return this.#persist(call, options, async (response, bounds) => ({ response, bounds }), failures);
  }

  async #persist<T>(
    call: Call, options: RequestOptions, take: (response: Response, bounds: Bounds) => Promise<T>, failures = 0,
  ): Promise<T> {
    const { fetch, baseUrl } = this.#settings;
    const url = baseUrl + call.path + formatQuery(call.query);
    const init = this.#newInit(call);
    for (; ; failures++) {
      const bounds = new Bounds(options.signal);
      bounds.restartTimeout(this.timeout(options));
      try {
        const response = await fetch(url, { ...init, signal: bounds.signal });
        this.#reached = true;
        if (!response.ok) throw newAPIError(response.status, response.headers, await response.text());
        return await take(response, bounds);
      } catch (thrown) {
        const error = this.#explained(thrown, bounds.error(thrown));
        bounds.close();
        const delay = retryDelay(error, failures, call.repeatable ?? true);
        if (delay === undefined || failures >= this.retries(options)) throw error;
        if (error instanceof ConnectionError) call.onLost?.();
        await sleep(delay, options.signal);
      }
    }
  }

  // Browsers report a withheld response in the same way as a broken connection: as a TypeError
  // without a reason.
  #explained(thrown: unknown, error: unknown): unknown {
    const origin = pageOrigin();
    const foreign = origin !== undefined && origin !== new URL(this.#settings.baseUrl).origin;
    if (this.#reached || !foreign || !(thrown instanceof TypeError) || !(error instanceof ConnectionError)) return error;
    return new CrossOriginError(origin, this.#settings.baseUrl, thrown);
  }

  #newInit({ method, headers, body }: Call): RequestInit {
    const form = body instanceof FormData;
    const typed = body && !form ? { "Content-Type": "application/json" } : {};
    return {
      method,
      headers: encodeHeaders({ ...this.#settings.headers, ...typed, ...headers }),
      body: form ? body : body && JSON.stringify(body),
      redirect: "manual", // redirects are not followed, because the key must never be sent to another host
    };
  }
}

/** Returns the origin of the page in which the program runs, or undefined outside of browsers. */
function pageOrigin(): string | undefined {
  const browser = "document" in globalThis || "WorkerGlobalScope" in globalThis;
  return browser ? (globalThis as { location?: { origin: string } }).location?.origin : undefined;
}

function formatQuery(query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null) search.append(name, String(one));
    }
  }
  return search.size > 0 ? `?${search}` : "";
}

// fetch sends one byte per character of a header. Names of automations and keys may contain any
// characters, so their UTF-8 bytes are passed as characters.
function encodeHeaders(headers: Record<string, string | undefined>): Record<string, string> {
  const sent: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined) continue;
    if (/[\0\r\n]/.test(value)) throw new ParleyError(`${name} contains a line break`);
    sent[name] = Array.from(new TextEncoder().encode(value), (byte) => String.fromCharCode(byte)).join("");
  }
  return sent;
}
