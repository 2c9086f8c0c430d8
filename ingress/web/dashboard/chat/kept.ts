// Chat state in the browser's session storage, which survives a reload and a new sign-in: drafts,
// messages that are not answered yet, and the demo's whole session.
import type { ApiError } from "../api";
import type { Attachment } from "../types";
import { newTurn, type Turn } from "./turn";

export interface Sent {
  key: string;
  message: string;
  /**
   * The attachments of the message. In messages that an earlier release stored, the field is
   * missing.
   */
  attachments?: Attachment[];
  createdAt: string;
  runId: string | null;
  /** Whether the run must be cancelled as soon as its id is known. */
  stopping?: boolean;
  /**
   * The error with which the message was refused, or null. The person decides when to send the
   * message again.
   */
  problem?: ApiError | null;
  againAt?: number | null;
}

const sentName = (target: string, session: string): string => `parley.sent.${target}.${session}`;
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
    // the storage is blocked or full: the state does not survive a reload
  }
}

/** Returns the messages of a session that were sent from this window and are not answered yet. */
export const readSent = (target: string, session: string): Sent[] => (read(sentName(target, session)) as Sent[] | null) ?? [];

/** Stores the state of an unanswered message. The value null removes the message. */
export function noteSent(target: string, session: string, key: string, sent: Sent | null): void {
  const others = readSent(target, session).filter((s) => s.key !== key);
  const all = sent === null ? others : [...others, sent];
  write(sentName(target, session), all.length === 0 ? null : all);
}

const draftName = (slot: string): string => `parley.draft.${slot}`;

/** Returns the unsent text of a composer. */
export function readDraft(slot: string): string {
  const found = read(draftName(slot));
  return typeof found === "string" ? found : "";
}

export const keepDraft = (slot: string, text: string): void => write(draftName(slot), text === "" ? null : text);

let prefilled = ""; // the last question that askNext has put into a message field

/**
 * Puts a question into the message field of a person's next session with an agent. If the person
 * has typed text there, the text follows the question.
 */
export function askNext(person: string, agent: string, question: string): void {
  const slot = `${person}.${agent}.new`;
  const typed = readDraft(slot);
  keepDraft(slot, typed === "" || typed === prefilled ? question : `${question}\n\n${typed}`);
  prefilled = question;
}

/** The demo's rate limit per visitor. */
export interface Limit {
  left: number;
  most: number;
  windowSeconds: number;
  /**
   * The time at which the next request is allowed, and the time at which all requests are available
   * again, in milliseconds since 1970.
   */
  more: number;
  all: number;
}

const limitName = "parley.demo-limit";

/**
 * Returns the rate limit of the demo's last response. The limit's times are absolute, so they are
 * still valid after a reload.
 */
export const keptLimit = (): Limit | null => read(limitName) as Limit | null;

export const keepLimit = (limit: Limit): void => write(limitName, limit);

interface DemoSession {
  sessionId: string;
  turns: Turn[];
}

/** Returns the visitor's session with a template, as it was stored in this window. */
export function demoSession(target: string): DemoSession | null {
  const found = read(demoName(target)) as DemoSession | null;
  return found === null ? null : { ...found, turns: found.turns.map((t) => ({ ...newTurn(t.message, t.key, t.createdAt), ...t })) };
}

export const keepDemo = (target: string, session: DemoSession | null): void => write(demoName(target), session);
