// The names of agents, keys and automations, for usage and budgets.
import { useCallback, useState } from "preact/hooks";
import { get } from "../../api";
import { useQuery } from "../../query";
import type { Agent, Automation, Key, List } from "../../types";

export type Subject = "agent" | "key" | "automation";

export interface Subjects {
  agents: Agent[];
  keys: Key[];
  automations: string[];
  /** Returns the name of a subject, or its id if the subject was deleted or is not loaded. */
  nameFor: (kind: Subject, id: string) => string;
  /** Reports whether a subject is loaded and can be selected. */
  has: (kind: Subject, id: string) => boolean;
  /** Loads the subjects of a kind when the page first shows or offers that kind. */
  want: (kind: Subject) => void;
}

const paths: Record<Subject, string> = { agent: "/api/agents", key: "/api/keys", automation: "/api/automations" };

/**
 * Loads the names of agents immediately and the other names on demand, so that the page loads no
 * more than it shows.
 */
export function useSubjects(): Subjects {
  const [wanted, setWanted] = useState<ReadonlySet<Subject>>(() => new Set<Subject>(["agent"]));
  const agents = useKind<Agent>("agent", wanted);
  const keys = useKind<Key>("key", wanted);
  const automations = useKind<Automation>("automation", wanted).map((a) => a.id);
  const want = useCallback((kind: Subject) => setWanted((before) => (before.has(kind) ? before : new Set([...before, kind]))), []);
  const nameFor = (kind: Subject, id: string): string => {
    if (kind === "agent") return agents.find((a) => a.id === id)?.name ?? id;
    return kind === "key" ? (keys.find((k) => k.id === id)?.name ?? id) : id;
  };
  const has = (kind: Subject, id: string): boolean => kind === "automation" || (kind === "agent" ? agents : keys).some((one) => one.id === id);
  return { agents, keys, automations, nameFor, has, want };
}

function useKind<T>(kind: Subject, wanted: ReadonlySet<Subject>): T[] {
  const read = (signal: AbortSignal) => get<List<T>>(paths[kind], { limit: 100 }, signal);
  return useQuery(wanted.has(kind) ? "subjects " + kind : null, read).data?.data ?? [];
}

/** Returns the options of a selection field for subjects of a kind. */
export function choicesFor(s: Subjects, kind: Subject): { value: string; label: string }[] {
  if (kind === "agent") return s.agents.map((a) => ({ value: a.id, label: a.name }));
  if (kind === "key") return s.keys.map((k) => ({ value: k.id, label: `${k.name} (…${k.lastFour})` }));
  return s.automations.map((id) => ({ value: id, label: id }));
}
