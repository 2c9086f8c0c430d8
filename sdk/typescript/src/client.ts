import { Agents, Templates } from "./agents.js";
import { Automations } from "./automations.js";
import { newChat, type Chat } from "./chat.js";
import { ParleyError } from "./errors.js";
import { Files, Sources } from "./files.js";
import { Hooks } from "./hooks.js";
import { Knowledge } from "./knowledge.js";
import { Notifications } from "./notifications.js";
import { Budgets, Keys, UsageReports } from "./organization.js";
import { Runs } from "./runs.js";
import { Sessions } from "./sessions.js";
import { Transport, type Settings } from "./transport.js";

/** The settings of a client. Missing settings come from the environment, if the runtime has one. */
export interface ParleyOptions {
  /** An API key, a session token or a widget token. The default is `PARLEY_API_KEY`. */
  apiKey?: string | undefined;
  /** The URL of the service. The default is `PARLEY_BASE_URL`, or http://127.0.0.1:8080. */
  baseUrl?: string | undefined;
  /**
   * The organization in which requests act. It is required with a user's key. The default is
   * `PARLEY_ORGANIZATION_ID`.
   */
  organizationId?: string | undefined;
  /** Demo mode, without a key: lists templates and chats with them. */
  demo?: boolean | undefined;
  /** How many times a failed request is sent again. The default is 2. */
  maxRetries?: number | undefined;
  /** Maximum milliseconds per request. The default is 75,000. */
  timeout?: number | undefined;
  /** A replacement for the global `fetch`. */
  fetch?: Settings["fetch"] | undefined;
}

/** A client for Parley. */
export class Parley {
  /** Creates, reads, lists, changes and deletes agents. */
  readonly agents: Agents;
  /** The templates of agents. */
  readonly templates: Templates;
  /**
   * `chat(…)` sends a message and returns its run. `chat.stream(…)` returns the run's events as
   * they happen.
   */
  readonly chat: Chat;
  /** Runs agents from schedulers and services. */
  readonly automations: Automations;
  /** Runs started by messages and triggers. */
  readonly runs: Runs;
  /** Chats with their messages. */
  readonly sessions: Sessions;
  /** The documents that agents search and cite. */
  readonly knowledge: Knowledge;
  /** The files that runs created, and uploads for messages. */
  readonly files: Files;
  /** The texts that answers cite. */
  readonly sources: Sources;
  /** The webhooks that start runs, and their deliveries. */
  readonly hooks: Hooks;
  /** The organization's endpoints, to which the service sends events. */
  readonly notifications: Notifications;
  /** API keys. */
  readonly keys: Keys;
  /** Counts, costs and limits. */
  readonly usage: UsageReports;
  /** Hard limits on tokens and costs. */
  readonly budgets: Budgets;

  constructor(options: ParleyOptions = {}) {
    const { maxRetries = 2, timeout = 75_000, fetch = globalThis.fetch.bind(globalThis) } = options;
    const transport = new Transport({ baseUrl: readBaseUrl(options), headers: clientHeaders(options), maxRetries, timeout, fetch });
    this.agents = new Agents(transport);
    this.templates = new Templates(transport);
    this.runs = new Runs(transport);
    this.chat = newChat(transport, this.runs, isVisitor(options));
    this.automations = new Automations(transport, this.runs);
    this.sessions = new Sessions(transport);
    this.knowledge = new Knowledge(transport);
    this.files = new Files(transport);
    this.sources = new Sources(transport);
    this.hooks = new Hooks(transport);
    this.notifications = new Notifications(transport);
    this.keys = new Keys(transport);
    this.usage = new UsageReports(transport);
    this.budgets = new Budgets(transport);
  }
}

function readBaseUrl({ baseUrl }: ParleyOptions): string {
  const address = baseUrl ?? environment("PARLEY_BASE_URL") ?? "http://127.0.0.1:8080";
  const web = /^https?:\/\//i.test(address) && URL.canParse(address);
  if (!web) throw new ParleyError(`baseUrl must be an http or https URL, not ${address}`);
  return address.replace(/\/+$/, "");
}

function clientHeaders(options: ParleyOptions): Record<string, string> {
  const organization = options.organizationId ?? environment("PARLEY_ORGANIZATION_ID");
  return { ...credentialHeaders(options), ...(organization && !options.demo && { "x-organization-id": organization }) };
}

function credentialHeaders(options: ParleyOptions): Record<string, string> {
  const key = credential(options);
  if (options.demo) {
    if (key) throw new ParleyError("apiKey is not allowed with demo");
    return { "x-tenant-id": "tenant_demo" };
  }
  if (key) return key.startsWith("ak_") ? { "x-api-key": key } : { Authorization: `Bearer ${key}` };
  // A page may authenticate with its own session cookie instead of a key.
  if ("document" in globalThis || "WorkerGlobalScope" in globalThis) return {};
  throw new ParleyError("no API key; pass apiKey or set PARLEY_API_KEY, or pass { demo: true } to chat with templates");
}

function credential({ apiKey, demo }: ParleyOptions): string | undefined {
  if (apiKey?.trim() === "") throw new ParleyError("apiKey is blank");
  const key = (apiKey ?? (demo ? undefined : environment("PARLEY_API_KEY")))?.trim();
  if (key && !/^[\x21-\x7e]+$/.test(key)) throw new ParleyError("apiKey contains invalid characters");
  return key;
}

function isVisitor(options: ParleyOptions): boolean {
  return options.demo === true || credential(options)?.startsWith("wt_") === true;
}

// Browsers have no environment, and some runtimes restrict access to it.
function environment(name: string): string | undefined {
  try {
    const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
    return process?.env?.[name]?.trim() || undefined;
  } catch {
    return undefined;
  }
}
