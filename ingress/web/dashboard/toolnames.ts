// The names of tools, as people read them.
import type { Tools } from "./types";

export type ToolName = keyof Tools;

export const toolWords: Record<ToolName, string> = {
  webSearch: "Web search", knowledge: "Knowledge", codeExecution: "Code execution", httpRequest: "HTTP endpoints", mcp: "MCP servers", voice: "Voice",
};

const called: Record<string, string> = { webSearch: toolWords.webSearch, knowledge: toolWords.knowledge, codeExecution: toolWords.codeExecution };

/**
 * Returns the displayed name of a called tool. Endpoints and tools of MCP servers keep their own
 * names.
 */
export const toolNamed = (name: string): string => called[name] ?? name;
