// Maps the times of a run to positions in the timeline. Work is drawn to scale. Long waits are
// shortened.
import type { Span, Timeline } from "../../types";

/** A period of the run, and its position. Positions are fractions of the whole width. */
interface Stretch {
  from: number;
  to: number;
  at: number;
  width: number;
  /** Whether the period is drawn shorter than to scale. */
  cut: boolean;
}

export interface Scale {
  /** Milliseconds from the start of the run to its end or, if the run is unfinished, until now. */
  end: number;
  stretches: Stretch[];
  /** Returns the position of a time that is given in milliseconds from the start. */
  position: (ms: number) => number;
  ticks: { ms: number; at: number }[];
}

export type Interval = [from: number, to: number];

/** Returns the start of the first span, in milliseconds since 1970. */
export const startTime = (t: Timeline): number => Math.min(...t.spans.map((s) => Date.parse(s.startedAt)));

/** Returns the end of a span, or now if it is unfinished. */
export const overAt = (s: Span, now: number): number => (s.finishedAt === null ? Math.max(now, Date.parse(s.startedAt)) : Date.parse(s.finishedAt));

/** Merges overlapping intervals and returns them in order. */
export function union(intervals: Interval[]): Interval[] {
  const out: Interval[] = [];
  for (const [from, to] of [...intervals].sort((a, b) => a[0] - b[0])) {
    const last = out.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else out.push([from, to]);
  }
  return out;
}

/** Returns the total length of intervals that do not overlap. */
export const length = (intervals: Interval[]): number => intervals.reduce((sum, [from, to]) => sum + to - from, 0);

/** Returns the periods between 0 and end, alternately with and without work. */
function splitStretches(work: Interval[], end: number): { from: number; to: number; idle: boolean }[] {
  const out: { from: number; to: number; idle: boolean }[] = [];
  let at = 0;
  for (const [from, to] of work) {
    if (from > at) out.push({ from: at, to: from, idle: true });
    if (to > from) out.push({ from, to, idle: false });
    at = Math.max(at, to);
  }
  if (end > at) out.push({ from: at, to: end, idle: true });
  return out;
}

/** Returns the scale of a timeline. If whole is true, even the longest wait is drawn to scale. */
export function newScale(t: Timeline, now: number, whole: boolean): Scale {
  const start = startTime(t);
  const interval = (s: Span): Interval => [Date.parse(s.startedAt) - start, overAt(s, now) - start];
  const end = Math.max(1, ...t.spans.map((s) => overAt(s, now) - start));
  const work = union(t.spans.filter((s) => s.kind === "turn" || s.kind === "tool").map(interval));
  const busy = length(work);
  const idle = end - busy;
  const shorten = !whole && busy > 0 && idle > busy * 2;
  const drawn = splitStretches(work, end).map((s) => {
    const cut = shorten && s.idle && s.to - s.from > busy / 2;
    return { from: s.from, to: s.to, cut, size: cut ? busy / 4 : s.to - s.from };
  });
  const total = drawn.reduce((sum, s) => sum + s.size, 0);
  let at = 0;
  const stretches = drawn.map(({ from, to, cut, size }) => {
    const stretch = { from, to, cut, at, width: size / total };
    at += stretch.width;
    return stretch;
  });
  const position = (ms: number): number => {
    const s = stretches.find((one) => ms <= one.to) ?? stretches.at(-1);
    if (!s) return 0;
    return s.at + (s.to === s.from ? 0 : Math.min(1, Math.max(0, (ms - s.from) / (s.to - s.from)))) * s.width;
  };
  return { end, stretches, position, ticks: newTicks(stretches, total, position) };
}

const steps = [1, 2, 5];

/** Rounds a duration up to a round number of milliseconds, seconds, minutes or hours. */
function roundUp(ms: number): number {
  for (const unit of [1, 10, 100, 1000, 10_000]) for (const step of steps) if (step * unit >= ms && step * unit < 30_000) return step * unit;
  for (const seconds of [30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21_600, 43_200, 86_400]) if (seconds * 1000 >= ms) return seconds * 1000;
  return Math.ceil(ms / 86_400_000) * 86_400_000;
}

/**
 * Returns ticks at round times, outside shortened waits, and far enough apart that their labels do
 * not touch.
 */
function newTicks(stretches: Stretch[], total: number, position: (ms: number) => number): { ms: number; at: number }[] {
  const step = roundUp(total / 8);
  const ticks = [{ ms: 0, at: 0 }];
  for (const s of stretches) {
    if (s.cut) continue;
    const first = Math.ceil(s.from / step) * step;
    for (let ms = first; ms <= s.to; ms += step) {
      const at = position(ms);
      if (at - (ticks.at(-1)?.at ?? 0) >= 0.12 && at <= 0.97) ticks.push({ ms, at });
    }
  }
  return ticks;
}
