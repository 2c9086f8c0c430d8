// A turn of a session: a person's message and the agent's answer so far.
import type { ApiError } from "../api";
import type { ServerEvent } from "../../kit/sse";
import type { Attachment, Citation, Message, RequiredAction, Run, RunEvent, RunStatus, RunSummary, ToolCall } from "../types";

/** The state of a spoken turn. */
export interface Spoken {
  phase: "hearing" | "understanding" | "thinking" | "speaking" | "over";
  /** The id of the item that contains the person's words. */
  item: string;
  response: string | null;
  /** The id of the item that contains the answer. */
  answer: string | null;
  /** The part of the answer whose audio was sent to the browser. */
  said: string;
  /** Milliseconds from the end of the question until the answer's first sound. */
  latency: number | null;
  /** Milliseconds of the answer that were played. */
  played: number;
  /** Whether the answer has no audio. */
  silent?: boolean;
}

export interface Turn {
  /** The name that identifies the turn on the page. */
  name: string;
  runId: string | null;
  /**
   * The run that this turn's run continues. The value null means that it continues no run, and
   * undefined that it continues the run of the previous turn.
   */
  previousRunId?: string | null | undefined;
  message: string;
  /** The files that were sent with the message. */
  attachments: Attachment[];
  createdAt: string;
  /** The value is "sending" until the service has accepted the message. */
  status: RunStatus | "sending";
  text: string;
  citations: Citation[];
  toolCalls: ToolCall[];
  requiredAction: RequiredAction | null;
  /** The finished run in the form that lists contain. */
  run: RunSummary | null;
  /** Why the message was refused, or why the run is no longer followed. */
  problem: ApiError | null;
  /**
   * When the message may be sent again, in milliseconds since 1970. Set only if the service has
   * sent a time.
   */
  againAt: number | null;
  /**
   * Whether the connection to the stream is lost. The value "resuming" means that a new connection
   * is open but has delivered no event yet.
   */
  cutOff: "lost" | "resuming" | null;
  /** Whether the person pressed Stop. The run is cancelled as soon as its id is known. */
  stopping: boolean;
  /** The idempotency key of a message that was sent from this window, or null. */
  key: string | null;
  /** The part of an interrupted answer that was played. */
  playedText: string | null;
  /** The state of a turn that was spoken in this window. */
  spoken?: Spoken;
}

export const ended = (status: Turn["status"]): boolean => ["completed", "failed", "cancelled", "timed_out"].includes(status);

/** Whether the run is unfinished and the message was not refused. */
export const underWay = (turn: Turn): boolean => !ended(turn.status) && turn.problem === null;

/** Whether a run waits for the results of its client's tools, and not for a person's decision. */
export const waitsForClient = (of: { requiredAction?: RequiredAction | null }): boolean => of.requiredAction?.kind === "client_tools";

/**
 * Returns the title of a message in a list: its text without the fences of code blocks or, without
 * text, the names of its files.
 */
export function messageTitle(message: string, attachments: Attachment[] = []): string {
  const text = message.trim();
  return text.replace(/^ *(```|~~~).*$/gm, "").trim() || text || attachments.map((a) => a.name).join(", ");
}

export function newTurn(message: string, key: string | null, createdAt = new Date().toISOString()): Turn {
  return {
    name: key ?? createdAt, runId: null, message, attachments: [], createdAt, status: "sending", text: "", citations: [], toolCalls: [], requiredAction: null,
    run: null, problem: null, againAt: null, cutOff: null, stopping: false, key, playedText: null,
  };
}

/**
 * Returns the text to show: the part of an interrupted answer that was played, the spoken part of
 * an answer in progress, or the whole answer.
 */
export function shownText(turn: Turn): string {
  if (turn.playedText !== null) return turn.playedText;
  return turn.spoken && turn.spoken.phase !== "over" ? turn.spoken.said : turn.text;
}

/** Builds turns from a session's messages and the known states of their runs. */
export function buildTurns(messages: Message[], runs: Map<string, RunSummary>): Turn[] {
  const turns: Turn[] = [];
  for (const m of messages) {
    if (m.role === "user") {
      turns.push({ ...newTurn(m.content, null, m.createdAt), name: m.runId, runId: m.runId, previousRunId: m.previousRunId, status: m.status, attachments: m.attachments ?? [] });
      continue;
    }
    const turn = turns.find((t) => t.runId === m.runId);
    if (turn) Object.assign(turn, { text: m.content, citations: m.citations ?? [], status: m.status, playedText: m.interrupted ? m.content : null });
  }
  return turns.map((t) => withSummary(t, t.runId === null ? undefined : runs.get(t.runId)));
}

/**
 * Returns the turns of the newest branch of the conversation: the last turn, the turn whose run it
 * continues, and so on.
 */
export function newestBranch(turns: Turn[]): Turn[] {
  const branch: Turn[] = [];
  let wanted: string | null | undefined; // id that the next turn's run must have; undefined: any run
  for (const turn of turns.toReversed()) {
    if (turn.runId !== null && wanted !== undefined && turn.runId !== wanted) continue;
    branch.unshift(turn);
    if (turn.runId !== null) wanted = turn.previousRunId;
  }
  return branch;
}

/**
 * Returns the turn with the state of its run. The text, the citations and the attachments already
 * come from the session's messages.
 */
function withSummary(turn: Turn, run: RunSummary | undefined): Turn {
  if (!run) return turn;
  return { ...turn, runId: run.id, status: run.status, run: ended(run.status) ? run : null, requiredAction: run.requiredAction ?? null };
}

/**
 * Returns the turn with a run's state, text, tool calls and citations. A cancelled answer keeps the
 * text that was shown here, because the stored part may be shorter.
 */
export function withRun(turn: Turn, run: Run | undefined): Turn {
  if (!run) return turn;
  const over = ended(run.status);
  const stored = run.message ?? "";
  const shown = stored === "" || run.status === "cancelled" && turn.text.startsWith(stored) ? turn.text : stored;
  return {
    ...turn, runId: run.id, status: run.status, run: over ? run : null, toolCalls: run.toolCalls, requiredAction: run.requiredAction ?? null,
    attachments: run.attachments ?? turn.attachments, text: shown, citations: run.citations.length > 0 ? run.citations : turn.citations,
  };
}

/**
 * Reports whether the agent has searched the documents in a completed turn, but its answer cites
 * nothing.
 */
export const foundNothing = (turn: Turn): boolean =>
  turn.status === "completed" && turn.toolCalls.some((c) => c.name === "knowledge") && turn.citations.length === 0;

const withCall = (calls: ToolCall[], call: ToolCall): ToolCall[] =>
  calls.some((c) => c.id === call.id) ? calls.map((c) => (c.id === call.id ? call : c)) : [...calls, call];

/** Returns the turn after an event of its run. Unknown events change nothing. */
export function after(turn: Turn, event: ServerEvent): Turn {
  const { event: kind, data } = { ...event, data: JSON.parse(event.data) as unknown } as RunEvent;
  switch (kind) {
    case "run.created":
      return { ...turn, runId: data.runId, createdAt: data.createdAt, status: "queued", problem: null };
    case "run.started":
    case "run.restarted": // the events of the previous attempt are no longer valid
      return { ...turn, status: "running", text: "", citations: [], toolCalls: [], requiredAction: null };
    case "message.delta":
      return { ...turn, text: turn.text + data.text };
    case "tool.started":
    case "tool.completed":
      return { ...turn, toolCalls: withCall(turn.toolCalls, data.toolCall) };
    case "citation.added":
      return { ...turn, citations: [...turn.citations, data.citation] };
    case "run.requires_action":
      return { ...turn, status: "requires_action", requiredAction: data.requiredAction };
    case "run.completed":
    case "run.failed":
    case "run.cancelled":
    case "run.timed_out":
      return withRun(turn, data.run);
    default:
      return turn;
  }
}
