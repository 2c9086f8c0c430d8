import { checkId } from "./given.js";
import { list, type PagePromise } from "./page.js";
import type { RequestOptions, Transport } from "./transport.js";
import type {
  Agent, AgentChange, AgentCheck, Deleted, GetAgentsQuery, GetTemplatesQuery, ImportedEndpoints, NewAgent, OpenApiImport, PromptPreview,
  PromptPreviewRequest, Template,
} from "./types.js";

/** A filter for agents. `q` is a text that the agents' names contain. */
export type AgentQuery = Omit<GetAgentsQuery, "id">;

/** A page of the templates. */
export type TemplateQuery = Omit<GetTemplatesQuery, "id">;

const path = "/api/agents";

/** The organization's agents. */
export class Agents {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Creates an agent, from scratch or from a template. The request is not repeated if the service
   * may have executed it.
   */
  create(agent: NewAgent, options?: RequestOptions): Promise<Agent> {
    return this.#transport.json({ method: "POST", path, body: agent, repeatable: false }, options);
  }

  /** Reads an agent. */
  async get(id: string, options?: RequestOptions): Promise<Agent> {
    return this.#transport.json({ method: "GET", path, query: { id: checkId(id) } }, options);
  }

  /** Lists agents, newest first. */
  list(query: AgentQuery = {}, options?: RequestOptions): PagePromise<Agent> {
    return list(this.#transport, path, { ...query }, options);
  }

  /**
   * Changes an agent. Omitted fields keep their values. With `version`, the change fails if the
   * agent has another version.
   */
  async update(id: string, change: AgentChange, options?: RequestOptions): Promise<Agent> {
    return this.#transport.json({ method: "PUT", path, query: { id: checkId(id) }, body: change }, options);
  }

  /** Deletes an agent. */
  delete(id: string, options?: RequestOptions): Promise<Deleted> {
    return this.#transport.delete(path, id, options);
  }

  /** Adds the operations of an OpenAPI 3 document to an agent's endpoints. */
  async importEndpoints(id: string, from: OpenApiImport, options?: RequestOptions): Promise<ImportedEndpoints> {
    return this.#transport.json({ method: "POST", path, query: { id: checkId(id), action: "import-openapi" }, body: from }, options);
  }

  /**
   * Tries the connections of an agent: its models, MCP servers, search provider and endpoints. It
   * takes at most 30 seconds.
   */
  async check(id: string, options?: RequestOptions): Promise<AgentCheck> {
    return this.#transport.json({ method: "POST", path, query: { id: checkId(id), action: "check" }, repeatable: false }, options);
  }

  /** Returns an agent's system prompt, or the given one, with its variables replaced by values. */
  async preview(id: string, body: PromptPreviewRequest = {}, options?: RequestOptions): Promise<PromptPreview> {
    return this.#transport.json({ method: "POST", path, query: { id: checkId(id), action: "preview" }, body }, options);
  }
}

/** Lists the templates. Every caller may chat with them. */
export class Templates {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Reads a template. */
  async get(id: string, options?: RequestOptions): Promise<Template> {
    return this.#transport.json({ method: "GET", path: "/api/agents/templates", query: { id: checkId(id) } }, options);
  }

  /** Lists templates. */
  list(query: TemplateQuery = {}, options?: RequestOptions): PagePromise<Template> {
    return list(this.#transport, "/api/agents/templates", { ...query }, options);
  }
}
