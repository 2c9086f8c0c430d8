// What tools are called, wherever people read of them.
import type { Tools } from "./types";

export type ToolName = keyof Tools;

export const toolWords: Record<ToolName, string> = {
  webSearch: "Web search", knowledge: "Knowledge", codeExecution: "Code execution", httpRequest: "HTTP endpoints", mcp: "MCP servers", voice: "Voice",
};

const called: Record<string, string> = { webSearch: toolWords.webSearch, knowledge: toolWords.knowledge, codeExecution: toolWords.codeExecution };

/** What a tool that was called is named: those of the service by their words, endpoints and tools of servers by their own names. */
export const toolNamed = (name: string): string => called[name] ?? name;
