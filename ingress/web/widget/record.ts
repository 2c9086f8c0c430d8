// The chat's data in the browser, so that a reload loses nothing. If the browser blocks its
// storage, the data lasts until the page is left.
import type { Citation } from "../kit/markdown";
import type { Attached } from "./files";

export interface Entry {
  from: "visitor" | "agent";
  text: string;
  /** The names of the files of a visitor's message. */
  files?: string[];
  citations?: Citation[];
  /** Why there is no answer, or only a part of one. */
  note?: string;
  /** Whether the answer was stopped on purpose, so that the note reports no fault. */
  stopped?: boolean;
}
/**
 * A pending answer: the idempotency key of its run, the run's id once the service has accepted the
 * message, and the id of the last event read.
 */
export interface Pending {
  key: string;
  run?: string;
  text: string;
  files: Attached[];
  answer: string;
  citations: Citation[];
  lastEventId: string;
}
export interface Transcript {
  session: string;
  entries: Entry[];
  pending: Pending | null;
}

const maxEntries = 60;
const maxCharacters = 300_000;
const maxQuote = 600;

/** Returns an unguessable id, also on pages without TLS, where crypto.randomUUID is missing. */
export function unguessable(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

/**
 * One of the browser's two stores, local or session storage. If it is blocked, the data is kept in
 * memory.
 */
export class Store {
  private readonly memory = new Map<string, string>();

  constructor(
    private readonly kind: "localStorage" | "sessionStorage",
    private readonly prefix: string,
  ) {}

  name(of: string): string {
    return `${this.prefix}:${of}`;
  }

  get(of: string): unknown {
    let text = this.memory.get(of);
    try {
      text ??= window[this.kind].getItem(this.name(of)) ?? undefined;
    } catch {
      // the browser blocks its storage
    }
    try {
      return text === undefined ? null : JSON.parse(text);
    } catch {
      return null; // the stored text was written by another program, or is truncated
    }
  }

  set(of: string, value: unknown): void {
    const text = JSON.stringify(value);
    try {
      window[this.kind].setItem(this.name(of), text);
      this.memory.delete(of);
    } catch {
      this.memory.set(of, text); // the storage is blocked or full
    }
  }
}

export const newTranscript = (): Transcript => ({ session: `w_${unguessable()}`, entries: [], pending: null });

const list = <T>(stored: T[] | null | undefined): T[] => (Array.isArray(stored) ? stored : []);

/** Returns the valid citations in a list. Invalid citations would break the rendering. */
export function readCitations(stored: unknown): Citation[] {
  if (!Array.isArray(stored)) return [];
  return stored.filter((c: Citation | null) => typeof c?.id === "number" && [c.title, c.url, c.citedText].every((text) => typeof text === "string"));
}

const texts = (...all: unknown[]): boolean => all.every((text) => typeof text === "string");

/** Returns the stored transcript without invalid entries, or a new one. */
export function load(store: Store): Transcript {
  const kept = store.get("transcript") as Transcript | null;
  if (!texts(kept?.session) || !Array.isArray(kept?.entries)) return newTranscript();
  const entries = kept.entries
    .filter((e: Entry | null) => texts(e?.from, e?.text, e?.note ?? ""))
    .map((e) => (e.citations === undefined ? e : { ...e, citations: readCitations(e.citations) }))
    .map((e) => (e.files === undefined ? e : { ...e, files: list(e.files).filter((name) => texts(name)) }));
  const { pending: p } = kept;
  const pending = texts(p?.key, p?.text, p?.answer, p?.lastEventId) ? { ...p!, files: list(p!.files).filter((f) => texts(f?.fileId, f?.name)), citations: readCitations(p!.citations) } : null;
  return { session: kept.session, entries, pending };
}

/** Stores a transcript. If the transcript is long, only its newest part is stored. */
export function save(store: Store, transcript: Transcript): void {
  const { entries } = transcript;
  for (const { citations } of entries) citations?.forEach((c) => (c.citedText = c.citedText.slice(0, maxQuote)));
  let size = 0;
  let from = entries.length;
  while (from > 0 && entries.length - from < maxEntries && size < maxCharacters) size += JSON.stringify(entries[--from]).length;
  entries.splice(0, from);
  store.set("transcript", transcript);
}
