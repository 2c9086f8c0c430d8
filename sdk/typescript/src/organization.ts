import { checkId } from "./given.js";
import { list, type PagePromise } from "./page.js";
import type { RequestOptions, Transport } from "./transport.js";
import type {
  Budget, BudgetChange, Deleted, GetBudgetsQuery, GetKeysQuery, GetUsageQuery, Key, KeyRotation, KeyWithSecret, Limits, NewBudget, NewKey,
  UsageReport,
} from "./types.js";

/** A page of the keys. */
export type KeyQuery = Omit<GetKeysQuery, "id">;

/** A page of the budgets. */
export type BudgetQuery = Omit<GetBudgetsQuery, "id">;

/**
 * Selects the runs that are counted. `days` is the number of days, by default 7. `by` groups the
 * counts.
 */
export type UsageQuery = GetUsageQuery;

/** API keys. */
export class Keys {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Creates a key. The key itself is shown only in this result. The request is not repeated if the
   * service may have executed it.
   */
  create(key: NewKey, options?: RequestOptions): Promise<KeyWithSecret> {
    return this.#transport.json({ method: "POST", path: "/api/keys", body: key, repeatable: false }, options);
  }

  /** Reads a key, without its secret. */
  async get(id: string, options?: RequestOptions): Promise<Key> {
    return this.#transport.json({ method: "GET", path: "/api/keys", query: { id: checkId(id) } }, options);
  }

  /** Lists the caller's own keys, or all keys of the organization if the caller is an admin. */
  list(query: KeyQuery = {}, options?: RequestOptions): PagePromise<Key> {
    return list(this.#transport, "/api/keys", { ...query }, options);
  }

  /** Replaces a key with a new key. The old key stays valid for `overlapSeconds`. */
  async rotate(id: string, rotation: KeyRotation = {}, options?: RequestOptions): Promise<KeyWithSecret> {
    const query = { id: checkId(id), action: "rotate" };
    return this.#transport.json({ method: "POST", path: "/api/keys", query, body: rotation, repeatable: false }, options);
  }

  /** Revokes a key. It stops working within 5 seconds. */
  delete(id: string, options?: RequestOptions): Promise<Deleted> {
    return this.#transport.delete("/api/keys", id, options);
  }
}

/** Counts, costs and limits. */
export class UsageReports {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Counts runs, tokens, costs and latencies by hour or by day. Only admins may call it. */
  get(query: UsageQuery = {}, options?: RequestOptions): Promise<UsageReport> {
    return this.#transport.json({ method: "GET", path: "/api/usage", query: { ...query } }, options);
  }

  /** Reads the organization's limits and how much of them is used. */
  limits(options?: RequestOptions): Promise<Limits> {
    return this.#transport.json({ method: "GET", path: "/api/organizations/limits" }, options);
  }
}

/** Hard limits on tokens and costs. Only admins may read or change these limits. */
export class Budgets {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Creates a budget. The request is not repeated if the service may have executed it. */
  create(budget: NewBudget, options?: RequestOptions): Promise<Budget> {
    return this.#transport.json({ method: "POST", path: "/api/budgets", body: budget, repeatable: false }, options);
  }

  /** Reads a budget and the amounts used and reserved in the current period. */
  async get(id: string, options?: RequestOptions): Promise<Budget> {
    return this.#transport.json({ method: "GET", path: "/api/budgets", query: { id: checkId(id) } }, options);
  }

  /** Lists budgets. */
  list(query: BudgetQuery = {}, options?: RequestOptions): PagePromise<Budget> {
    return list(this.#transport, "/api/budgets", { ...query }, options);
  }

  /** Changes a budget's limit. */
  async update(id: string, change: BudgetChange, options?: RequestOptions): Promise<Budget> {
    return this.#transport.json({ method: "PUT", path: "/api/budgets", query: { id: checkId(id) }, body: change }, options);
  }

  /** Deletes a budget. Its limit no longer applies. */
  delete(id: string, options?: RequestOptions): Promise<Deleted> {
    return this.#transport.delete("/api/budgets", id, options);
  }
}
