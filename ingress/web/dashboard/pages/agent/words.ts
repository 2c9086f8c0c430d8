// Translates field names of the API's errors into the labels of an agent's form.
import * as texts from "../../texts/agent";
import { Words } from "../../texts/agent";
import { faultSentence } from "../../ui/field";
import { toolWords } from "../../toolnames";
import { fieldWords, toolNames, type Draft } from "./draft";

const within: Record<string, string> = {
  name: Words.name, method: "Method", url: "URL", description: Words.description, sideEffect: Words.sideEffect, headers: Words.headers, inputSchema: Words.argumentsWord, signingSecret: Words.signingSecret,
};

const serverWords: Record<string, string> = { name: Words.serverName, url: Words.serverUrl, sideEffect: Words.sideEffectOfItsTools };

const optionWords: Record<string, string> = { approval: Words.askPersonFirst, keepFiles: Words.keepFiles, documentIds: Words.documents, metadata: Words.metadata, endpoints: Words.endpoints, servers: Words.servers };

/**
 * Returns the label for a field of an endpoint or server. The label contains the entry's name, or
 * its number if it has no name.
 */
function entryLabel(draft: Draft, list: "endpoints" | "servers", i: number, rest: string): string {
  const entry = list === "endpoints" ? draft["tools.httpRequest.endpoints"][i] : draft["tools.mcp.servers"][i];
  const whole = `${list === "endpoints" ? Words.endpoint : Words.server} ${entry?.name ? `“${entry.name}”` : i + 1}`;
  if (rest === "") return whole;
  const header = /^headers\.(.+)$/.exec(rest)?.[1];
  const [first = ""] = rest.split(/[.[]/, 1);
  return `${whole}: ${header !== undefined ? texts.headerHeader(header) : ((list === "servers" ? serverWords[first] : undefined) ?? within[first] ?? rest)}`;
}

/**
 * Returns the label for a field in the form, or the field's name if the form has no label for it.
 */
export function fieldLabel(field: string, draft: Draft): string {
  const entry = /^tools\.(?:httpRequest\.(endpoints)|mcp\.(servers))\[(\d+)\]\.?(.*)$/.exec(field);
  if (entry) return entryLabel(draft, entry[1] === "endpoints" ? "endpoints" : "servers", Number(entry[3]), entry[4] ?? "");
  const [, list = field, index] = /^(.*)\[(\d+)\]$/.exec(field) ?? [];
  const at = Number(index);
  if (index !== undefined && list === "fallbackModels") return texts.fallbackModelAt(at + 1);
  if (index !== undefined && list === "suggestions") return texts.suggestedQuestionAt(at + 1);
  if (index !== undefined && list === "widget.allowedOrigins") return texts.allowedOriginDraft(draft[list][at] ?? at + 1);
  if (list === "tools.voice.voice") return Words.voice;
  const tool = toolNames.find((t) => list === `tools.${t}` || list.startsWith(`tools.${t}.`));
  if (tool) {
    const [, , option = "", ...rest] = list.split(".");
    const words = optionWords[option];
    return words === undefined ? toolWords[tool] : [`${toolWords[tool]}: ${words}`, ...(rest.length > 0 ? [rest.join(".")] : [])].join(" ");
  }
  return Object.entries(fieldWords).find(([name]) => name === list)?.[1] ?? field;
}

/** Returns an error as a sentence that names its field. */
export function faultText(fault: { field: string; message: string }, draft: Draft): string {
  const label = fieldLabel(fault.field, draft);
  const said = faultSentence(label, fault.message);
  return said === fault.message ? `${label}: ${fault.message}` : said;
}
