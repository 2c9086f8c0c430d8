import type { Tools } from "../../types";

const words: Record<keyof Tools, string> = {
  webSearch: "searches the web", codeExecution: "runs Python", knowledge: "reads your documents", httpRequest: "calls HTTP endpoints", mcp: "uses MCP servers", voice: "speaks",
};

/** Describes the tools of an agent, each in a few words. */
export function toolsInWords(tools: Tools): string[] {
  const names: (keyof Tools)[] = ["webSearch", "codeExecution", "knowledge", "httpRequest", "mcp", "voice"];
  const used = names.filter((name) => tools[name]?.enabled).map((name) => words[name]);
  return used.length > 0 ? used : ["needs no tools"];
}
