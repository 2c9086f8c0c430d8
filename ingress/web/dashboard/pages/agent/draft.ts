// The unsaved settings of an agent. The fields of a draft have the names that the API's errors use.
// The same name therefore identifies a change, a field of the request body, and the label of an
// error in the form.
import { Words } from "../../texts/agent";
import { Words as SchemaWords } from "../../texts/schema";
import { toolWords, type ToolName } from "../../toolnames";
import type { Agent, Approval, Endpoint, FieldError, McpServer, SideEffect } from "../../types";
import { jsonFault, schemaText } from "../../ui/json";

export type Caller = "user" | "system";

/** A name and its value. If saved is true, the value is a secret that the service has stored. */
export interface Pair {
  key: number;
  name: string;
  value: string;
  saved?: boolean;
}

export interface EndpointDraft {
  key: number;
  name: string;
  description: string;
  method: string;
  url: string;
  headers: Pair[];
  inputSchema: string;
  sideEffect: SideEffect;
  signingSecret: string;
}

export interface ServerDraft {
  key: number;
  name: string;
  url: string;
  headers: Pair[];
  sideEffect: SideEffect;
}

export interface Draft {
  name: string;
  description: string;
  systemPrompt: string;
  model: string;
  fallbackModels: string[];
  allowedCallers: Caller[];
  "tools.webSearch.enabled": boolean;
  "tools.webSearch.approval": Approval;
  "tools.codeExecution.enabled": boolean;
  "tools.codeExecution.approval": Approval;
  "tools.codeExecution.keepFiles": boolean;
  "tools.knowledge.enabled": boolean;
  "tools.knowledge.approval": Approval;
  "tools.knowledge.documentIds": string[] | null;
  "tools.knowledge.metadata": Pair[];
  "tools.httpRequest.enabled": boolean;
  "tools.httpRequest.approval": Approval;
  "tools.httpRequest.endpoints": EndpointDraft[];
  "tools.mcp.enabled": boolean;
  "tools.mcp.approval": Approval;
  "tools.mcp.servers": ServerDraft[];
  "tools.voice.enabled": boolean;
  "tools.voice.voice": string;
  "widget.enabled": boolean;
  "widget.allowedOrigins": string[];
  "widget.attachments": boolean;
  "widget.identitySecret": string;
  outputSchema: string;
  appendSources: boolean;
  suggestions: string; // one per line
  // The model settings as typed. An empty text means the model's default.
  temperature: string;
  topP: string;
  maxOutputTokens: string;
  reasoningEffort: string;
  seed: string;
  stop: string;
  parallelToolCalls: "" | "true" | "false";
  overridable: string[];
}

/** The names of the model settings, in the order of the form. */
export const settingNames = ["temperature", "topP", "maxOutputTokens", "reasoningEffort", "seed", "stop", "parallelToolCalls"] as const;
export type SettingName = (typeof settingNames)[number];

/** The labels of the model settings in the form. */
export const settingWords: Record<SettingName, string> = {
  temperature: Words.temperature, topP: Words.topP, maxOutputTokens: Words.maximumOutputTokens, reasoningEffort: Words.reasoningEffort, seed: Words.seed,
  stop: Words.stopTexts, parallelToolCalls: Words.parallelToolCalls,
};

export type Field = keyof Draft;

/** The placeholder for a stored secret. */
export const hidden = "***";

let last = 0;
export const nextKey = (): number => ++last;

const pairs = (of: Record<string, string> | null | undefined, secret: boolean): Pair[] =>
  Object.entries(of ?? {}).map(([name, value]) => (secret ? { key: nextKey(), name, value, saved: true } : { key: nextKey(), name, value }));

const endpointDraft = (e: Endpoint): EndpointDraft => ({
  key: nextKey(), name: e.name, description: e.description, method: e.method, url: e.url, headers: pairs(e.headers, true),
  inputSchema: e.inputSchema === undefined ? "" : JSON.stringify(e.inputSchema, null, 2), sideEffect: e.sideEffect, signingSecret: e.signingSecret ?? "",
});

const serverDraft = (s: McpServer): ServerDraft => ({ key: nextKey(), name: s.name, url: s.url, headers: pairs(s.headers, true), sideEffect: s.sideEffect ?? "unsafe" });

export const newEndpoint = (): EndpointDraft =>
  ({ key: nextKey(), name: "", description: "", method: "GET", url: "", headers: [], inputSchema: "", sideEffect: "none", signingSecret: "" });

export const newServer = (): ServerDraft => ({ key: nextKey(), name: "", url: "", headers: [], sideEffect: "unsafe" });

const formatNumber = (value: number | null): string => (value === null ? "" : String(value));

/** Stop texts are typed one per line, so a line break within one is written as \\n. */
const escapeBreaks = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
const unescapeBreaks = (line: string): string => line.replace(/\\(n|\\)/g, (_, c: string) => (c === "n" ? "\n" : "\\"));

export function newDraft(agent: Agent): Draft {
  const { webSearch, codeExecution, knowledge, httpRequest, mcp, voice } = agent.tools;
  return {
    name: agent.name, description: agent.description, systemPrompt: agent.systemPrompt, model: agent.model,
    fallbackModels: agent.fallbackModels, allowedCallers: agent.allowedCallers,
    "tools.webSearch.enabled": webSearch?.enabled ?? false, "tools.webSearch.approval": webSearch?.approval ?? "never",
    "tools.codeExecution.enabled": codeExecution?.enabled ?? false, "tools.codeExecution.approval": codeExecution?.approval ?? "never",
    "tools.codeExecution.keepFiles": codeExecution?.keepFiles ?? false,
    "tools.knowledge.enabled": knowledge?.enabled ?? false, "tools.knowledge.approval": knowledge?.approval ?? "never",
    "tools.knowledge.documentIds": knowledge?.documentIds ?? null, "tools.knowledge.metadata": pairs(knowledge?.metadata, false),
    "tools.httpRequest.enabled": httpRequest?.enabled ?? false, "tools.httpRequest.approval": httpRequest?.approval ?? "never",
    "tools.httpRequest.endpoints": (httpRequest?.endpoints ?? []).map(endpointDraft),
    "tools.mcp.enabled": mcp?.enabled ?? false, "tools.mcp.approval": mcp?.approval ?? "never", "tools.mcp.servers": (mcp?.servers ?? []).map(serverDraft),
    "tools.voice.enabled": voice?.enabled ?? false, "tools.voice.voice": voice?.voice ?? "",
    "widget.enabled": agent.widget.enabled, "widget.allowedOrigins": agent.widget.allowedOrigins,
    "widget.attachments": agent.widget.attachments, "widget.identitySecret": agent.widget.identitySecret ?? "",
    outputSchema: schemaText(agent.outputSchema),
    appendSources: agent.appendSources, suggestions: agent.suggestions.join("\n"),
    temperature: formatNumber(agent.temperature), topP: formatNumber(agent.topP), maxOutputTokens: formatNumber(agent.maxOutputTokens),
    reasoningEffort: agent.reasoningEffort ?? "", seed: formatNumber(agent.seed), stop: (agent.stop ?? []).map(escapeBreaks).join("\n"),
    parallelToolCalls: agent.parallelToolCalls === null ? "" : agent.parallelToolCalls ? "true" : "false", overridable: agent.overridable,
  };
}

const sameText = (value: unknown): string => JSON.stringify(value, (name, v: unknown) => (name === "key" || name === "saved" ? undefined : v));
const fields = (draft: Draft): Field[] => Object.keys(draft) as Field[];

/** Returns the fields in which two drafts differ. */
export const changedFields = (a: Draft, b: Draft): Field[] => fields(a).filter((f) => sameText(a[f]) !== sameText(b[f]));

/**
 * Returns the draft "theirs" with the changes that lead from the draft "from" to the draft "mine".
 */
export function rebase(mine: Draft, from: Draft, theirs: Draft): Draft {
  return Object.assign({}, theirs, Object.fromEntries(changedFields(mine, from).map((f) => [f, mine[f]])));
}

/**
 * Returns a draft with the keys of another draft, the argument "like": each entry of a list gets
 * the key of the entry with the same name. Entries whose keys do not change stay open and focused
 * after saving.
 */
export function withKeys(draft: Draft, like: Draft): Draft {
  const pairs = (rows: Pair[], others: Pair[] = []): Pair[] => rows.map((r) => ({ ...r, key: others.find((o) => o.name === r.name)?.key ?? r.key }));
  const entries = <T extends { key: number; name: string; headers: Pair[] }>(list: T[], others: T[]): T[] =>
    list.map((entry) => {
      const other = others.find((o) => o.name === entry.name);
      return { ...entry, key: other?.key ?? entry.key, headers: pairs(entry.headers, other?.headers) };
    });
  return {
    ...draft,
    "tools.knowledge.metadata": pairs(draft["tools.knowledge.metadata"], like["tools.knowledge.metadata"]),
    "tools.httpRequest.endpoints": entries(draft["tools.httpRequest.endpoints"], like["tools.httpRequest.endpoints"]),
    "tools.mcp.servers": entries(draft["tools.mcp.servers"], like["tools.mcp.servers"]),
  };
}

const object = (rows: Pair[]): Record<string, string> => Object.fromEntries(rows.filter((r) => r.name !== "" || r.value !== "").map((r) => [r.name, r.value]));

function endpointBody(e: EndpointDraft): Record<string, unknown> {
  const { key: _, headers, inputSchema, signingSecret, ...rest } = e;
  const all = object(headers);
  return {
    ...rest, ...(Object.keys(all).length > 0 && { headers: all }), ...(inputSchema.trim() !== "" && { inputSchema: JSON.parse(inputSchema) as unknown }),
    ...(signingSecret !== "" && { signingSecret }),
  };
}

function serverBody(s: ServerDraft): Record<string, unknown> {
  const { key: _, headers, ...rest } = s;
  const all = object(headers);
  return { ...rest, ...(Object.keys(all).length > 0 && { headers: all }) };
}

/** Returns the lines of a text that are not blank. */
const splitLines = (text: string): string[] => text.split("\n").map((line) => line.trim()).filter((line) => line !== "");

function fieldValue(draft: Draft, field: Field): unknown {
  switch (field) {
    case "tools.httpRequest.endpoints": return draft[field].map(endpointBody);
    case "tools.mcp.servers": return draft[field].map(serverBody);
    case "tools.knowledge.metadata": return draft[field].length === 0 ? null : object(draft[field]);
    case "outputSchema": return draft[field].trim() === "" ? null : (JSON.parse(draft[field]) as unknown);
    case "widget.identitySecret": return draft[field] === "" ? null : draft[field];
    case "temperature": case "topP": case "maxOutputTokens": case "seed": return draft[field].trim() === "" ? null : Number(draft[field]);
    case "reasoningEffort": return draft[field] === "" ? null : draft[field];
    case "parallelToolCalls": return draft[field] === "" ? null : draft[field] === "true";
    case "stop": {
      const lines = draft[field].split("\n").filter((line) => line !== "").map(unescapeBreaks);
      return lines.length === 0 ? null : lines;
    }
    case "suggestions": return splitLines(draft[field]);
    default: return draft[field];
  }
}

/**
 * Returns the body of the PUT that saves a draft: the changed fields, and the version on which they
 * are based. The draft must have no errors.
 */
export function changeBody(agent: Agent, draft: Draft): Record<string, unknown> {
  const changed = changedFields(draft, newDraft(agent));
  const body: Record<string, unknown> = { version: agent.version };
  for (const field of changed) put(body, field.split("."), fieldValue(draft, field));
  for (const tool of toolNames) {
    const enabled = `tools.${tool}.enabled` as const;
    const touched = changed.some((f) => f.startsWith(`tools.${tool}.`));
    if (touched && agent.tools[tool] === undefined) put(body, enabled.split("."), draft[enabled]);
  }
  return body;
}

function put(body: Record<string, unknown>, path: string[], value: unknown): void {
  const [name = "", ...rest] = path;
  if (rest.length === 0) {
    body[name] = value;
    return;
  }
  const within = (body[name] ?? {}) as Record<string, unknown>;
  put(within, rest, value);
  body[name] = within;
}

/** Returns the errors that prevent a draft from being sent. */
export function findFaults(draft: Draft): FieldError[] {
  const found: FieldError[] = [];
  const add = (field: string, message: string) => found.push({ field, code: "invalid_value", message });
  draft["tools.httpRequest.endpoints"].forEach((e, i) => {
    const at = `tools.httpRequest.endpoints[${i}]`;
    pairFaults(`${at}.headers`, e.headers, add);
    const fault = e.inputSchema.trim() === "" ? "" : jsonFault(e.inputSchema);
    if (fault !== "") add(`${at}.inputSchema`, fault);
  });
  draft["tools.mcp.servers"].forEach((s, i) => pairFaults(`tools.mcp.servers[${i}].headers`, s.headers, add));
  const schema = draft.outputSchema.trim() === "" ? "" : jsonFault(draft.outputSchema);
  if (schema !== "") add("outputSchema", schema);
  pairFaults("tools.knowledge.metadata", draft["tools.knowledge.metadata"], add);
  for (const name of ["temperature", "topP", "maxOutputTokens", "seed"] as const) {
    if (draft[name].trim() !== "" && !Number.isFinite(Number(draft[name]))) add(name, Words.mustBeNumber);
  }
  return found;
}

function pairFaults(at: string, rows: Pair[], add: (field: string, message: string) => void): void {
  rows.forEach((row, i) => {
    if (row.name === "" && row.value !== "") add(at, Words.hasValueWithoutName);
    else if (row.name !== "" && rows.findIndex((r) => r.name === row.name) < i) add(`${at}.${row.name}`, Words.isUsedTwice);
  });
}

export const toolNames: readonly ToolName[] = ["webSearch", "knowledge", "codeExecution", "httpRequest", "mcp", "voice"];

/** The labels in the form for the fields that belong to no tool. */
export const fieldWords: Partial<Record<Field, string>> = {
  name: Words.name, description: Words.description, systemPrompt: Words.systemPrompt, model: Words.model, fallbackModels: Words.fallbackModels, allowedCallers: Words.whoMayCallIt,
  "widget.enabled": Words.widget, "widget.allowedOrigins": Words.allowedOrigins, "widget.attachments": Words.attachments, "widget.identitySecret": Words.identitySecret,
  outputSchema: SchemaWords.jsonSchema, appendSources: Words.listOfSources, suggestions: Words.suggestedQuestions, ...settingWords, overridable: Words.settingsThatRequests,
};

/** Returns the labels of the given fields, each label once. */
export function fieldLabels(changed: Field[]): string[] {
  return [...new Set(changed.map((f) => fieldWords[f] ?? toolWords[toolNames.find((t) => f.startsWith(`tools.${t}.`)) ?? "webSearch"]))];
}
