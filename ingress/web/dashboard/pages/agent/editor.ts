// The editor of an agent: its unsaved changes, saving, and conflicts with other people's changes.
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, get, put, withoutField } from "../../api";
import { useGuard } from "../../router";
import { useMay } from "../../state";
import { Words } from "../../texts/agent";
import type { Agent, AgentCheck } from "../../types";
import { changeBody, changedFields, newDraft, findFaults, rebase, withKeys, type Draft, type Field } from "./draft";

export interface Editor {
  /** The agent as it was last read. */
  agent: Agent;
  draft: Draft;
  /** The saved settings as a draft. */
  base: Draft;
  changed: Field[];
  mayEdit: boolean;
  saving: boolean;
  /** Whether the agent was saved in the last 4 seconds. */
  saved: boolean;
  error: ApiError | undefined;
  /** How often the service has refused to save the draft. */
  refused: number;
  /** The agent with the changes that another person has saved since it was read. */
  theirs: Agent | undefined;
  /** Set while the page asks the person whether to discard unsaved changes. */
  leaving: LeaveQuestion | null;
  set: <F extends Field>(field: F, value: Draft[F]) => void;
  /** Returns the error of the given field, ignoring errors of nested fields. */
  fault: (field: string) => string | undefined;
  /** Removes all field errors, for example because the entries of a list have moved. */
  clearFaults: () => void;
  save: () => Promise<void>;
  discard: () => void;
  keepMine: () => void;
  loadTheirs: () => void;
  /** Applies a change that another request made to the agent, and keeps the unsaved changes. */
  adopt: (agent: Agent) => void;
  /** Applies the result of a check, which changes nothing else. */
  checked: (check: AgentCheck) => void;
}

export interface LeaveQuestion {
  stay: () => void;
  leave: () => void;
}

interface Work {
  agent: Agent;
  draft: Draft;
}

/** The unsaved changes by agent. They survive navigation in the browser's history. */
const kept = new Map<string, Work>();

export function useEditor(loaded: Agent): Editor {
  const [work, setWork] = useState<Work>(() => kept.get(loaded.id) ?? { agent: loaded, draft: newDraft(loaded) });
  const [saving, setSaving] = useState(false);
  const [saved, setSaved] = useState(0);
  const [error, setError] = useState<ApiError>();
  const [refused, setRefused] = useState(0);
  const [theirs, setTheirs] = useState<Agent>();
  const now = useRef(work);
  now.current = work;
  const mayEdit = useMay("admin");
  const { agent, draft } = work;
  const base = useMemo(() => newDraft(agent), [agent]);
  const changed = useMemo(() => changedFields(draft, base), [draft, base]);
  const dirty = changed.length > 0;

  useLayoutEffect(() => { // an effect would run too late, and miss input typed just before navigating back
    if (dirty) kept.set(agent.id, work);
    else kept.delete(agent.id);
  }, [work, dirty]);
  const leaving = useLeaveQuestion(agent.id, dirty);
  useEffect(() => {
    if (saved === 0) return;
    const timer = setTimeout(() => setSaved(0), 4000);
    return () => clearTimeout(timer);
  }, [saved]);

  const replaceWork = useCallback((next: Work) => {
    setWork(next);
    setError(undefined);
    setTheirs(undefined);
  }, []);
  const adopt = useCallback((next: Agent) => {
    const { agent: from, draft: mine } = now.current;
    replaceWork({ agent: next, draft: rebase(mine, newDraft(from), withKeys(newDraft(next), mine)) });
  }, [replaceWork]);

  const refuse = (cause: ApiError) => {
    setError(cause);
    setRefused((n) => n + 1);
  };
  const save = async () => {
    const { agent, draft } = now.current; // a key may be pressed before the last input is rendered
    if (saving || !mayEdit || changedFields(draft, newDraft(agent)).length === 0) return;

    const found = findFaults(draft);
    if (found.length > 0) {
      refuse(new ApiError(400, "invalid_request", Words.notSavedCorrectMarked, found));
      return;
    }

    setSaving(true);
    setError(undefined);
    try {
      const next = await put<Agent>("/api/agents", changeBody(agent, draft), { id: agent.id });
      // Input that the person types during the request stays unsaved.
      replaceWork({ agent: next, draft: rebase(now.current.draft, draft, withKeys(newDraft(next), now.current.draft)) });
      setSaved(Date.now());
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      if (cause.code === "version_conflict") await findTheirs(agent.id, setTheirs, refuse);
      else refuse(cause);
    } finally {
      setSaving(false);
    }
  };

  return {
    agent, draft, base, changed, mayEdit, saving, saved: saved > 0 && !dirty, error, refused, theirs, leaving, save, adopt,
    set: (field, value) => {
      setWork((before) => ({ ...before, draft: { ...before.draft, [field]: value } }));
      setError((before) => withoutField(before, field));
    },
    fault: (field) => error?.errors.find((e) => e.field === field)?.message,
    clearFaults: () => setError(undefined),
    checked: (check) => setWork((before) => ({ ...before, agent: { ...before.agent, lastCheck: check } })),
    discard: () => replaceWork({ agent, draft: base }),
    keepMine: () => theirs && adopt(theirs),
    loadTheirs: () => theirs && replaceWork({ agent: theirs, draft: newDraft(theirs) }),
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

/** Asks before unsaved changes are lost by leaving the agent or the dashboard. */
function useLeaveQuestion(id: string, dirty: boolean): LeaveQuestion | null {
  const [leaving, setLeaving] = useState<LeaveQuestion | null>(null);
  useGuard(dirty, (to, leave) => {
    if (to.startsWith(`/dashboard/agents/${id}`)) return true;
    const stay = () => setLeaving(null);
    setLeaving({
      stay,
      leave: () => {
        stay();
        kept.delete(id);
        leave();
      },
    });
    return false;
  });
  return leaving;
}
