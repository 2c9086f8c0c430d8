// The names and notes of the parts of a run.
import * as texts from "../../texts/run";
import { Words } from "../../texts/run";
import { runErrors, statuses, wordFor } from "../../texts/values";
import type { Span, Timeline, ToolCall } from "../../types";
import { money } from "../../ui/money";
import { count, duration } from "../../ui/parts";
import { toolLabel } from "../../toolnames";
import { startTime, length, overAt, union, type Interval } from "./scale";

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
  /** The start in milliseconds since 1970. */
  at: number;
  /** Milliseconds from the start of the run. */
  from: number;
  took: number;
  /**
   * The duration to show, in milliseconds. It differs from the field took if the shown durations of
   * an attempt's parts would otherwise add up to more than that of the attempt.
   */
  shown: number;
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

function spanName(s: Span, t: Timeline): string {
  switch (s.kind) {
    case "queue": return unlucky(t, s.attempt - 1) ? texts.pauseBeforeAttempt(s.attempt) : s.attempt > 1 ? Words.queueAgain : Words.queue;
    case "attempt": return texts.attemptNumber(s.attempt);
    case "turn": return s.status === "lost" ? Words.workLostWithItsWorker : texts.turnNumber(/\d+$/.exec(s.name)?.[0] ?? "");
    case "wait": return ofClient(s) ? Words.waitingForClient : s.name === "wait" ? Words.waitingForPerson : texts.decisionOnToolNamed(toolLabel(s.name));
    default: return toolLabel(s.name);
  }
}

function spanNotes(s: Span): string[] {
  const notes: string[] = [];
  if (s.model) notes.push(s.model);
  if (s.inputTokens !== undefined || s.outputTokens !== undefined) notes.push(texts.tokensInAndOut(count(s.inputTokens ?? 0), count(s.outputTokens ?? 0)));
  if (s.costMicros) notes.push(texts.costOf(money(s.costMicros)));
  if (s.message) notes.push(s.kind === "wait" ? wordFor({ ...runErrors, ...decisions }, s.message) : s.message);
  return notes;
}

/** Returns the unit to which duration rounds a time. */
const roundingUnit = (ms: number): number => (ms < 1000 ? 1 : ms < 10_000 ? 100 : ms < 3_600_000 ? 1000 : 60_000);

/** Returns the time that a reader of the formatted duration reads, in milliseconds. */
function read(ms: number): number {
  const unit = roundingUnit(ms);
  return (ms < 60_000 ? Math.round(ms / unit) : Math.floor(ms / unit)) * unit;
}

/**
 * Returns the durations to show for parts that follow each other. Durations that would be rounded
 * up are rounded down, until the shown durations add up to at most the shown duration of the whole.
 * A fixed duration, which other places also show, is the last to be rounded down. Parts of less
 * than a second are exact. If the whole is rounded down, such parts may add up to more than its
 * shown duration, by less than the unit to which it is rounded.
 */
export function roundDurations(whole: number, parts: { took: number; fixed?: boolean }[]): number[] {
  const shown = parts.map((p) => p.took);
  const fits = () => shown.reduce((sum, ms) => sum + read(ms), 0) <= read(whole);
  const roundedUp = parts.map((p, at) => ({ ...p, at, up: read(p.took) - p.took })).filter((p) => p.up > 0);
  for (const { took, at } of roundedUp.sort((a, b) => Number(a.fixed ?? false) - Number(b.fixed ?? false) || b.up - a.up)) {
    if (fits()) break;
    shown[at] = Math.floor(took / roundingUnit(took)) * roundingUnit(took);
  }
  return shown;
}

/**
 * Returns when each span began and ended, in milliseconds since 1970. The duration of a tool call is
 * that of its record. It can be a few milliseconds longer than the span, because the call begins
 * before the end of its turn is recorded. The turn then ends when the call began.
 */
function spanTimes(spans: Span[], now: number, findCall: (s: Span) => ToolCall | undefined): Interval[] {
  const times = spans.map((s): Interval => [Date.parse(s.startedAt), overAt(s, now)]);
  spans.forEach((span, i) => {
    const time = times[i];
    const call = findCall(span);
    if (!time || !call || span.finishedAt === null || span.status === "lost") return;
    if (call.durationMs <= time[1] - time[0]) {
      time[1] = time[0] + call.durationMs;
      return;
    }
    const before = spans.findLastIndex((s, n) => n < i && s.attempt === span.attempt && (s.kind === "turn" || s.kind === "attempt"));
    time[0] = Math.max(times[before]?.[0] ?? time[0], time[1] - call.durationMs);
    const turn = spans[before]?.kind === "turn" ? times[before] : undefined;
    if (turn) turn[1] = Math.min(turn[1], time[0]);
  });
  return times;
}

/** Reports whether a part shares time with another part. Calls of the same turn run in parallel. */
const overlaps = (p: Part, all: Part[]): boolean => all.some((o) => o !== p && o.from < p.from + p.took && p.from < o.from + o.took);

/** Sets the shown durations of the parts of each attempt. */
function fit(parts: Part[]): void {
  for (const attempt of parts.filter((p) => p.span.kind === "attempt")) {
    const all = parts.filter((p) => p.within && p.span.attempt === attempt.span.attempt);
    const alone = all.filter((p) => !overlaps(p, all));
    roundDurations(attempt.took, alone.map((p) => ({ took: p.took, fixed: p.call !== undefined }))).forEach((shown, i) => {
      const part = alone[i];
      if (part) part.shown = shown;
    });
  }
}

/**
 * Returns the parts of a run in order. An attempt is followed by its parts. The duration of a tool
 * call is that of its record in calls, so that all pages show the same duration.
 */
export function newParts(t: Timeline, now: number, calls: ToolCall[] = []): Part[] {
  if (t.spans.length === 0) return [];
  const start = startTime(t);
  const findCall = (span: Span) => (span.kind === "tool" ? calls.find((c) => c.id === span.toolCallId) : undefined);
  const times = spanTimes(t.spans, now, findCall);
  const parts = t.spans.map((span, i): Part => {
    const [from, to] = times[i] ?? [start, start];
    return {
      key: `${span.kind} ${span.attempt} ${span.toolCallId ?? span.name} ${i}`, span, name: spanName(span, t), from: from - start,
      within: span.kind === "turn" || span.kind === "tool",
      at: from, took: to - from, shown: to - from, call: findCall(span), status: span.kind === "wait" && span.status === "completed" && !ofClient(span) ? Words.decided : span.status, notes: spanNotes(span),
      why: (span.kind === "attempt" || span.kind === "tool") && (span.status === "failed" || span.status === "lost") ? span.message : undefined,
    };
  });
  fit(parts);
  return parts;
}

/** Describes a part for screen readers, whose users cannot see its bar. */
export const describePart = (p: Part): string => ["", wordFor(statuses, p.status), texts.fromAfter(after(p.from)), ...p.notes.filter((note) => note !== p.why)].join(", ");

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
export function formatMoments(all: number[]): string[] {
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
function workKind(p: Part): Work | null {
  if (p.span.status === "lost") return "lost";
  return p.span.kind === "attempt" ? null : ofClient(p.span) ? "client" : p.span.kind;
}

/** Returns the total time for each kind of work. Overlapping work counts once. */
export function timeSpent(parts: Part[]): Record<Work, number> {
  let counted: Interval[] = [];
  const spent: Record<Work, number> = { queue: 0, turn: 0, wait: 0, client: 0, tool: 0, lost: 0 };
  for (const kind of ["queue", "turn", "wait", "client", "tool", "lost"] as const) {
    const all = union([...counted, ...parts.filter((p) => workKind(p) === kind).map((p): Interval => [p.from, p.from + p.took])]);
    spent[kind] = length(all) - length(counted);
    counted = all;
  }
  return spent;
}
