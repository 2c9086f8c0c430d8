import { checkId } from "./given.js";
import { list, type PagePromise } from "./page.js";
import type { RequestOptions, Transport } from "./transport.js";
import type { Deleted, GetSessionsQuery, Session, SessionWithMessages } from "./types.js";

/** A filter for sessions. `principal` is for admins, who may read the sessions of others. */
export type SessionQuery = Pick<GetSessionsQuery, "principal" | "limit" | "cursor">;

/**
 * Selects one of several sessions that have the same id, by the session's agent or template. Admins
 * can also select by the session's principal.
 */
export type SessionSelector = Pick<GetSessionsQuery, "agentId" | "templateId" | "principal">;

const path = "/api/sessions";

/** Chats with their messages. */
export class Sessions {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Reads a session with its messages, oldest first. `limit` is a number of turns. The result's
   * `nextCursor` leads to older turns.
   */
  async get(id: string, query: SessionSelector & { limit?: number; cursor?: string } = {}, options?: RequestOptions): Promise<SessionWithMessages> {
    return this.#transport.json({ method: "GET", path, query: { ...query, id: checkId(id) } }, options);
  }

  /**
   * Lists the caller's sessions, or all sessions of the organization if the caller is an admin. The
   * newest comes first.
   */
  list(query: SessionQuery = {}, options?: RequestOptions): PagePromise<Session> {
    return list(this.#transport, path, { ...query }, options);
  }

  /** Erases a session: its messages, and the texts, steps and events of its runs. */
  delete(id: string, query: SessionSelector = {}, options?: RequestOptions): Promise<Deleted> {
    return this.#transport.delete(path, id, options, { ...query });
  }
}
