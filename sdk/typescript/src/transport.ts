import { Bounds } from "./bounds.js";
import { ConnectionError, errorOf, NotFoundError, ParleyError } from "./errors.js";
import { idOf } from "./given.js";
import { retryDelay, sleep } from "./retry.js";
import type { Deleted } from "./types.js";

/** What a single call may have otherwise than its client. */
export interface RequestOptions {
  /**
   * Ends the call, its retries and its waiting; the call is rejected with the signal's reason. A run that was waited for goes on: the
   * `WaitEndedError` says how it is found.
   */
  signal?: AbortSignal | undefined;
  /** Milliseconds that one request may take; a call that waits for a run makes as many as it takes. */
  timeout?: number | undefined;
  /** How often a request that failed is sent again. */
  maxRetries?: number | undefined;
}

/** What is sent in the query; what is undefined is left out, lists are repeated. */
export type Query = Readonly<Record<string, string | number | boolean | readonly string[] | null | undefined>>;

/** One request to the service. */
export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly query?: Query;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly body?: object;
  /** Sent twice it acts like once: true unless it is said. */
  readonly repeatable?: boolean;
  /** Called when it is sent again although the service may have carried it out. */
  readonly onLost?: () => void;
}

/** What all calls of a client share. */
export interface Settings {
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly maxRetries: number;
  readonly timeout: number;
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
}

/** A response whose body is still to be read. */
export interface Opened {
  readonly response: Response;
  readonly bounds: Bounds;
}

/** Carries calls to the service: addresses, credentials, time limits and retries. */
export class Transport {
  readonly #settings: Settings;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /** How often a call is repeated. */
  retries(options: RequestOptions): number {
    return options.maxRetries ?? this.#settings.maxRetries;
  }

  /** How many milliseconds a request of a call may take. */
  timeout(options: RequestOptions): number {
    return options.timeout ?? this.#settings.timeout;
  }

  /** Carries a call out and gives the JSON of its answer. */
  async json<T>(call: Call, options: RequestOptions = {}): Promise<T> {
    return this.#persist(call, options, async (response, bounds) => {
      const text = await response.text();
      bounds.close();
      try {
        return JSON.parse(text) as T;
      } catch (cause) {
        throw new ParleyError(`${call.path} was answered with something that is not JSON: is baseUrl right?`, { cause });
      }
    });
  }

  /** Deletes what has an id. When the answer was lost and the thing is found gone then, it was this call that deleted it. */
  async delete(path: string, id: string, options: RequestOptions = {}): Promise<Deleted> {
    let lost = false;
    const onLost = (): void => void (lost = true);
    return this.json<Deleted>({ method: "DELETE", path, query: { id: idOf(id) }, onLost }, options).catch((error: unknown) => {
      if (lost && error instanceof NotFoundError) return { id, deleted: true };
      throw error;
    });
  }

  /** Carries a call out up to the body of its answer, which the caller reads and then closes. */
  async open(call: Call, options: RequestOptions): Promise<Opened> {
    return this.#persist(call, options, async (response, bounds) => ({ response, bounds }));
  }

  async #persist<T>(call: Call, options: RequestOptions, take: (response: Response, bounds: Bounds) => Promise<T>): Promise<T> {
    const { fetch, baseUrl } = this.#settings;
    const url = baseUrl + call.path + queryOf(call.query);
    const init = this.#initOf(call);
    for (let failures = 0; ; failures++) {
      const bounds = new Bounds(options.signal);
      bounds.wind(this.timeout(options));
      try {
        const response = await fetch(url, { ...init, signal: bounds.signal });
        if (!response.ok) throw errorOf(response.status, response.headers, await response.text());
        return await take(response, bounds);
      } catch (thrown) {
        const error = bounds.error(thrown);
        bounds.close();
        const delay = retryDelay(error, failures, call.repeatable ?? true);
        if (delay === undefined || failures >= this.retries(options)) throw error;
        if (error instanceof ConnectionError) call.onLost?.();
        await sleep(delay, options.signal);
      }
    }
  }

  #initOf({ method, headers, body }: Call): RequestInit {
    const form = body instanceof FormData;
    const typed = body && !form ? { "Content-Type": "application/json" } : {};
    return {
      method,
      headers: headersOf({ ...this.#settings.headers, ...typed, ...headers }),
      body: form ? body : body && JSON.stringify(body),
      redirect: "manual", // a key goes to the service that it is for, and nowhere else
    };
  }
}

function queryOf(query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null) search.append(name, String(one));
    }
  }
  return search.size > 0 ? `?${search}` : "";
}

// fetch takes bytes in headers, each as a character: names of automations and keys may be any text.
function headersOf(headers: Record<string, string | undefined>): Record<string, string> {
  const sent: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined) continue;
    if (/[\0\r\n]/.test(value)) throw new ParleyError(`${name} has a line break in it`);
    sent[name] = Array.from(new TextEncoder().encode(value), (byte) => String.fromCharCode(byte)).join("");
  }
  return sent;
}
