// Changing an agent: what is typed, whether it is saved, and what to do when somebody else saved first.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, get, put } from "../../api";
import { guardLeaving } from "../../router";
import { useMay } from "../../state";
import type { Agent } from "../../types";
import { toast } from "../../ui/toast";
import { changeOf, differing, draftOf, faultsOf, rebase, withKeys, type Draft, type Field } from "./draft";

export interface Editor {
  /** The agent as it was last read. */
  agent: Agent;
  draft: Draft;
  /** The draft that changes nothing. */
  base: Draft;
  changed: Field[];
  mayEdit: boolean;
  saving: boolean;
  error: ApiError | undefined;
  /** The agent as somebody else saved it meanwhile. */
  theirs: Agent | undefined;
  set: <F extends Field>(field: F, value: Draft[F]) => void;
  /** What is wrong with a field of that name, by itself. */
  fault: (field: string) => string | undefined;
  /** Forgets what was said of fields from here on, as when a list's entries have moved. */
  clearFaults: () => void;
  save: () => Promise<void>;
  discard: () => void;
  keepMine: () => void;
  loadTheirs: () => void;
  /** Takes an agent that another request has changed, and keeps what is typed. */
  adopt: (agent: Agent) => void;
}

interface Work {
  agent: Agent;
  draft: Draft;
}

/** What was typed and not saved outlives going back and forth in the browser's history. */
const kept = new Map<string, Work>();

export function useEditor(loaded: Agent): Editor {
  const [work, setWork] = useState<Work>(() => kept.get(loaded.id) ?? { agent: loaded, draft: draftOf(loaded) });
  const [saving, setSaving] = useState(false);
  const [error, setError] = useState<ApiError>();
  const [theirs, setTheirs] = useState<Agent>();
  const now = useRef(work);
  now.current = work;
  const mayEdit = useMay("admin");
  const { agent, draft } = work;
  const base = useMemo(() => draftOf(agent), [agent]);
  const changed = useMemo(() => differing(draft, base), [draft, base]);
  const dirty = changed.length > 0;

  useEffect(() => {
    if (dirty) kept.set(agent.id, work);
    else kept.delete(agent.id);
  }, [work, dirty]);
  useGuard(agent.id, dirty);

  const settle = useCallback((next: Work) => {
    setWork(next);
    setError(undefined);
    setTheirs(undefined);
  }, []);
  const adopt = useCallback((next: Agent) => {
    const { agent: from, draft: mine } = now.current;
    settle({ agent: next, draft: rebase(mine, draftOf(from), withKeys(draftOf(next), mine)) });
  }, [settle]);

  const save = async () => {
    if (!dirty || saving || !mayEdit) return;
    const found = faultsOf(draft);
    if (found.length > 0) {
      setError(new ApiError(400, "invalid_request", "Not saved: some fields are not right yet.", found));
      return;
    }
    setSaving(true);
    try {
      const saved = await put<Agent>("/api/agents", changeOf(agent, draft), { id: agent.id });
      // Typing goes on while a request is under way: what came since then is still to be saved.
      settle({ agent: saved, draft: rebase(now.current.draft, draft, withKeys(draftOf(saved), now.current.draft)) });
      toast("Saved.");
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      if (cause.code === "version_conflict") await findTheirs(agent.id, setTheirs, setError);
      else setError(cause);
    } finally {
      setSaving(false);
    }
  };

  return {
    agent, draft, base, changed, mayEdit, saving, error, theirs, save, adopt,
    set: (field, value) => setWork((before) => ({ ...before, draft: { ...before.draft, [field]: value } })),
    fault: (field) => error?.errors.find((e) => e.field === field)?.message,
    clearFaults: () => setError(undefined),
    discard: () => settle({ agent, draft: base }),
    keepMine: () => theirs && adopt(theirs),
    loadTheirs: () => theirs && settle({ agent: theirs, draft: draftOf(theirs) }),
  };
}

async function findTheirs(id: string, found: (agent: Agent) => void, failed: (error: ApiError) => void): Promise<void> {
  try {
    found(await get<Agent>("/api/agents", { id }));
  } catch (cause) {
    if (!(cause instanceof ApiError)) throw cause;
    failed(cause);
  }
}

/** Asks before what was typed is lost: by leaving the agent for another page, or the dashboard altogether. */
function useGuard(id: string, dirty: boolean): void {
  useEffect(() => {
    if (!dirty) return;
    const stay = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", stay);
    guardLeaving((to) => {
      if (to.startsWith(`/dashboard/agents/${id}`)) return true;
      if (!confirm("There are unsaved changes. Leave without saving them?")) return false;
      kept.delete(id);
      return true;
    });
    return () => {
      removeEventListener("beforeunload", stay);
      guardLeaving(null);
    };
  }, [id, dirty]);
}
