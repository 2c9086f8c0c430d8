import { Words } from "../../texts/templates";
import type { Tools } from "../../types";

const words: Record<keyof Tools, string> = {
  webSearch: Words.searchesTheWeb, codeExecution: Words.runsPython, knowledge: Words.readsYourDocuments, httpRequest: Words.callsHttpEndpoints, mcp: Words.usesMcpServers, voice: Words.speaks,
};

/** Describes the tools of an agent, each in a few words. */
export function toolsInWords(tools: Tools): string[] {
  const names: (keyof Tools)[] = ["webSearch", "codeExecution", "knowledge", "httpRequest", "mcp", "voice"];
  const used = names.filter((name) => tools[name]?.enabled).map((name) => words[name]);
  return used.length > 0 ? used : [Words.needsNoTools];
}
