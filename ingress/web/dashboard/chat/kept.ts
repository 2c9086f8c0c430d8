// What outlives a reload of the window, or signing in again: messages that are written or on their way, and in the demo all of it.
import type { ApiError } from "../api";
import { newTurn, type Turn } from "./turn";

export interface Sent {
  key: string;
  message: string;
  createdAt: string;
  runId: string | null;
  /** It is to be cancelled once it is a run. */
  stopping?: boolean;
  /** Why it was refused, and from when on it may be sent again: it waits for a person. */
  problem?: ApiError | null;
  againAt?: number | null;
}

const nameOf = (target: string, session: string): string => `parley.sent.${target}.${session}`;
const demoName = (target: string): string => `parley.demo.${target}`;

function read(name: string): unknown {
  try {
    return JSON.parse(sessionStorage.getItem(name) ?? "null");
  } catch {
    return null;
  }
}

function write(name: string, value: unknown): void {
  try {
    if (value === null) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, JSON.stringify(value));
  } catch {
    // storage is closed or full: a reload will not go on with it
  }
}

/** The messages of a session that were sent from this window and are not answered yet. */
export const sentOf = (target: string, session: string): Sent[] => (read(nameOf(target, session)) as Sent[] | null) ?? [];

/** Notes how such a message stands; null forgets it. */
export function noteSent(target: string, session: string, key: string, sent: Sent | null): void {
  const others = sentOf(target, session).filter((s) => s.key !== key);
  const all = sent === null ? others : [...others, sent];
  write(nameOf(target, session), all.length === 0 ? null : all);
}

const draftName = (slot: string): string => `parley.draft.${slot}`;

/** What was written into a composer of this window and not sent. */
export function draftOf(slot: string): string {
  const found = read(draftName(slot));
  return typeof found === "string" ? found : "";
}

export const keepDraft = (slot: string, text: string): void => write(draftName(slot), text === "" ? null : text);

/** What the demo lets a visitor do in a minute. */
export interface Limit {
  left: number;
  most: number;
  windowSeconds: number;
  /** When there is more, and when all of it is there again, in milliseconds since 1970. */
  more: number;
  all: number;
}

const limitName = "parley.demo-limit";

/** What the demo's last answer said of its limit. Its times are points in time: a reload does not begin them anew. */
export const keptLimit = (): Limit | null => read(limitName) as Limit | null;

export const keepLimit = (limit: Limit): void => write(limitName, limit);

interface DemoSession {
  sessionId: string;
  turns: Turn[];
}

/** The visitor's session with a template, as this window has it. */
export function demoSession(target: string): DemoSession | null {
  const found = read(demoName(target)) as DemoSession | null;
  return found === null ? null : { ...found, turns: found.turns.map((t) => ({ ...newTurn(t.message, t.key, t.createdAt), ...t })) };
}

export const keepDemo = (target: string, session: DemoSession | null): void => write(demoName(target), session);
