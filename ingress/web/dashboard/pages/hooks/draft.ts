// A hook as a form holds it, and as requests send it.
import type { FilterOp, Hook, HookFilter, HookSource } from "../../types";
import { sources, usualHeader } from "./sources";

export interface Row {
  key: number;
  path: string;
  op: FilterOp;
  /** As it is typed: JSON, or a text without its quotes; of "in" separated by commas. */
  value: string;
}

export interface HookDraft {
  source: HookSource;
  name: string;
  agentId: string;
  /** An API key's id, or newKey. */
  keyId: string;
  secret: string;
  signatureHeader: string;
  deliveryIdHeader: string;
  messageTemplate: string;
  filter: Row[];
  coalesces: boolean;
  coalesceKey: string;
  windowSeconds: string;
  maxWaitSeconds: string;
}

/** Stands for a key that is made with the hook, for it alone. */
export const newKey = "new";

let last = 0;
export const nextRow = (path = "", op: FilterOp = "eq", value = ""): Row => ({ key: ++last, path, op, value });

/** A text as the value that it stands for: JSON when it is some, else the text. */
function valueOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** A value as it is typed: a text that would be read as something else keeps its quotes. */
function typed(value: unknown): string {
  return typeof value === "string" && valueOf(value) === value ? value : JSON.stringify(value ?? "");
}

function typedOf({ op, value }: HookFilter): string {
  if (op === "exists") return value === false ? "false" : "true";
  if (op !== "in" || !Array.isArray(value)) return typed(value);
  const each = value.map(typed);
  return each.some((v) => v.includes(",")) ? JSON.stringify(value) : each.join(", ");
}

function filterOf({ path, op, value }: Row): HookFilter {
  const text = value.trim();
  if (op === "exists") return { path: path.trim(), op, value: text !== "false" };
  if (op !== "in") return { path: path.trim(), op, value: valueOf(text) };
  const list = text.startsWith("[") ? valueOf(text) : undefined;
  return { path: path.trim(), op, value: Array.isArray(list) ? list : text.split(",").map((v) => valueOf(v.trim())) };
}

export const filtersOf = (rows: Row[]): HookFilter[] => rows.map(filterOf);
const rowsOf = (filter: HookFilter[]): Row[] => filter.map((f) => nextRow(f.path, f.op, typedOf(f)));

/** What a hook of a source begins as: a message and a filter that fit what they send. */
export function beginning(source: HookSource, agentId: string, before?: HookDraft): HookDraft {
  const { template, filter, key } = sources[source];
  return {
    source, agentId: before?.agentId ?? agentId, name: before?.name ?? "", keyId: before?.keyId ?? newKey, secret: "",
    signatureHeader: usualHeader(source), deliveryIdHeader: "", messageTemplate: template, filter: rowsOf(filter),
    coalesces: before?.coalesces ?? false, coalesceKey: key, windowSeconds: before?.windowSeconds ?? "10", maxWaitSeconds: before?.maxWaitSeconds ?? "60",
  };
}

export function draftOf(hook: Hook): HookDraft {
  return {
    source: hook.source, name: hook.name, agentId: hook.agentId, keyId: hook.keyId, secret: "", signatureHeader: hook.signatureHeader,
    deliveryIdHeader: hook.deliveryIdHeader, messageTemplate: hook.messageTemplate, filter: rowsOf(hook.filter), coalesces: hook.coalesce !== null,
    coalesceKey: hook.coalesce?.key ?? sources[hook.source].key,
    windowSeconds: String(hook.coalesce?.windowSeconds ?? 10), maxWaitSeconds: String(hook.coalesce?.maxWaitSeconds ?? 60),
  };
}

/** A number as it was typed; what is none is sent as it is, for the service to say so. */
const numberOf = (text: string): number | string => (/^\d+$/.test(text.trim()) ? Number(text) : text);

/** What a PUT changes. */
export function changeOf(d: HookDraft) {
  const headers = usualHeader(d.source) === "" ? {} : { signatureHeader: d.signatureHeader.trim(), deliveryIdHeader: d.deliveryIdHeader.trim() };
  return {
    name: d.name.trim(), agentId: d.agentId, keyId: d.keyId, messageTemplate: d.messageTemplate, filter: filtersOf(d.filter),
    coalesce: d.coalesces ? { key: d.coalesceKey, windowSeconds: numberOf(d.windowSeconds), maxWaitSeconds: numberOf(d.maxWaitSeconds) } : null, ...headers,
  };
}

/** What a POST makes; keyId is that of the key which was made for it, if one was. */
export function bodyOf(d: HookDraft, keyId = d.keyId) {
  const { coalesce, ...rest } = changeOf({ ...d, keyId });
  return { source: d.source, ...rest, ...(coalesce && { coalesce }), ...(d.secret !== "" && { secret: d.secret }) };
}
