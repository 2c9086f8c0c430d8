import { idOf } from "./given.js";
import { list, type PagePromise } from "./page.js";
import type { RequestOptions, Transport } from "./transport.js";
import type { Agent, AgentChange, Deleted, GetAgentsQuery, GetTemplatesQuery, NewAgent, Template } from "./types.js";

/** Which agents to list; with `q` those with this text in their name. */
export type AgentQuery = Omit<GetAgentsQuery, "id">;

/** Which page of the templates to list. */
export type TemplateQuery = GetTemplatesQuery;

const path = "/api/agents";

/** The agents of the organization. */
export class Agents {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Creates an agent, from scratch or from a template. When it is not known whether the service did, it is not tried again. */
  create(agent: NewAgent, options?: RequestOptions): Promise<Agent> {
    return this.#transport.json({ method: "POST", path, body: agent, repeatable: false }, options);
  }

  /** Reads an agent. */
  async get(id: string, options?: RequestOptions): Promise<Agent> {
    return this.#transport.json({ method: "GET", path, query: { id: idOf(id) } }, options);
  }

  /** Lists agents, newest first. */
  list(query: AgentQuery = {}, options?: RequestOptions): PagePromise<Agent> {
    return list(this.#transport, path, { ...query }, options);
  }

  /** Changes an agent: what is left out keeps its value. With `version`, only if the agent has it still. */
  async update(id: string, change: AgentChange, options?: RequestOptions): Promise<Agent> {
    return this.#transport.json({ method: "PUT", path, query: { id: idOf(id) }, body: change }, options);
  }

  /** Deletes an agent. */
  delete(id: string, options?: RequestOptions): Promise<Deleted> {
    return this.#transport.delete(path, id, options);
  }
}

/** The ready-made agents that everybody may chat with. */
export class Templates {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists templates. */
  list(query: TemplateQuery = {}, options?: RequestOptions): PagePromise<Template> {
    return list(this.#transport, "/api/agents/templates", { ...query }, options);
  }
}
