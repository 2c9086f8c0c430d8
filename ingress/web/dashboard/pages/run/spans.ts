// The names and notes of the parts of a run.
import * as texts from "../../texts/run";
import { Words } from "../../texts/run";
import { runErrors, statuses, wordFor } from "../../texts/values";
import type { Span, Timeline, ToolCall } from "../../types";
import { money } from "../../ui/money";
import { count, duration } from "../../ui/parts";
import { toolNamed } from "../../toolnames";
import { beginning, length, overAt, union, type Interval } from "./scale";

const time = { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 } as const;

/** Formats the exact date and time of a span. */
export const exact = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", ...time });

/** Formats the exact time of a span without its date. */
export const clock = new Intl.DateTimeFormat("en-GB", time);

/** A span as a row of the chart and the table. */
export interface Part {
  key: string;
  span: Span;
  /** Whether the part belongs to the attempt in an earlier row. */
  within: boolean;
  name: string;
  /** Milliseconds from the start of the run. */
  from: number;
  took: number;
  status: string;
  /** The model, the tokens, the cost and why the part ended, if known. */
  notes: string[];
  /** The reason why an attempt or a tool call failed. */
  why: string | undefined;
  /**
   * The tool call that the part shows. Undefined if the part is no tool call, or if the run has no
   * record of the call.
   */
  call: ToolCall | undefined;
}

const decisions: Record<string, string> = {
  approve: Words.approved, deny: Words.denied, happened: Words.markedAsDone, resend: Words.sentAgain, abandon: Words.runEnded,
  approval: Words.waitingForApproval, unknown_outcome: Words.outcomeOfCallUnknown, client_tools: Words.waitingForResults, results: Words.resultsArrived,
};

/**
 * Whether the run waited for results of its client's tools. A wait for a decision is about a single
 * tool call, and has its id.
 */
const ofClient = (s: Span): boolean => s.kind === "wait" && !s.toolCallId;

/** Whether an attempt failed or was lost, so that the next attempt was delayed. */
const unlucky = (t: Timeline, attempt: number): boolean =>
  t.spans.some((s) => s.kind === "attempt" && s.attempt === attempt && (s.status === "failed" || s.status === "lost"));

function nameOf(s: Span, t: Timeline): string {
  switch (s.kind) {
    case "queue": return unlucky(t, s.attempt - 1) ? texts.pauseBeforeAttempt(s.attempt) : s.attempt > 1 ? Words.queueAgain : Words.queue;
    case "attempt": return texts.attemptNumber(s.attempt);
    case "turn": return s.status === "lost" ? Words.workLostWithItsWorker : texts.turnNumber(/\d+$/.exec(s.name)?.[0] ?? "");
    case "wait": return ofClient(s) ? Words.waitingForClient : s.name === "wait" ? Words.waitingForPerson : texts.decisionOnToolNamed(toolNamed(s.name));
    default: return toolNamed(s.name);
  }
}

function notesOf(s: Span): string[] {
  const notes: string[] = [];
  if (s.model) notes.push(s.model);
  if (s.inputTokens !== undefined || s.outputTokens !== undefined) notes.push(texts.tokensInAndOut(count(s.inputTokens ?? 0), count(s.outputTokens ?? 0)));
  if (s.costMicros) notes.push(texts.costOf(money(s.costMicros)));
  if (s.message) notes.push(s.kind === "wait" ? wordFor({ ...runErrors, ...decisions }, s.message) : s.message);
  return notes;
}

/**
 * Returns the parts of a run in order. An attempt is followed by its parts. The duration of a tool
 * call is that of its record in calls, so that all pages show the same duration.
 */
export function partsOf(t: Timeline, now: number, calls: ToolCall[] = []): Part[] {
  if (t.spans.length === 0) return [];
  const start = beginning(t);
  return t.spans.map((span, i) => {
    const from = Date.parse(span.startedAt) - start;
    const call = span.kind === "tool" ? calls.find((c) => c.id === span.toolCallId) : undefined;
    return {
      key: `${span.kind} ${span.attempt} ${span.toolCallId ?? span.name} ${i}`, span, name: nameOf(span, t), from,
      within: span.kind === "turn" || span.kind === "tool",
      took: call && span.finishedAt !== null ? call.durationMs : overAt(span, now) - start - from, call, status: span.kind === "wait" && span.status === "completed" && !ofClient(span) ? Words.decided : span.status, notes: notesOf(span),
      why: (span.kind === "attempt" || span.kind === "tool") && (span.status === "failed" || span.status === "lost") ? span.message : undefined,
    };
  });
}

/** Describes a part for screen readers, whose users cannot see its bar. */
export const saidOf = (p: Part): string => ["", wordFor(statuses, p.status), texts.fromAfter(after(p.from)), ...p.notes.filter((note) => note !== p.why)].join(", ");

/** Formats a time from the start of the run. */
export const after = (ms: number): string => (ms === 0 ? "0" : `+${duration(ms)}`);

/** Formats a time from the start of the run with the given number of decimal places. */
function precisely(ms: number, digits: number): string {
  const minutes = Math.floor(ms / 60_000);
  const parts = [[Math.floor(minutes / 60), "h"], [minutes % 60, "min"]].filter(([n]) => n !== 0).map((part) => part.join(" "));
  const seconds = ((ms % 60_000) / 1000).toFixed(digits);
  return "+" + [...parts, `${seconds} s`].join(" ");
}

/** Reports whether the short format shows a time without rounding. */
const round = (ms: number): boolean => ms < 1000 || ms % (ms < 10_000 ? 100 : ms < 3_600_000 ? 1000 : 60_000) === 0;

/** Formats times exactly, all with the same number of decimal places. */
export function momentsOf(all: number[]): string[] {
  if (all.every(round)) return all.map(after);
  const digits = [0, 1, 2].find((n) => all.every((ms) => ms % 10 ** (3 - n) === 0)) ?? 3;
  return all.map((ms) => (ms === 0 ? "0" : precisely(ms, digits)));
}

/** The kinds of work. The kind "wait" is for decisions, and "client" for results of the client's tools. */
type Work = "queue" | "turn" | "wait" | "client" | "tool" | "lost";

/**
 * Returns the kind of work on which the time of a part was spent. For a lost attempt the kind is
 * unknown.
 */
function workOf(p: Part): Work | null {
  if (p.span.status === "lost") return "lost";
  return p.span.kind === "attempt" ? null : ofClient(p.span) ? "client" : p.span.kind;
}

/** Returns the total time for each kind of work. Overlapping work counts once. */
export function spentOf(parts: Part[]): Record<Work, number> {
  let counted: Interval[] = [];
  const spent: Record<Work, number> = { queue: 0, turn: 0, wait: 0, client: 0, tool: 0, lost: 0 };
  for (const kind of ["queue", "turn", "wait", "client", "tool", "lost"] as const) {
    const all = union([...counted, ...parts.filter((p) => workOf(p) === kind).map((p): Interval => [p.from, p.from + p.took])]);
    spent[kind] = length(all) - length(counted);
    counted = all;
  }
  return spent;
}
