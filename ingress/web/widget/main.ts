// widget.js: <script async src="https://…/widget.js" data-agent="ag_…">. A second copy of the
// script has no effect.
import { h } from "./dom";
import { AgentChat, on, script } from "./element";
import { own } from "./origin";

interface Options {
  agent?: string;
  title?: string;
  greeting?: string;
  accent?: string;
  position?: string;
  scheme?: string;
  lang?: string;
  visitor?: { id: string; signature: string } | null;
}
type Command = (name: string, ...rest: unknown[]) => unknown;
type Queued = Command & { q?: ArrayLike<unknown>[]; ready?: true };

const page = window as unknown as { agentChat?: Queued };
let options: Options = {};
let chat: AgentChat | null = null;
let scheduled = false;
let waiting: (() => unknown)[] = []; // commands for the chat, which is not in the page yet

const attributes = (o: Options): Record<string, string | undefined> => ({
  "agent-id": o.agent,
  "chat-title": o.title,
  greeting: o.greeting,
  accent: o.accent,
  position: o.position,
  scheme: o.scheme,
  lang: o.lang,
  "visitor-id": o.visitor?.id,
  "visitor-signature": o.visitor?.signature,
});

/**
 * Adds the chat that the options describe to the page, then runs the waiting commands. Several
 * calls in a row cause only one update.
 */
function mount(): void {
  scheduled = false;
  replaceChat();
  const calls = waiting;
  waiting = [];
  for (const call of calls) call();
}

function replaceChat(): void {
  if (!options.agent) return;
  const wanted = Object.entries(attributes(options));
  if (chat?.isConnected && wanted.every(([name, value]) => chat!.getAttribute(name) === (value ?? null))) return;
  const next = h("agent-chat") as AgentChat;
  for (const [name, value] of wanted) {
    if (value !== undefined) next.setAttribute(name, value);
  }
  chat?.remove();
  chat = next;
  own("body").append(next);
}

function scheduleMount(): void {
  if (scheduled) return;
  scheduled = true;
  if (own("body")) queueMicrotask(mount);
  else addEventListener("DOMContentLoaded", mount, { once: true });
}

const commands: Record<string, (...rest: never[]) => unknown> = {
  boot(asked: Options = {}) {
    options = { ...options, ...asked };
    scheduleMount();
  },
  open: () => afterMount(() => chat?.open()),
  close: () => afterMount(() => chat?.close()),
  send: (text: string) => afterMount(() => chat?.send(String(text))),
  on,
  destroy() {
    chat?.remove();
    chat = null;
    options = {};
    waiting = [];
  },
};

/** Delays a command until the chat is in the page. */
function afterMount(call: () => unknown): unknown {
  if (!scheduled) return call();
  waiting.push(call);
  return true;
}

const run: Queued = (name, ...rest) => {
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!command) console.warn(`agentChat: unknown command ${String(name)}; use ${Object.keys(commands).join(", ")}.`);
  return command?.(...(rest as never[]));
};

/** Returns the options in a script element's data attributes. */
function readOptions({ dataset: d }: HTMLScriptElement): Options {
  const visitor = d.visitorId ? { id: d.visitorId, signature: d.visitorSignature ?? "" } : undefined;
  const { agent, title, greeting, accent, position, scheme, lang } = d;
  return { agent, title, greeting, accent, position, scheme, lang, visitor };
}

function start(): void {
  const before = typeof page.agentChat === "function" ? page.agentChat : undefined; // a page may have an element with the id agentChat, which is not a function
  if (before?.ready) return; // the script was loaded before: the first copy stays

  if (!script) {
    console.warn("agentChat: the chat cannot start, because the URL of this script is unknown. Load it with <script src=\"…/widget.js\">.");
    return;
  }

  run.ready = true;
  page.agentChat = run;
  if (!customElements.get("agent-chat")) customElements.define("agent-chat", AgentChat);
  if (script.dataset.agent) run("boot", readOptions(script));
  for (const call of before?.q ?? []) run(...(Array.from(call) as [string, ...unknown[]]));
}

start();
