// The widget's requests: for a token that is valid for ten minutes, and for chats.
import { events, problem, StreamProblem, type ServerEvent } from "../kit/sse";
import { unreachable } from "../kit/texts";
import type { Pending, Store } from "./record";
import type { Texts } from "./texts";

export interface Identity {
  id: string;
  signature: string;
}
/** The agent, as its visitors see it. */
export interface Facts {
  name: string;
  suggestions: string[];
  attachments: boolean;
}
/**
 * The agent, and the organization in which the person is signed in. Set only in the dashboard's
 * preview.
 */
export interface Member extends Facts {
  organization: string;
}
interface Pass {
  token: string;
  /**
   * When the token expires, by this browser's clock, which may be wrong. After a response with
   * status 401, the token is renewed in any case.
   */
  until: number;
  agent: Facts;
}

const minutes = 60_000;
const ends = /^run\.(completed|failed|cancelled|timed_out)$/;

export class Service {
  agent: Facts = { name: "", suggestions: [], attachments: false };
  private pendingPass: Promise<Pass> | null = null;

  constructor(
    private readonly base: string,
    private readonly id: string,
    private readonly identity: Identity | null,
    private readonly local: Store,
    private readonly session: Store,
    /** The preview needs no token. */
    private readonly member: Member | null,
  ) {
    if (member) this.agent = member;
  }

  /** Returns a valid token. Throws a StreamProblem if it cannot get one. */
  async token(): Promise<string> {
    if (this.member !== null) return "";
    let pass = this.session.get("pass") as Pass | null;

    if (typeof pass?.token !== "string" || !pass.agent || !(pass.until > Date.now())) {
      this.pendingPass ??= this.ask().finally(() => (this.pendingPass = null));
      pass = await this.pendingPass;
    }
    this.agent = pass.agent;
    return pass.token;
  }

  private async ask(): Promise<Pass> {
    const kept = this.local.get("visitor");
    const visitor = this.identity ?? (typeof kept === "string" ? kept : undefined);
    const answer = await fetch(`${this.base}api/widget/sessions`, {
      method: "POST",
      credentials: "omit",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ agentId: this.id, visitor }),
    }).catch(() => {
      throw new StreamProblem(0, "unreachable", unreachable);
    });

    if (!answer.ok) throw await problem(answer);
    const given = (await answer.json()) as { token: string; expiresAt: string; visitor: string; agent: Facts };
    const now = Date.now();

    const left = Date.parse(given.expiresAt) - now;
    const lasts = left > minutes ? Math.min(left, 10 * minutes) - minutes : 9 * minutes;
    const pass = { token: given.token, until: now + lasts, agent: given.agent };

    if (!this.identity) this.local.set("visitor", given.visitor);
    this.session.set("pass", pass);
    return pass;
  }

  private async identify(): Promise<Record<string, string>> {
    return this.member === null ? { Authorization: `Bearer ${await this.token()}` } : { "x-organization-id": this.member.organization };
  }

  /**
   * Returns the request that uploads a file for a session. If renew is true, the request has a new
   * token.
   */
  async upload(session: string, name: string, renew: boolean): Promise<{ url: string; headers: Record<string, string> }> {
    if (renew) this.session.set("pass", null);
    return { url: `${this.base}api/files?${new URLSearchParams({ sessionId: session, name })}`, headers: await this.identify() };
  }

  /** Cancels a run of the visitor. The stream of its answer then ends. */
  async cancel(run: string): Promise<void> {
    const answer = await fetch(`${this.base}api/runs?action=cancel&id=${run}`, { method: "POST", headers: await this.identify() });
    if (!answer.ok) throw await problem(answer);
  }

  /** Yields the events of the answer to a message. The same key always returns the same run. */
  chat(session: string, pending: Pending, signal: AbortSignal, connected: (up: boolean) => void): AsyncGenerator<ServerEvent> {
    const { key, text, files, lastEventId } = pending;
    const attachments = files.length > 0 ? files.map(({ fileId }) => ({ fileId })) : undefined;
    return events(`${this.base}api/agents?action=chat&id=${encodeURIComponent(this.id)}`, {
      method: "POST",
      credentials: this.member === null ? "omit" : "same-origin",
      body: JSON.stringify({ sessionId: session, message: text, attachments, stream: true }),
      headers: async () => ({ ...(await this.identify()), "Idempotency-Key": key }),
      signal,
      lastEventId,
      connected,
      reached: () => connected(true),
      resume: true,
      attempts: 8,
      last: (event) => ends.test(event.event),
      refused: (p) => {
        if (p.status === 429) throw p; // the visitor must see the limit immediately
        if (p.status === 401) this.session.set("pass", null);
        return p.status === 401;
      },
    });
  }
}

/** Returns advice for a problem, and whether the visitor may send the message again. */
export function advice(p: StreamProblem, texts: Texts): { text: string; again: boolean } {
  if (p.code === "budget_exceeded") return { text: texts.say("overBudget"), again: true };
  if (p.status === 429) return { text: texts.say("tooMany", texts.after(p.retryAfter)), again: true };
  if (p.status === 0) return { text: texts.say("unreachable"), again: true };
  if (p.status >= 500 || p.status === 408) return { text: texts.say("busy", texts.after(p.retryAfter)), again: true };
  if ([401, 403, 404].includes(p.status)) return { text: texts.say("gone"), again: false };
  return { text: texts.say(p.errors.some((e) => e.field.startsWith("attachments")) ? "badFile" : "refused"), again: false };
}
