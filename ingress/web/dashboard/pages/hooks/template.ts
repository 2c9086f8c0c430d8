// Renders message templates and evaluates filters exactly as the service does, for previews.
import type { HookFilter } from "../../types";

export interface Sample {
  event: string;
  deliveryId: string;
  payload: unknown;
}

const maxName = 4000; // maximum length of an event's name or a delivery's id in a message, in characters
const maxPayload = 8000; // maximum size of a whole payload in a message, in bytes
const open = "⟦";
const close = "⟧";

/** Returns the value at a path like issue.labels.0.name, or undefined if there is none. */
export function valueAt(payload: unknown, path: string): unknown {
  let at = payload;
  for (const part of path.split(".")) {
    if (Array.isArray(at)) at = /^(0|[1-9]\d*)$/.test(part) ? at[Number(part)] : undefined;
    else if (typeof at === "object" && at !== null && Object.hasOwn(at, part)) at = (at as Record<string, unknown>)[part];
    else return undefined;
  }
  return at;
}

function cut(text: string, max: number): string {
  const points = [...text];
  return points.length <= max ? text : points.slice(0, max - 1).join("") + "…";
}

function cutBytes(text: string, max: number): string {
  const bytes = new TextEncoder().encode(text);
  // In stream mode, the decoder omits an incomplete last character.
  return bytes.length <= max ? text : new TextDecoder().decode(bytes.slice(0, max - 3), { stream: true }) + "…";
}

function formatValue(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function placeholderText(path: string, sample: Sample): string {
  if (path === "@event") return cut(sample.event, maxName);
  if (path === "@deliveryId") return cut(sample.deliveryId, maxName);
  if (path === "@payload") return cutBytes(JSON.stringify(sample.payload), maxPayload);
  return formatValue(valueAt(sample.payload, path));
}

/** A piece of a previewed message: text of the template, or a value of the payload. */
export interface Piece {
  text: string;
  /** The path of the value; undefined for text of the template. */
  path?: string;
}

const fields = /\{\{([^]*?)\}\}/g;

/** Splits the message into pieces. A piece for an empty value has an empty text. */
export function renderPieces(template: string, sample: Sample): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  for (const found of template.matchAll(fields)) {
    if (found.index > from) pieces.push({ text: template.slice(from, found.index) });
    const path = (found[1] ?? "").trim();
    const value = placeholderText(path, sample).replace(/[⟦⟧]/g, "");
    pieces.push({ path, text: value === "" ? "" : open + value + close });
    from = found.index + found[0].length;
  }
  if (from < template.length) pieces.push({ text: template.slice(from) });
  return pieces;
}

/** Returns the message that the agent gets. */
export const renderMessage = (template: string, sample: Sample): string => renderPieces(template, sample).map((p) => p.text).join("");

const plain = /^[\p{L}\p{Nd}_$:/-]+$/u; // matches the keys that a path can contain

/**
 * Returns the paths of the first values of a payload that are not empty. max is the maximum number
 * of paths.
 */
export function findPaths(payload: unknown, max = 60): string[] {
  const found: string[] = [];
  const look = (value: unknown, path: string, depth: number) => {
    if (found.length >= max) return;
    if (typeof value !== "object" || value === null) {
      if (path !== "" && value !== null && value !== "") found.push(path);
      return;
    }
    if (depth >= 6) return;
    const entries = Array.isArray(value) ? value.slice(0, 2).map((v, i) => [String(i), v] as const) : Object.entries(value);
    for (const [key, inner] of entries) {
      if (plain.test(key)) look(inner, path === "" ? key : `${path}.${key}`, depth + 1);
    }
  };
  look(payload, "", 0);
  return found;
}

/** Returns the value that a condition compares. A missing value counts as null. */
function comparedValue(path: string, { event, deliveryId, payload }: Sample): unknown {
  if (path === "@event") return event || null;
  return path === "@deliveryId" ? deliveryId || null : (valueAt(payload, path) ?? null);
}

function holds({ path, op, value }: HookFilter, sample: Sample): boolean {
  const at = comparedValue(path, sample);
  switch (op) {
    case "eq": return at === value;
    case "ne": return at !== value;
    case "in": return Array.isArray(value) && value.includes(at);
    case "contains": return Array.isArray(at) ? at.includes(value) : typeof at === "string" && typeof value === "string" && at.includes(value);
    case "exists": return (at !== null) === (value ?? true);
  }
}

/** Reports whether a delivery like the sample would start a run. */
export const passes = (filter: HookFilter[], sample: Sample): boolean => filter.every((f) => holds(f, sample));
