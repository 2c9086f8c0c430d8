// What agents, keys and automations are called, for usage and budgets by them.
import { get } from "../../api";
import { useQuery } from "../../query";
import type { Agent, Automation, Key, List } from "../../types";

export type Subject = "agent" | "key" | "automation";

export interface Subjects {
  agents: Agent[];
  keys: Key[];
  automations: string[];
  /** What people call it; its id when nobody knows, as of what was deleted. */
  nameOf: (kind: Subject, id: string) => string;
}

export function useSubjects(): Subjects {
  const found = useQuery("subjects", async (signal) => {
    const list = <T>(path: string) => get<List<T>>(path, { limit: 100 }, signal).then((l) => l.data);
    const [agents, keys, automations] = await Promise.all([list<Agent>("/api/agents"), list<Key>("/api/keys"), list<Automation>("/api/automations")]);
    return { agents, keys, automations: automations.map((a) => a.id) };
  });
  const { agents, keys, automations } = found.data ?? { agents: [], keys: [], automations: [] };
  const nameOf = (kind: Subject, id: string): string => {
    if (kind === "agent") return agents.find((a) => a.id === id)?.name ?? id;
    return kind === "key" ? (keys.find((k) => k.id === id)?.name ?? id) : id;
  };
  return { agents, keys, automations, nameOf };
}

/** What a picker offers of a kind. */
export function choicesOf(s: Subjects, kind: Subject): { value: string; label: string }[] {
  if (kind === "agent") return s.agents.map((a) => ({ value: a.id, label: a.name }));
  if (kind === "key") return s.keys.map((k) => ({ value: k.id, label: `${k.name} (…${k.lastFour})` }));
  return s.automations.map((id) => ({ value: id, label: id }));
}
