// Converts a webhook between the API's fields and the form's.
import type { Hook, HookFilter, HookSource } from "../../types";
import { schemaText } from "../../ui/json";
import { sources, usualHeader } from "./sources";

export interface Row {
  key: number;
  path: string;
  op: HookFilter["op"];
  /**
   * The value as typed: JSON, or a string without quotes. For the operation "in", it is a list of
   * values separated by commas.
   */
  value: string;
}

export interface HookDraft {
  source: HookSource;
  name: string;
  agentId: string;
  /** The id of an API key, or newKey. */
  keyId: string;
  secret: string;
  signatureHeader: string;
  deliveryIdHeader: string;
  messageTemplate: string;
  /**
   * The JSON Schema of the answers as typed. An empty text means that the agent's own schema
   * applies.
   */
  outputSchema: string;
  filter: Row[];
  coalesces: boolean;
  coalesceKey: string;
  windowSeconds: string;
  maxWaitSeconds: string;
}

/** The keyId of a draft whose key is created together with the webhook. */
export const newKey = "new";

let last = 0;
export const nextRow = (path = "", op: HookFilter["op"] = "eq", value = ""): Row => ({ key: ++last, path, op, value });

/** Returns the JSON value of a typed text, or the text itself if it is not JSON. */
function parseValue(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/**
 * Returns the text to type for a value. A string that looks like another JSON value keeps its
 * quotes.
 */
function formatValue(value: unknown): string {
  return typeof value === "string" && parseValue(value) === value ? value : JSON.stringify(value ?? "");
}

function formatOperand({ op, value }: HookFilter): string {
  if (op === "exists") return value === false ? "false" : "true";
  if (op !== "in" || !Array.isArray(value)) return formatValue(value);
  const each = value.map(formatValue);
  return each.some((v) => v.includes(",")) ? JSON.stringify(value) : each.join(", ");
}

function parseFilter({ path, op, value }: Row): HookFilter {
  const text = value.trim();
  if (op === "exists") return { path: path.trim(), op, value: text !== "false" };
  if (op !== "in") return { path: path.trim(), op, value: parseValue(text) };
  const list = text.startsWith("[") ? parseValue(text) : undefined;
  return { path: path.trim(), op, value: Array.isArray(list) ? list : text.split(",").map((v) => parseValue(v.trim())) };
}

export const parseFilters = (rows: Row[]): HookFilter[] => rows.map(parseFilter);
const filterRows = (filter: HookFilter[]): Row[] => filter.map((f) => nextRow(f.path, f.op, formatOperand(f)));

/**
 * Returns the initial draft for a source. Its message and filter are those of the source's example.
 */
export function newSourceDraft(source: HookSource, agentId: string, before?: HookDraft): HookDraft {
  const { template, filter, key } = sources[source];
  return {
    source, agentId: before?.agentId ?? agentId, name: before?.name ?? "", keyId: before?.keyId ?? newKey, secret: "",
    signatureHeader: usualHeader(source), deliveryIdHeader: "", messageTemplate: template, outputSchema: before?.outputSchema ?? "", filter: filterRows(filter),
    coalesces: before?.coalesces ?? false, coalesceKey: key, windowSeconds: before?.windowSeconds ?? "10", maxWaitSeconds: before?.maxWaitSeconds ?? "60",
  };
}

export function newDraft(hook: Hook): HookDraft {
  return {
    source: hook.source, name: hook.name, agentId: hook.agentId, keyId: hook.keyId, secret: "", signatureHeader: hook.signatureHeader,
    deliveryIdHeader: hook.deliveryIdHeader, messageTemplate: hook.messageTemplate, outputSchema: schemaText(hook.outputSchema), filter: filterRows(hook.filter), coalesces: hook.coalesce !== null,
    coalesceKey: hook.coalesce?.key ?? sources[hook.source].key,
    windowSeconds: String(hook.coalesce?.windowSeconds ?? 10), maxWaitSeconds: String(hook.coalesce?.maxWaitSeconds ?? 60),
  };
}

/**
 * Returns the number in a typed text. If the text is not a number, returns the text, which the
 * service rejects.
 */
const parseNumber = (text: string): number | string => (/^\d+$/.test(text.trim()) ? Number(text) : text);

/**
 * Returns the schema in a typed text, or null if the text is empty. If the text is not JSON,
 * returns the text, which the service rejects.
 */
const parseSchema = (text: string): unknown => (text.trim() === "" ? null : parseValue(text));

/** Returns the body of the PUT request that saves a draft. */
export function changeBody(d: HookDraft) {
  const headers = usualHeader(d.source) === "" ? {} : { signatureHeader: d.signatureHeader.trim(), deliveryIdHeader: d.deliveryIdHeader.trim() };
  return {
    name: d.name.trim(), agentId: d.agentId, keyId: d.keyId, messageTemplate: d.messageTemplate, outputSchema: parseSchema(d.outputSchema), filter: parseFilters(d.filter),
    coalesce: d.coalesces ? { key: d.coalesceKey, windowSeconds: parseNumber(d.windowSeconds), maxWaitSeconds: parseNumber(d.maxWaitSeconds) } : null, ...headers,
  };
}

/**
 * Returns the body of the POST request that creates a webhook from a draft. keyId is the id of the
 * new key, if one was created.
 */
export function createBody(d: HookDraft, keyId = d.keyId) {
  const { coalesce, outputSchema, ...rest } = changeBody({ ...d, keyId });
  return { source: d.source, ...rest, ...(outputSchema !== null && { outputSchema }), ...(coalesce && { coalesce }), ...(d.secret !== "" && { secret: d.secret }) };
}
