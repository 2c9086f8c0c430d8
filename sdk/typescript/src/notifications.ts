import { checkId } from "./given.js";
import { list, type PagePromise } from "./page.js";
import type { RequestOptions, Transport } from "./transport.js";
import type {
  Deleted, GetNotificationMessagesQuery, GetNotificationsQuery, NewNotificationEndpoint, NotificationEndpoint, NotificationEndpointChange,
  NotificationMessage,
} from "./types.js";

/** A page of the endpoints. */
export type EndpointQuery = Omit<GetNotificationsQuery, "id">;

/** A filter for messages. */
export type NotificationQuery = Omit<GetNotificationMessagesQuery, "id">;

const path = "/api/notifications";
const messages = "/api/notifications/messages";

/**
 * The endpoints that receive the organization's events, and the messages that were sent to them.
 * Only admins may use them.
 */
export class Notifications {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Creates an endpoint. Its secret is shown only in this result. The request is not repeated if
   * the service may have executed it.
   */
  create(endpoint: NewNotificationEndpoint, options?: RequestOptions): Promise<NotificationEndpoint> {
    return this.#transport.json({ method: "POST", path, body: endpoint, repeatable: false }, options);
  }

  /** Reads an endpoint. */
  async get(id: string, options?: RequestOptions): Promise<NotificationEndpoint> {
    return this.#transport.json({ method: "GET", path, query: { id: checkId(id) } }, options);
  }

  /** Lists endpoints. */
  list(query: EndpointQuery = {}, options?: RequestOptions): PagePromise<NotificationEndpoint> {
    return list(this.#transport, path, { ...query }, options);
  }

  /** Changes an endpoint. Omitted fields keep their values. */
  async update(id: string, change: NotificationEndpointChange, options?: RequestOptions): Promise<NotificationEndpoint> {
    return this.#transport.json({ method: "PUT", path, query: { id: checkId(id) }, body: change }, options);
  }

  /**
   * Creates a new secret, which is shown only in this result. For a day, requests also carry a
   * signature with the old secret.
   */
  async rotateSecret(id: string, options?: RequestOptions): Promise<NotificationEndpoint> {
    return this.#transport.json({ method: "POST", path, query: { id: checkId(id), action: "rotate" }, repeatable: false }, options);
  }

  /** Sends a ping to an endpoint. `getMessage` shows the outcome. */
  async test(id: string, options?: RequestOptions): Promise<NotificationMessage> {
    return this.#transport.json({ method: "POST", path, query: { id: checkId(id), action: "test" }, repeatable: false }, options);
  }

  /** Deletes an endpoint and its messages. */
  delete(id: string, options?: RequestOptions): Promise<Deleted> {
    return this.#transport.delete(path, id, options);
  }

  /** Lists messages to endpoints, newest first. */
  listMessages(query: NotificationQuery = {}, options?: RequestOptions): PagePromise<NotificationMessage> {
    return list(this.#transport, messages, { ...query }, options);
  }

  /** Reads a message with its payload. */
  async getMessage(id: string, options?: RequestOptions): Promise<NotificationMessage> {
    return this.#transport.json({ method: "GET", path: messages, query: { id: checkId(id) } }, options);
  }

  /** Sends a message again, under the same id. */
  async resend(id: string, options?: RequestOptions): Promise<NotificationMessage> {
    return this.#transport.json({ method: "POST", path: messages, query: { id: checkId(id), action: "resend" } }, options);
  }
}
