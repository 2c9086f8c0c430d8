// A turn of a session: what a person said, and what the agent made of it so far.
import type { ApiError } from "../api";
import type { ServerEvent } from "../../kit/sse";
import type { Citation, Message, RequiredAction, Run, RunStatus, RunSummary, ToolCall } from "../types";

/** How a turn that is spoken stands. */
export interface Spoken {
  phase: "hearing" | "understanding" | "thinking" | "speaking" | "over";
  /** The item of what the person said. */
  item: string;
  response: string | null;
  /** The item of the answer. */
  answer: string | null;
  /** What of the answer was sent to be heard. */
  said: string;
  /** Milliseconds from the end of the question to the first sound of the answer. */
  latency: number | null;
  /** Milliseconds of the answer that were played. */
  played: number;
  /** Nothing of the answer is said aloud. */
  silent?: boolean;
}

export interface Turn {
  /** Names the turn on the page for as long as it is shown. */
  name: string;
  runId: string | null;
  message: string;
  createdAt: string;
  /** Sending: nobody has accepted it yet. */
  status: RunStatus | "sending";
  text: string;
  citations: Citation[];
  toolCalls: ToolCall[];
  requiredAction: RequiredAction | null;
  /** The run as it ended, as lists show it. */
  run: RunSummary | null;
  /** Why it was not accepted, or why it is not followed any more. */
  problem: ApiError | null;
  /** From when on it may be sent again, in milliseconds since 1970, when the service named a time. */
  againAt: number | null;
  /** The connection is lost, and is being taken up again. */
  cutOff: boolean;
  /** Somebody wants no answer any more: the run is cancelled as soon as it is known. */
  stopping: boolean;
  /** Under which it was sent from this window. */
  key: string | null;
  /** What the person heard of an answer that was interrupted. */
  heard: string | null;
  /** How it stands, of one that was spoken in this window. */
  spoken?: Spoken;
}

export const ended = (status: Turn["status"]): boolean => ["completed", "failed", "cancelled", "timed_out"].includes(status);

/** Whether the run is on its way: neither ended nor refused. */
export const underWay = (turn: Turn): boolean => !ended(turn.status) && turn.problem === null;

export function newTurn(message: string, key: string | null, createdAt = new Date().toISOString()): Turn {
  return {
    name: key ?? createdAt, runId: null, message, createdAt, status: "sending", text: "", citations: [], toolCalls: [], requiredAction: null,
    run: null, problem: null, againAt: null, cutOff: false, stopping: false, key, heard: null,
  };
}

/** What is to be read of an answer: what was heard of one that was interrupted, and of one that is being said what was said so far. */
export function shownText(turn: Turn): string {
  if (turn.heard !== null) return turn.heard;
  return turn.spoken && turn.spoken.phase !== "over" ? turn.spoken.said : turn.text;
}

/** The turns that a session's messages make, with what is known of their runs. */
export function turnsOf(messages: Message[], runs: Map<string, RunSummary>): Turn[] {
  const turns: Turn[] = [];
  for (const m of messages) {
    if (m.role === "user") {
      turns.push({ ...newTurn(m.content, null, m.createdAt), name: m.runId, runId: m.runId, status: m.status });
      continue;
    }
    const turn = turns.find((t) => t.runId === m.runId);
    if (turn) Object.assign(turn, { text: m.content, citations: m.citations ?? [], status: m.status, heard: m.interrupted ? m.content : null });
  }
  return turns.map((t) => withSummary(t, t.runId === null ? undefined : runs.get(t.runId)));
}

/** The turn with how its run stands, as a list shows it: the messages have the answer and its citations. */
function withSummary(turn: Turn, run: RunSummary | undefined): Turn {
  if (!run) return turn;
  return { ...turn, runId: run.id, status: run.status, run: ended(run.status) ? run : null, requiredAction: run.requiredAction ?? null };
}

/** The turn with what its run says, as far as that is more. */
export function withRun(turn: Turn, run: Run | undefined): Turn {
  if (!run) return turn;
  const over = ended(run.status);
  return {
    ...turn, runId: run.id, status: run.status, run: over ? run : null, toolCalls: run.toolCalls, requiredAction: run.requiredAction ?? null,
    text: run.message ?? turn.text, citations: run.citations.length > 0 ? run.citations : turn.citations,
  };
}

interface Told {
  runId?: string;
  createdAt?: string;
  text?: string;
  toolCall?: ToolCall;
  citation?: Citation;
  requiredAction?: RequiredAction;
  run?: Run;
}

const withCall = (calls: ToolCall[], call: ToolCall): ToolCall[] =>
  calls.some((c) => c.id === call.id) ? calls.map((c) => (c.id === call.id ? call : c)) : [...calls, call];

/** The turn after an event of its run. Events that are not known change nothing. */
export function after(turn: Turn, event: ServerEvent): Turn {
  const told = JSON.parse(event.data) as Told;
  switch (event.event) {
    case "run.created":
      return { ...turn, runId: told.runId ?? turn.runId, createdAt: told.createdAt ?? turn.createdAt, status: "queued", problem: null };
    case "run.started":
    case "run.restarted": // what was told before is void
      return { ...turn, status: "running", text: "", citations: [], toolCalls: [], requiredAction: null };
    case "message.delta":
      return { ...turn, text: turn.text + (told.text ?? "") };
    case "tool.started":
    case "tool.completed":
      return told.toolCall ? { ...turn, toolCalls: withCall(turn.toolCalls, told.toolCall) } : turn;
    case "citation.added":
      return told.citation ? { ...turn, citations: [...turn.citations, told.citation] } : turn;
    case "run.requires_action":
      return { ...turn, status: "requires_action", requiredAction: told.requiredAction ?? null };
    default:
      return told.run ? withRun(turn, told.run) : turn;
  }
}
