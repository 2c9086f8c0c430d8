// The filters for the list of runs. They are in the page's URL, so that a link shows the same list.
import { useEffect, useState } from "preact/hooks";
import type { Params } from "../../api";
import { setQuery } from "../../router";
import type { Agent, RunStatus } from "../../types";
import { Button } from "../../ui/button";
import { Select, TextField } from "../../ui/field";

export interface Filter {
  status: RunStatus | "";
  agent: string;
  automation: string;
  session: string;
}

const statuses: { value: RunStatus | ""; label: string }[] = [
  { value: "", label: "Any status" },
  { value: "requires_action", label: "Needs you" },
  { value: "queued", label: "Queued" },
  { value: "running", label: "Running" },
  { value: "completed", label: "Completed" },
  { value: "failed", label: "Failed" },
  { value: "timed_out", label: "Timed out" },
  { value: "cancelled", label: "Cancelled" },
];

/** Returns the filter in the page's URL. */
export function filterOf(query: URLSearchParams): Filter {
  const text = (name: string) => query.get(name) ?? "";
  const status = statuses.find((s) => s.value === text("status"))?.value ?? "";
  return { status, agent: text("agent"), automation: text("automation"), session: text("session") };
}

/** Returns the filter as query parameters for the API. */
export const paramsOf = (f: Filter): Params => ({ status: f.status, agentId: f.agent, automationId: f.automation, sessionId: f.session });

export const filtered = (f: Filter): boolean => Object.values(f).some((value) => value !== "");

export const clearFilter = (): void => setQuery({ status: null, agent: null, automation: null, session: null });

export function Filters({ filter, agents }: { filter: Filter; agents: Agent[] }) {
  const choices = [{ value: "", label: "Any agent" }, ...agents.map((a) => ({ value: a.id, label: a.name }))];
  if (filter.agent !== "" && !agents.some((a) => a.id === filter.agent)) choices.push({ value: filter.agent, label: filter.agent });
  return (
    <search class="run-filters" aria-label="Filter runs">
      <Select label="Status" value={filter.status} options={statuses} onChange={(status) => setQuery({ status })} />
      <Select label="Agent" value={filter.agent} options={choices} onChange={(agent) => setQuery({ agent })} />
      <Typed label="Automation" name="automation" value={filter.automation} />
      <Typed label="Session" name="session" value={filter.session} />
      {filtered(filter) && <Button look="bare" icon="close" onClick={clearFilter}>Clear filters</Button>}
    </search>
  );
}

/** A text filter, applied after a pause in typing. */
function Typed({ label, name, value }: { label: string; name: string; value: string }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text.trim() === value) return;
    const timer = setTimeout(() => setQuery({ [name]: text.trim() }), 400);
    return () => clearTimeout(timer);
  }, [text]);
  return <TextField label={label} type="search" value={text} onChange={setText} placeholder="Any" />;
}
