// Translates field names of the API's errors into the labels of an agent's form.
import { saidOf } from "../../ui/field";
import { toolWords } from "../../toolnames";
import { fieldWords, toolNames, type Draft } from "./draft";

const within: Record<string, string> = {
  name: "Name", method: "Method", url: "URL", description: "Description", sideEffect: "Side effect", headers: "Headers", inputSchema: "Arguments", signingSecret: "Signing secret",
};

const serverWords: Record<string, string> = { name: "Server name", url: "Server URL", sideEffect: "Side effect of its tools" };

const optionWords: Record<string, string> = { approval: "Ask a person first", keepFiles: "Keep files", documentIds: "Documents", metadata: "Metadata", endpoints: "Endpoints", servers: "Servers" };

/**
 * Returns the label for a field of an endpoint or server. The label contains the entry's name, or
 * its number if it has no name.
 */
function entryPlace(draft: Draft, list: "endpoints" | "servers", i: number, rest: string): string {
  const entry = list === "endpoints" ? draft["tools.httpRequest.endpoints"][i] : draft["tools.mcp.servers"][i];
  const whole = `${list === "endpoints" ? "Endpoint" : "Server"} ${entry?.name ? `“${entry.name}”` : i + 1}`;
  if (rest === "") return whole;
  const header = /^headers\.(.+)$/.exec(rest)?.[1];
  const [first = ""] = rest.split(/[.[]/, 1);
  return `${whole}: ${header !== undefined ? `Header ${header}` : ((list === "servers" ? serverWords[first] : undefined) ?? within[first] ?? rest)}`;
}

/** Returns the form's label for a field, or the field's name if the form has no label for it. */
export function placeOf(field: string, draft: Draft): string {
  const entry = /^tools\.(?:httpRequest\.(endpoints)|mcp\.(servers))\[(\d+)\]\.?(.*)$/.exec(field);
  if (entry) return entryPlace(draft, entry[1] === "endpoints" ? "endpoints" : "servers", Number(entry[3]), entry[4] ?? "");
  const [, list = field, place] = /^(.*)\[(\d+)\]$/.exec(field) ?? [];
  const at = Number(place);
  if (place !== undefined && list === "fallbackModels") return `Fallback model ${at + 1}`;
  if (place !== undefined && list === "suggestions") return `Suggested question ${at + 1}`;
  if (place !== undefined && list === "widget.allowedOrigins") return `Allowed origin ${draft[list][at] ?? at + 1}`;
  if (list === "tools.voice.voice") return "Voice";
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
  const place = placeOf(fault.field, draft);
  const said = saidOf(place, fault.message);
  return said === fault.message ? `${place}: ${fault.message}` : said;
}
