import { checkId } from "./given.js";
import { list, type PagePromise } from "./page.js";
import type { RequestOptions, Transport } from "./transport.js";
import type {
  Deleted, Delivery, DeliveryWithBody, GetDeliveriesQuery, GetHooksQuery, Hook, HookChange, HookRotation, HookTest, NewHook, TakenDelivery,
} from "./types.js";

/** A page of the hooks. */
export type HookQuery = Omit<GetHooksQuery, "id">;

/** A filter for deliveries. */
export type DeliveryQuery = Omit<GetDeliveriesQuery, "id">;

const path = "/api/hooks";
const deliveries = "/api/hooks/deliveries";

/** The webhooks that start runs, and their deliveries. Only admins may use them. */
export class Hooks {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Creates a hook. A secret that the service generates is shown only in this result. The request
   * is not repeated if the service may have executed it.
   */
  create(hook: NewHook, options?: RequestOptions): Promise<Hook> {
    return this.#transport.json({ method: "POST", path, body: hook, repeatable: false }, options);
  }

  /** Reads a hook. */
  async get(id: string, options?: RequestOptions): Promise<Hook> {
    return this.#transport.json({ method: "GET", path, query: { id: checkId(id) } }, options);
  }

  /** Lists hooks, newest first. */
  list(query: HookQuery = {}, options?: RequestOptions): PagePromise<Hook> {
    return list(this.#transport, path, { ...query }, options);
  }

  /** Changes a hook. Omitted fields keep their values. */
  async update(id: string, change: HookChange, options?: RequestOptions): Promise<Hook> {
    return this.#transport.json({ method: "PUT", path, query: { id: checkId(id) }, body: change }, options);
  }

  /** Sets a new secret. The previous one stays valid for `keepSeconds`. */
  async rotateSecret(id: string, rotation: HookRotation = {}, options?: RequestOptions): Promise<Hook> {
    return this.#transport.json({ method: "POST", path, query: { id: checkId(id), action: "rotate" }, body: rotation, repeatable: false }, options);
  }

  /** Sends a delivery, signed as the source would sign it. */
  async test(id: string, test: HookTest = {}, options?: RequestOptions): Promise<TakenDelivery> {
    return this.#transport.json({ method: "POST", path, query: { id: checkId(id), action: "test" }, body: test, repeatable: false }, options);
  }

  /** Deletes a hook and its deliveries. The runs that the deliveries started are kept. */
  delete(id: string, options?: RequestOptions): Promise<Deleted> {
    return this.#transport.delete(path, id, options);
  }

  /** Lists deliveries, newest first. */
  listDeliveries(query: DeliveryQuery = {}, options?: RequestOptions): PagePromise<Delivery> {
    return list(this.#transport, deliveries, { ...query }, options);
  }

  /** Reads a delivery to a hook, with its body. */
  async getDelivery(hookId: string, id: string, options?: RequestOptions): Promise<DeliveryWithBody> {
    return this.#transport.json({ method: "GET", path: deliveries, query: { hookId: checkId(hookId), id: checkId(id) } }, options);
  }

  /** Starts a new run from a stored delivery. */
  async redeliver(hookId: string, id: string, options?: RequestOptions): Promise<TakenDelivery> {
    const query = { hookId: checkId(hookId), id: checkId(id), action: "redeliver" };
    return this.#transport.json({ method: "POST", path: deliveries, query, repeatable: false }, options);
  }
}
