// The names of tools, as people read them.
import { Words } from "./texts/frame";
import type { Tools } from "./types";

export type ToolName = keyof Tools;

export const toolWords: Record<ToolName, string> = {
  webSearch: Words.webSearch, knowledge: Words.knowledge, codeExecution: Words.codeExecution, httpRequest: Words.httpEndpoints, mcp: Words.mcpServers, voice: Words.voice,
};

const called: Record<string, string> = { webSearch: toolWords.webSearch, knowledge: toolWords.knowledge, codeExecution: toolWords.codeExecution };

/**
 * Returns the displayed name of a called tool. Endpoints and tools of MCP servers keep their own
 * names.
 */
export const toolLabel = (name: string): string => called[name] ?? name;
