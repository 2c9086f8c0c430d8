// What agents and templates are called, for pages that are told only their ids.
import { get } from "../../api";
import { useQuery } from "../../query";
import type { Agent, List, Template } from "../../types";

const most = 500; // agents whose names are read

interface Agents {
  agents: Agent[];
  loaded: boolean;
  reload: () => void;
}

export interface Names extends Agents {
  /** What the agent or template is called; its id when nobody knows, as of an agent that was deleted. */
  of: (entry: { agentId: string | null; templateId: string | null }) => string;
}

async function allAgents(signal: AbortSignal): Promise<Agent[]> {
  const found: Agent[] = [];
  let cursor: string | null = null;
  do {
    const page: List<Agent> = await get<List<Agent>>("/api/agents", { limit: 100, cursor }, signal);
    found.push(...page.data);
    cursor = page.hasMore ? page.nextCursor : null;
  } while (cursor !== null && found.length < most);
  return found;
}

/** The agents alone, for where no template can be. */
export function useAgents(): Agents {
  const agents = useQuery("names of agents", allAgents);
  return { agents: agents.data ?? [], loaded: agents.data !== undefined || agents.error !== undefined, reload: agents.reload };
}

export function useNames(): Names {
  const agents = useAgents();
  const templates = useQuery("names of templates", (signal) => get<List<Template>>("/api/agents/templates", {}, signal));
  const known = new Map<string, string>();
  for (const agent of agents.agents) known.set(agent.id, agent.name);
  for (const template of templates.data?.data ?? []) known.set(template.id, template.name);
  return {
    ...agents,
    of: (entry) => {
      const id = entry.agentId ?? entry.templateId ?? "";
      return known.get(id) ?? (agents.loaded ? id : "…");
    },
  };
}
