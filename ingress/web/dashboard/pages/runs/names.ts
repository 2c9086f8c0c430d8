// The names of agents and templates, for pages that only have their ids.
import { useState } from "preact/hooks";
import { get, type ApiError } from "../../api";
import { useQuery } from "../../query";
import type { Agent, List, Template } from "../../types";

const maxAgents = 500; // maximum number of agents whose names are loaded

interface Agents {
  agents: Agent[];
  loaded: boolean;
  /**
   * The error with which loading the agents failed. If it is set, the list of names is incomplete.
   */
  error: ApiError | undefined;
  reload: () => void;
}

export interface Names extends Agents {
  /** Returns the name of the agent or template, or its id if the agent was deleted. */
  of: (entry: { agentId: string | null; templateId: string | null }) => string;
}

async function allAgents(signal: AbortSignal): Promise<Agent[]> {
  const found: Agent[] = [];
  let cursor: string | null = null;
  do {
    const page: List<Agent> = await get<List<Agent>>("/api/agents", { limit: 100, cursor }, signal);
    found.push(...page.data);
    cursor = page.hasMore ? page.nextCursor : null;
  } while (cursor !== null && found.length < maxAgents);
  return found;
}

/** Loads only the names of agents, for pages without templates. */
export function useAgents(): Agents {
  const agents = useQuery("names of agents", allAgents);
  return { agents: agents.data ?? [], loaded: agents.data !== undefined || agents.error !== undefined, error: agents.data ? undefined : agents.error, reload: agents.reload };
}

/** Loads the names of agents, and those of templates once one of them is shown. */
export function useNames(): Names {
  const agents = useAgents();
  const [shown, setShown] = useState(false);
  const templates = useQuery(shown ? "names of templates" : null, (signal) => get<List<Template>>("/api/agents/templates", {}, signal));
  const known = new Map<string, string>();
  for (const agent of agents.agents) known.set(agent.id, agent.name);
  for (const template of templates.data?.data ?? []) known.set(template.id, template.name);
  return {
    ...agents,
    of: (entry) => {
      const id = entry.agentId ?? entry.templateId ?? "";
      const template = id.startsWith("tpl_");
      if (template) setShown(true);
      const loaded = template ? templates.data || templates.error : agents.loaded;
      return known.get(id) ?? (loaded ? id : "…");
    },
  };
}
