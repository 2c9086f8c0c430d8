// The element <agent-chat agent-id="ag_…">: a chat in another site's page, under any security
// policy.
import { StreamProblem } from "../kit/sse";
import { Chat, type Report } from "./chat";
import { h } from "./dom";
import type { Attached } from "./files";
import { baseUrl, ownScript } from "./origin";
import { Store } from "./record";
import { Service, type Identity, type Member } from "./service";
import css from "./style.css";
import { findLanguage, Texts } from "./texts";
import { View } from "./view";

type Name = "ready" | "open" | "close" | Parameters<Report>[0];
type Handler = (detail: Record<string, unknown>) => void;

/** The script element that loaded this file. */
export const script = ownScript();
const base = baseUrl(script);

const handlers = new Map<string, Set<Handler>>();

/** Registers a function that is called for each event with this name, in any chat on the page. */
export function on(name: string, call: Handler): void {
  handlers.set(name, (handlers.get(name) ?? new Set()).add(call));
}

function emit(name: Name, detail: Record<string, unknown>): void {
  for (const call of handlers.get(name) ?? []) {
    try {
      call(detail);
    } catch (cause) {
      setTimeout(() => { throw cause; }); // an error in the page's handler is reported as uncaught
    }
  }
}

let sheet: CSSStyleSheet | null = null;

function styles(): CSSStyleSheet {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(css);
  }
  return sheet;
}

/** Returns black or white, whichever is readable on a colour given as #rrggbb. */
function readableOn(colour: string): string {
  const [r, g, b] = [1, 3, 5].map((i) => (Number.parseInt(colour.slice(i, i + 2), 16) / 255) ** 2.2) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

export class AgentChat extends HTMLElement {
  static observedAttributes = ["agent-id", "lang", "visitor-id", "visitor-signature"];
  private chat: Chat | null = null;
  private view: View | null = null;
  private era = 0;
  private wanted = false;
  private unsaid: string[] = []; // messages that were sent before the chat was ready
  private readonly root = this.attachShadow({ mode: "open" });

  connectedCallback(): void {
    void this.begin();
  }

  disconnectedCallback(): void {
    this.end();
  }

  attributeChangedCallback(_name: string, before: string | null, after: string | null): void {
    if (!this.isConnected || before === after || this.era === 0) return;
    this.end();
    void this.begin();
  }

  open(): void {
    this.wanted = true;
    this.view?.open(true);
  }

  close(): void {
    this.wanted = false;
    this.view?.close();
  }

  /**
   * Sends a message in the visitor's name as soon as the chat is ready. Returns false while an
   * answer is pending.
   */
  send(text: string, files?: Attached[]): boolean {
    if (this.chat) return this.chat.send(text, files);
    if (text.trim() === "") return false;
    this.unsaid.push(text);
    return true;
  }

  /** Sends the next waiting message, unless an answer is pending. */
  private sayNext(): void {
    const [next] = this.unsaid;
    if (next !== undefined && this.chat?.send(next)) this.unsaid.shift();
  }

  private end(): void {
    this.era++;
    this.chat?.leave();
    this.chat = this.view = null;
    this.root.replaceChildren();
  }

  private get identity(): Identity | null {
    const id = this.getAttribute("visitor-id");
    return id ? { id, signature: this.getAttribute("visitor-signature") ?? "" } : null;
  }

  private async begin(): Promise<void> {
    const era = ++this.era;
    await Promise.resolve(); // several changes of attributes in a row cause only one update
    const agent = this.getAttribute("agent-id");

    if (era !== this.era || !agent) return;

    const prefix = `agent-chat:${base}:${agent}:${this.identity?.id ?? ""}`;
    const local = new Store("localStorage", prefix);
    const session = new Store("sessionStorage", prefix);

    const preview = JSON.parse(this.getAttribute("preview") ?? "null") as Member | null;
    const service = new Service(base, agent, this.identity, local, session, preview);
    try {
      await service.token();
    } catch (cause) {
      const problem = cause instanceof StreamProblem ? cause : new StreamProblem(0, "unreachable", String(cause));
      if (![429, 503].includes(problem.status)) {
        if (era === this.era) this.refused(agent, problem, era);
        return; // nothing is shown, usually because the agent does not allow the page's origin
      }
    }
    if (era === this.era) this.build(agent, service, local, session);
  }

  private refused(agent: string, problem: StreamProblem, era: number): void {
    console.warn(
      `agent-chat: chat with agent ${agent} unavailable on ${location.origin}: ` +
        `${problem.status === 0 ? "the service cannot be reached, or does not allow this page" : problem.message}. ` +
        `Switch on the widget and add this origin at ${base}dashboard/agents/${agent}/embed.`,
    );
    emit("error", { agent, code: problem.code, detail: problem.message });
    addEventListener("online", () => era === this.era && void this.begin(), { once: true });
  }

  private build(agent: string, service: Service, lasting: Store, passing: Store): void {
    const inline = this.hasAttribute("inline");
    const language = findLanguage(this);
    const texts = new Texts(language);
    const title = this.getAttribute("chat-title") || service.agent.name || texts.say("chat");
    this.root.adoptedStyleSheets = [styles()];
    const view = new View(
      { title, greeting: this.getAttribute("greeting") ?? texts.say("greeting"), inline, suggestions: service.agent.suggestions, language },
      texts,
      {
        send: (text, files) => this.send(text, files),
        renew: () => this.chat?.renew(),
        stop: () => this.chat?.cancel(),
        opened: (open) => {
          passing.set("open", open);
          emit(open ? "open" : "close", { agent });
          if (open) void this.takeFiles(service, texts);
        },
      },
    );
    this.view = view;

    this.root.replaceChildren(...view.nodes);
    this.tint();
    this.chat = new Chat(service, lasting, view, texts, (name, detail) => {
      emit(name, { agent, ...detail });
      if (name !== "message") queueMicrotask(() => this.sayNext());
    });

    if (inline) void this.takeFiles(service, texts);

    emit("ready", { agent });
    this.sayNext();
    if (this.wanted) view.open(true);
    else if (passing.get("open") === true && innerWidth > 480) view.open(false);
  }

  /**
   * Loads the module for attachments if the agent accepts them. If that fails, the chat works
   * without attachments. When the chat is opened again, the module is loaded again.
   */
  private async takeFiles(service: Service, texts: Texts): Promise<void> {
    const { view, chat } = this;
    if (!service.agent.attachments || !view || !chat || view.files) return;
    try {
      const { start } = (await import(`${base}widget-files.js`)) as typeof import("./files");
      if (this.view === view) view.files ??= start({ panel: view.panel, form: view.form, field: view.field, texts, request: (name, renew) => service.upload(chat.session, name, renew) });
    } catch (cause) {
      console.warn("agent-chat: files cannot be attached:", cause);
    }
  }

  /** Applies the page's accent colour, and chooses a text colour that is readable on it. */
  private tint(): void {
    const accent = this.getAttribute("accent") ?? "";
    const brush = h("canvas").getContext("2d");

    if (!brush || !CSS.supports("color", accent)) return;
    brush.fillStyle = accent;
    const colour = brush.fillStyle; // canvas returns any colour in hexadecimal form
    if (!/^#[\da-f]{6}$/.test(colour)) return;
    this.style.setProperty("--chat-accent", colour);
    this.style.setProperty("--chat-on-accent", readableOn(colour));
  }
}
