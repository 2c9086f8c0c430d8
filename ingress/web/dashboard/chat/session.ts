// A session in the chat: its turns, and the streams of their runs' events.
import { address, ApiError, credentials, get, identity, inDemo, post, sentence, toLogin } from "../api";
import { events, StreamProblem, type StreamOptions } from "../../kit/sse";
import type { Attachment, List, Run, RunSummary, SessionMessages } from "../types";
import { showError } from "../ui/button";
import { afterLoss, afterVoice, type VoiceEvent } from "../voice/spoken";
import { demoSession, keepDemo, noteSent, readSent } from "./kept";
import { noteLimit } from "./limit";
import { freshName, ofChat, ofSession, targetId, type Target } from "./target";
import { after, ended, newTurn, buildTurns, underWay, withRun, type Turn } from "./turn";

const pageSize = 20; // number of turns in one request
const redraw = 40; // milliseconds between two renderings

/**
 * Milliseconds after sending in which the Stop button is ignored. Stop replaces Send, so the second
 * click of a double click on Send would stop the run.
 */
export const moment = 500;

/** Returns the request body of a message. The page's curl command shows the same body. */
export const messageBody = (sessionId: string, message: string, attachments: Attachment[] = []) => ({
  sessionId, message, ...(attachments.length > 0 && { attachments: attachments.map(({ fileId }) => ({ fileId })) }), stream: true,
});

export class ChatSession extends EventTarget {
  turns: Turn[] = [];
  loading: boolean;
  error: ApiError | null = null;
  hasMore = false;
  loadingMore = false;
  /** When the newest message was sent, in milliseconds since 1970. */
  sentAt = 0;
  private cursor: string | null = null;
  private readonly others = new Set<string>(); // runs that refresh has read
  private readonly streams = new Map<string, AbortController>();
  private drawTimer: ReturnType<typeof setTimeout> | undefined;
  private closed = false;

  constructor(
    readonly target: Target,
    readonly id: string,
    begun = false, // whether the session has messages to load
  ) {
    super();
    this.loading = begun;
  }

  /** Loads the session's messages, if it has any, and follows its unfinished turns. */
  async open(begun: boolean): Promise<void> {
    this.closed = false;
    if (inDemo()) this.turns = demoSession(targetId(this.target))?.turns ?? [];
    else if (begun) await this.load();

    if (this.closed || this.error !== null) return;
    this.resumeUnanswered();
    this.draw();
  }

  /** Closes the streams. The runs continue without a reader. */
  close(): void {
    this.closed = true;
    clearTimeout(this.drawTimer);
    this.drawTimer = undefined;
    for (const stop of this.streams.values()) stop.abort();
    this.streams.clear();
  }

  send(message: string, attachments: Attachment[] = []): void {
    const turn = { ...newTurn(message, freshName("chat")), attachments };
    this.sentAt = Date.now();
    this.turns = [...this.turns, turn];
    this.note(turn);
    void this.follow(turn);
    this.draw();
  }

  /**
   * Resends a message that was not accepted. Both requests have the same idempotency key, so that
   * they cannot start two runs if the first request was accepted after all.
   */
  resend(turn: Turn): void {
    const key = turn.key ?? freshName("chat"); // a spoken message has no key before it is resent
    this.change(turn.name, (t) => ({ ...t, key, spoken: undefined, problem: null, status: t.runId === null ? "sending" : t.status }));
    const now = this.turns.find((t) => t.name === turn.name);
    if (!now) return;
    this.note(now);
    void this.follow(now);
  }

  /** Removes a message that was not accepted. */
  drop(turn: Turn): void {
    this.streams.get(turn.name)?.abort();
    this.turns = this.turns.filter((t) => t.name !== turn.name);
    this.forget(turn);
    this.draw();
  }

  /**
   * Cancels a turn's run. If the run's id is not known yet, the run is cancelled as soon as its id
   * arrives.
   */
  async stop(turn: Turn): Promise<void> {
    if (Date.now() - this.sentAt < moment) return;
    if (turn.runId !== null) return this.cancel(turn.name, turn.runId);
    this.change(turn.name, (t) => ({ ...t, stopping: true }));
    this.note({ ...turn, stopping: true });
  }

  private async cancel(name: string, runId: string): Promise<void> {
    this.change(name, (t) => ({ ...t, stopping: true }));
    try {
      const run = await post<Run>("/api/runs", undefined, { id: runId, action: "cancel" });
      this.change(name, (t) => withRun(t, run));
    } catch (cause) {
      this.change(name, (t) => ({ ...t, stopping: false }));
      throw cause;
    }
  }

  /**
   * Applies the state that a run has after a decision. The later changes arrive in the run's event
   * stream.
   */
  decided(turn: Turn, run: Run): void {
    this.change(turn.name, (t) => ({ ...t, status: run.status, requiredAction: run.requiredAction ?? null }));
    if (!this.streams.has(turn.name) && !ended(run.status)) void this.follow({ ...turn, runId: run.id });
  }

  /** Loads the turns before the oldest one shown. */
  async more(): Promise<void> {
    if (this.loadingMore || this.cursor === null) return;
    this.loadingMore = true;
    this.draw();
    try {
      this.turns = [...(await this.read(this.cursor)), ...this.turns];
    } finally {
      this.loadingMore = false;
      this.draw();
    }
  }

  async load(): Promise<void> {
    this.loading = true;
    this.error = null;
    this.draw();
    try {
      const said = await this.read(null);
      const sent = this.turns.filter((t) => t.key !== null || t.spoken); // messages sent while the earlier ones were loading
      this.turns = [...said.filter((t) => !sent.some((s) => s.runId === t.runId)), ...sent];
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      if (cause.status !== 404) this.error = cause; // 404: the session has no message yet
    } finally {
      this.loading = false;
      this.draw();
    }
  }

  /** Adds the messages that were sent to the session from elsewhere, and follows their runs. */
  async refresh(): Promise<void> {
    if (this.closed || this.loading || this.turns.length === 0) return;
    const runs = await this.runs();
    // While a message is being sent, its run may be one of these runs, so nothing is added. When
    // that run ends, another change causes a refresh.
    if (this.closed || this.turns.some((t) => t.runId === null && underWay(t))) return;
    const known = (id: string | null) => this.turns.some((t) => t.runId === id);
    if (runs.every((run) => known(run.id) || this.others.has(run.id))) return;

    const said = await this.messages(null);
    if (this.closed) return;
    for (const { id } of runs) this.others.add(id); // not read again, even if the run belongs to another session of the same name
    const turns = buildTurns(said.messages, new Map(runs.map((run) => [run.id, run])));
    const fresh = turns.filter((t) => !known(t.runId));
    if (said.hasMore && fresh.length === turns.length) {
      // Messages may be missing between the turns shown and the new ones, so the page keeps only
      // the new ones.
      this.turns = this.turns.filter((t) => t.runId === null);
      this.noteMore(said);
    }
    const sent = this.turns.filter((t) => t.runId === null);
    const accepted = [...this.turns.filter((t) => t.runId !== null), ...fresh];
    this.turns = [...accepted.sort((a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt)), ...sent];
    for (const turn of fresh.filter(underWay)) void this.follow(turn);
    void this.readCalls(runs.filter((run) => fresh.some((t) => t.runId === run.id)));
    this.draw();
  }

  private messages(cursor: string | null): Promise<SessionMessages> {
    return get<SessionMessages>("/api/sessions", { id: this.id, ...ofSession(this.target), limit: pageSize, cursor });
  }

  /** Reads the newest runs, with their cost and duration. */
  private async runs(): Promise<RunSummary[]> {
    return (await get<List<RunSummary>>("/api/runs", { sessionId: this.id, limit: pageSize })).data;
  }

  private noteMore({ hasMore, nextCursor }: SessionMessages): void {
    this.hasMore = hasMore;
    this.cursor = nextCursor;
  }

  private async read(cursor: string | null): Promise<Turn[]> {
    // Only the newest turns get their runs. An older turn has a link to its run's page, which shows
    // the cost and the duration.
    const [said, runs] = await Promise.all([this.messages(cursor), cursor === null ? this.runs() : []]);
    this.noteMore(said);
    void this.readCalls(runs);
    return buildTurns(said.messages, new Map(runs.map((run) => [run.id, run])));
  }

  /**
   * Reads the inputs and outputs of tool calls, which lists of messages omit, one run at a time. If
   * a run cannot be read, its turn keeps the link to the run's page.
   */
  private async readCalls(runs: RunSummary[]): Promise<void> {
    for (const { id } of runs.filter((run) => run.toolCalls.length > 0 && ended(run.status))) {
      const run = await get<Run>("/api/runs", { id }).catch(() => null);
      if (this.closed) return;
      const turn = this.turns.find((t) => t.runId === id);
      if (run && turn) this.change(turn.name, (t) => ({ ...t, toolCalls: run.toolCalls }));
    }
  }

  /** Resumes the messages that were unanswered when the page was left. */

  private resumeUnanswered(): void {
    for (const sent of inDemo() ? [] : readSent(targetId(this.target), this.id)) {
      if (this.turns.some((t) => t.key === sent.key)) continue;
      const stopping = sent.stopping === true;
      const known = sent.runId === null ? undefined : this.turns.find((t) => t.runId === sent.runId);
      if (known && ended(known.status)) noteSent(targetId(this.target), this.id, sent.key, null);
      else if (known) this.change(known.name, (t) => ({ ...t, key: sent.key, stopping }));
      else {
        const { runId, attachments = [], problem = null, againAt = null } = sent;
        this.turns = [...this.turns, { ...newTurn(sent.message, sent.key, sent.createdAt), attachments, runId, stopping, problem, againAt }];
      }
    }

    for (const turn of this.turns.filter((t) => underWay(t) && (t.key !== null || t.runId !== null)).slice(-5)) void this.follow(turn);
  }

  /** Applies an event of a voice connection, and follows the run that it started. */
  spoke(event: VoiceEvent): void {
    this.turnsWith((turns) => afterVoice(turns, event));
    for (const turn of this.turns) {
      if (turn.spoken && turn.runId !== null && turn.run === null && underWay(turn)) void this.follow(turn);
    }
  }

  /** Handles a voice connection that was lost, or that the person has closed. */
  lost(ended = false): void {
    this.turnsWith((turns) => afterLoss(turns, ended));
  }

  turnsWith(update: (turns: Turn[]) => Turn[]): void {
    const before = this.turns;
    this.turns = update(before);
    if (this.turns.some((t, i) => t !== before[i]) || this.turns.length !== before.length) this.draw();
  }

  /**
   * Reads the part of an interrupted answer that was played. The service determines that part a
   * moment after the interruption, so the request is repeated.
   */
  cut(answer: string, tries = 3): void {
    const turn = this.turns.find((t) => t.spoken?.answer === answer);
    if (!turn || turn.runId === null || this.closed) return;
    get<SessionMessages>("/api/sessions", { id: this.id, ...ofSession(this.target), limit: 5 }).then((said) => {
      const message = said.messages.find((m) => m.role === "assistant" && m.runId === turn.runId);
      if (message?.interrupted) this.change(turn.name, (t) => ({ ...t, playedText: message.content }));
      else if (tries > 1) setTimeout(() => this.cut(answer, tries - 1), 500);
      else if (message) this.change(turn.name, (t) => ({ ...t, playedText: null })); // the answer was played to its end, so it was not interrupted
    }, () => {}); // if the request fails, the text that was sent stays until the session is loaded again
  }

  private change(name: string, update: (turn: Turn) => Turn): void {
    this.turns = this.turns.map((t) => (t.name === name ? update(t) : t));
    this.draw();
  }

  /** Dispatches "change", at most once per redraw interval. */
  private draw(): void {
    if (this.closed) return;
    this.drawTimer ??= setTimeout(() => {
      this.drawTimer = undefined;
      if (inDemo() && this.turns.length > 0) keepDemo(targetId(this.target), { sessionId: this.id, turns: this.turns });
      this.dispatchEvent(new Event("change"));
    }, redraw);
  }

  private note(turn: Turn): void {
    if (inDemo() || turn.key === null) return;
    const { key, message, attachments, createdAt, runId, stopping, problem, againAt } = turn;
    noteSent(targetId(this.target), this.id, key, { key, message, attachments, createdAt, runId, stopping, problem, againAt });
  }

  private forget(turn: Turn): void {
    if (turn.key !== null) noteSent(targetId(this.target), this.id, turn.key, null);
  }

  /**
   * Returns the request for a turn's events. If the turn has an idempotency key, the request sends
   * the message again. Otherwise it opens the stream of the run.
   */
  private where(turn: Turn): [string, StreamOptions] {
    if (turn.key === null && turn.runId !== null) return [address("/api/runs", { id: turn.runId, stream: 1 }), { headers: identity }];
    const headers = () => ({ ...identity(), "Idempotency-Key": turn.key ?? "" });
    return [address("/api/agents", ofChat(this.target)), { method: "POST", headers, body: JSON.stringify(messageBody(this.id, turn.message, turn.attachments)) }];
  }

  private async follow(turn: Turn): Promise<void> {
    const { name } = turn;
    if (this.streams.has(name)) return;
    const stop = new AbortController();
    this.streams.set(name, stop);
    const [url, request] = this.where(turn);
    const current = () => this.turns.find((t) => t.name === name);
    try {
      const stream = events(url, {
        ...request, credentials: credentials(), signal: stop.signal, resume: true, fetch: fetchNotingLimit,
        last: (event) => /^run\.(completed|failed|cancelled|timed_out)$/.test(event.event),
        connected: (up) => this.change(name, (t) => ({ ...t, cutOff: up ? null : "lost" })),
        reached: () => this.change(name, (t) => ({ ...t, cutOff: "resuming" })),
        refused: (problem) => {
          // While there is no run, the page does not retry. The person decides when to send the
          // message again.
          if (current()?.runId === null || problem.status === 401) throw problem;
          return false;
        },
      });

      for await (const event of stream) {
        this.change(name, (t) => after(t, event));
        if (event.event === "run.created") this.accepted(name);
      }

      const last = current();
      if (last && ended(last.status)) this.forget(last);
      this.dispatchEvent(new Event("ended"));
    } catch (cause) {
      if (!stop.signal.aborted) this.refused(name, cause);
    } finally {
      if (this.streams.get(name) === stop) this.streams.delete(name);
    }
  }

  private accepted(name: string): void {
    const turn = this.turns.find((t) => t.name === name);
    if (!turn) return;
    this.turns = this.turns.filter((t) => t === turn || t.runId !== turn.runId); // removes the copy of this turn that the list of messages contained
    this.note(turn);
    this.dispatchEvent(new Event("accepted"));

    if (turn.stopping && turn.runId !== null) this.cancel(name, turn.runId).catch(showError);
  }

  private refused(name: string, cause: unknown): void {
    if (!(cause instanceof StreamProblem)) throw cause;
    if (cause.status === 401 && !inDemo()) return toLogin();
    const problem = new ApiError(cause.status, cause.code, sentence(cause.message), cause.errors, cause.requestId, cause.retryAfter);
    const turn = this.turns.find((t) => t.name === name);
    const againAt = cause.retryAfter === null ? null : Date.now() + cause.retryAfter * 1000;
    this.change(name, (t) => ({ ...t, problem, againAt, cutOff: null, stopping: false }));
    if (turn && cause.status === 410) this.forget(turn);
    else if (turn?.runId === null && definite(problem)) this.note({ ...turn, problem, againAt, stopping: false });
  }
}

/**
 * Reports whether an error means that the service has certainly not accepted the message. After any
 * other error, the message may have been accepted. In that case a reload sends it again with the
 * same key.
 */
const definite = (problem: ApiError): boolean => (problem.status >= 400 && problem.status < 500) || problem.code === "overloaded";

const fetchNotingLimit: typeof fetch = async (input, init) => {
  const answer = await fetch(input, init);
  if (inDemo()) noteLimit(answer.headers);
  return answer;
};
