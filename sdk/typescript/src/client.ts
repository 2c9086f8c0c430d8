import { Agents, Templates } from "./agents.js";
import { Automations } from "./automations.js";
import { chatOf, type Chat } from "./chat.js";
import { ParleyError } from "./errors.js";
import { Knowledge } from "./knowledge.js";
import { Runs } from "./runs.js";
import { Transport, type Settings } from "./transport.js";

/** How a client reaches the service. What is left out comes from the environment, where there is one. */
export interface ParleyOptions {
  /** An API key; `PARLEY_API_KEY` unless given. A session token or a widget token does as well. */
  apiKey?: string | undefined;
  /** Where the service is; `PARLEY_BASE_URL` unless given, and without that http://127.0.0.1:8080. */
  baseUrl?: string | undefined;
  /** The organization to act in, which a user's key needs; `PARLEY_ORGANIZATION_ID` unless given. */
  organizationId?: string | undefined;
  /** Demo mode: lists templates and chats with them, without a key. */
  demo?: boolean | undefined;
  /** How often a request that failed is sent again; 2 unless given. */
  maxRetries?: number | undefined;
  /** Milliseconds that one request may take; 75,000 unless given. */
  timeout?: number | undefined;
  /** What to fetch with, instead of the global `fetch`. */
  fetch?: Settings["fetch"] | undefined;
}

/** A client of Parley. */
export class Parley {
  /** Agents: create, read, list, change, delete. */
  readonly agents: Agents;
  /** Ready-made agents. */
  readonly templates: Templates;
  /** `chat(…)` sends a message and gives its run, `chat.stream(…)` gives the run's events as they happen. */
  readonly chat: Chat;
  /** Runs agents from schedulers and services. */
  readonly automations: Automations;
  /** What came of messages and triggers. */
  readonly runs: Runs;
  /** The documents that agents search and cite. */
  readonly knowledge: Knowledge;

  constructor(options: ParleyOptions = {}) {
    const { maxRetries = 2, timeout = 75_000, fetch = globalThis.fetch.bind(globalThis) } = options;
    const transport = new Transport({ baseUrl: baseUrlOf(options), headers: headersOf(options), maxRetries, timeout, fetch });
    this.agents = new Agents(transport);
    this.templates = new Templates(transport);
    this.runs = new Runs(transport);
    this.chat = chatOf(transport, this.runs, isVisitor(options));
    this.automations = new Automations(this.runs);
    this.knowledge = new Knowledge(transport);
  }
}

function baseUrlOf({ baseUrl }: ParleyOptions): string {
  const address = baseUrl ?? environment("PARLEY_BASE_URL") ?? "http://127.0.0.1:8080";
  const web = /^https?:\/\//i.test(address) && URL.canParse(address);
  if (!web) throw new ParleyError(`baseUrl is not an http or https address: ${address}`);
  return address.replace(/\/+$/, "");
}

function headersOf(options: ParleyOptions): Record<string, string> {
  const organization = options.organizationId ?? environment("PARLEY_ORGANIZATION_ID");
  return { ...credentialOf(options), ...(organization && !options.demo && { "x-organization-id": organization }) };
}

function credentialOf(options: ParleyOptions): Record<string, string> {
  const key = credential(options);
  if (options.demo) {
    if (key) throw new ParleyError("demo mode takes no apiKey");
    return { "x-tenant-id": "tenant_demo" };
  }
  if (key) return key.startsWith("ak_") ? { "x-api-key": key } : { Authorization: `Bearer ${key}` };
  // A page's own cookie may be its credential.
  if ("document" in globalThis || "WorkerGlobalScope" in globalThis) return {};
  throw new ParleyError("no API key: give apiKey or set PARLEY_API_KEY; { demo: true } chats with templates without one");
}

function credential({ apiKey, demo }: ParleyOptions): string | undefined {
  if (apiKey?.trim() === "") throw new ParleyError("apiKey is blank");
  const key = (apiKey ?? (demo ? undefined : environment("PARLEY_API_KEY")))?.trim();
  if (key && !/^[\x21-\x7e]+$/.test(key)) throw new ParleyError("apiKey has characters that no key has");
  return key;
}

function isVisitor(options: ParleyOptions): boolean {
  return options.demo === true || credential(options)?.startsWith("wt_") === true;
}

// Browsers have no environment, and some runtimes guard theirs.
function environment(name: string): string | undefined {
  try {
    const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
    return process?.env?.[name]?.trim() || undefined;
  } catch {
    return undefined;
  }
}
