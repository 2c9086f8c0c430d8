// The filters for the list of runs. They are in the page's URL, so that a link shows the same list.
import { useEffect, useState } from "preact/hooks";
import type { ApiError, Params } from "../../api";
import { download } from "../../files";
import { useNarrow } from "../../narrow";
import { setQuery } from "../../router";
import * as texts from "../../texts/runs";
import { Words } from "../../texts/runs";
import { triggers, wordFor } from "../../texts/values";
import type { RunStatus, RunSummary } from "../../types";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { Select, TextField } from "../../ui/field";
import { toast } from "../../ui/toast";
import type { Names } from "./names";

export interface Filter {
  status: RunStatus | "";
  /** Only runs that wait for a person, or for results of their client's tools. */
  waitsFor: "person" | "client" | "";
  agent: string;
  automation: string;
  session: string;
  trigger: string;
  /** Words that the question or the answer must contain. */
  words: string;
  /** The earliest and the latest time, in the format of the API. */
  from: string;
  to: string;
}

const statuses: { value: Filter["status"] | Filter["waitsFor"]; label: string }[] = [
  { value: "", label: Words.anyStatus },
  { value: "person", label: Words.needsYou },
  { value: "client", label: Words.waitsForItsClient },
  { value: "queued", label: Words.queued },
  { value: "running", label: Words.running },
  { value: "completed", label: Words.completed },
  { value: "failed", label: Words.failed },
  { value: "timed_out", label: Words.timedOut },
  { value: "cancelled", label: Words.cancelled },
];

/** Returns the filter in the page's URL. */
export function readFilter(query: URLSearchParams): Filter {
  const text = (name: string) => query.get(name) ?? "";
  const one = <T extends string>(name: string, values: readonly T[]): T | "" => values.find((value) => value === text(name)) ?? "";
  const waitsFor = text("status") === "requires_action" ? "person" : one("waitsFor", ["person", "client"] as const);
  const status = one("status", ["queued", "running", "completed", "failed", "timed_out", "cancelled"] as const);
  return {
    status: waitsFor === "" ? status : "", waitsFor, agent: text("agent"), automation: text("automation"), session: text("session"), trigger: text("trigger"),
    words: text("q"), from: text("from"), to: text("to"),
  };
}

/**
 * Reports whether the filter selects unfinished runs. Such a filter cannot be combined with a
 * search, which finds only finished runs.
 */
export const forOpen = (f: Filter): boolean => f.waitsFor !== "" || f.status === "queued" || f.status === "running";

/**
 * Returns the filter as query parameters for the API. It omits waitsFor if there are words, because
 * the API rejects the combination.
 */
export const filterParams = (f: Filter): Params => ({
  status: f.waitsFor !== "" ? "requires_action" : f.status, waitsFor: f.words === "" ? f.waitsFor : "", agentId: f.agent, automationId: f.automation, sessionId: f.session, triggerType: f.trigger, q: f.words, from: f.from, to: f.to,
});

export const isFiltered = (f: Filter): boolean => Object.values(f).some((value) => value !== "");

export const clearFilter = (): void => setQuery({ status: null, waitsFor: null, agent: null, automation: null, session: null, trigger: null, q: null, from: null, to: null });

/**
 * Returns the triggers that the filter offers: the usual ones, those of the shown rows, and the
 * chosen one.
 */
function triggerChoices(rows: RunSummary[], chosen: string): { value: string; label: string }[] {
  const known = new Set([...Object.keys(triggers), ...rows.map((run) => run.trigger.type), ...(chosen === "" ? [] : [chosen])]);
  return [{ value: "", label: Words.anyTrigger }, ...[...known].map((value) => ({ value, label: wordFor(triggers, value) }))];
}

interface FiltersProps {
  filter: Filter;
  names: Names;
  rows: RunSummary[];
}

/**
 * Shows the filters. On a narrow screen it shows a search field and a button that opens the other
 * filters.
 */
export function Filters(props: FiltersProps) {
  const narrow = useNarrow();
  const [open, setOpen] = useState(false);
  if (!narrow) {
    return (
      <search class="run-filters" aria-label={Words.filterRuns}>
        <SearchWords filter={props.filter} />
        <Main {...props} />
        <MoreFilters {...props} />
      </search>
    );
  }

  const chosen = Object.entries(props.filter).filter(([name, value]) => name !== "words" && value !== "").length;
  return (
    <search class="run-search" aria-label={Words.filterRuns}>
      <SearchWords filter={props.filter} />
      <Button onClick={() => setOpen(true)}>{chosen === 0 ? Words.filters : texts.filtersChosen(chosen)}</Button>
      {open && (
        <Dialog title={Words.filters} onClose={() => setOpen(false)} kept foot={
          <>
            <Button onClick={clearFilter} disabled={!isFiltered(props.filter)}>{Words.clearFilters}</Button>
            <Button look="primary" onClick={() => setOpen(false)}>{Words.showRuns}</Button>
          </>
        }>
          <div class="stack">
            <div class="run-filters"><Main {...props} /><Others {...props} /></div>
            <div class="row">{texts.exportExports(<Export filter={props.filter} />)}</div>
          </div>
        </Dialog>
      )}
    </search>
  );
}

function SearchWords({ filter }: { filter: Filter }) {
  return <Typed label={Words.search} name="q" value={filter.words} placeholder={Words.questionOrAnswer} maxLength={200} />;
}

function Main({ filter, names }: FiltersProps) {
  const { agents, error } = names;
  const choices = [{ value: "", label: Words.anyAgent }, ...agents.map((a) => ({ value: a.id, label: a.name }))];
  if (filter.agent !== "" && !agents.some((a) => a.id === filter.agent)) choices.push({ value: filter.agent, label: filter.agent });
  const choose = (value: Filter["status"] | Filter["waitsFor"]) =>
    (value === "person" || value === "client" ? setQuery({ status: null, waitsFor: value }) : setQuery({ status: value, waitsFor: null }));
  return (
    <>
      <Select label={Words.status} value={filter.waitsFor || filter.status} options={statuses} onChange={choose} />
      <Select label={Words.agent} value={filter.agent} options={choices} onChange={(agent) => setQuery({ agent })} hint={error && Words.couldntLoadAgents} />
    </>
  );
}

/**
 * The less frequent filters. The group opens when one of its filters is set, and stays open when
 * the filter is cleared.
 */
function MoreFilters(props: FiltersProps) {
  const { from, to, trigger, automation, session } = props.filter;
  const set = [from, to, trigger, automation, session].some((value) => value !== "");
  const [open, setOpen] = useState(set);
  useEffect(() => {
    if (set) setOpen(true);
  }, [set]);
  return (
    <details class="fold" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{Words.moreFilters}</summary>
      <div class="run-filters"><Others {...props} /></div>
    </details>
  );
}

function Others({ filter, rows }: FiltersProps) {
  return (
    <>
      <When label={Words.from} name="from" value={filter.from} />
      <When label={Words.to} name="to" value={filter.to} />
      <Select label={Words.trigger} value={filter.trigger} options={triggerChoices(rows, filter.trigger)} onChange={(trigger) => setQuery({ trigger })} />
      <Typed label={Words.automation} name="automation" value={filter.automation} />
      <Typed label={Words.session} name="session" value={filter.session} />
    </>
  );
}

/** Exports the runs that match the filter. */
export function Export({ filter }: { filter: Filter }) {
  const [busy, setBusy] = useState(false);
  const save = async (format: "csv" | "jsonl") => {
    setBusy(true);
    try {
      await download("/api/runs", { ...filterParams(filter), export: format }, `runs.${format}`);
    } catch (cause) {
      toast((cause as ApiError).message, "bad");
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Button look="bare" icon="file" disabled={busy} label={Words.exportAsCsv} onClick={() => save("csv")}>{Words.csv}</Button>
      <Button look="bare" icon="file" disabled={busy} label={Words.exportAsJsonLines} onClick={() => save("jsonl")}>{Words.jsonLines}</Button>
    </>
  );
}

/** A text filter, applied after a pause in typing. */
function Typed({ label, name, value, placeholder = Words.any, maxLength }: { label: string; name: string; value: string; placeholder?: string; maxLength?: number }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text.trim() === value) return;
    const timer = setTimeout(() => setQuery({ [name]: text.trim() }), 400);
    return () => clearTimeout(timer);
  }, [text]);
  return <TextField label={label} type="search" value={text} onChange={setText} placeholder={placeholder} {...(maxLength && { maxLength })} />;
}

/**
 * Converts a time of the API to the form that the browser's field expects: local time without a
 * zone. Returns "" if there is no time.
 */
function local(time: string): string {
  const at = Date.parse(time);
  return Number.isNaN(at) ? "" : new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** A field for a time in the browser's time zone. */
function When({ label, name, value }: { label: string; name: string; value: string }) {
  const choose = (typed: string) => {
    if (typed === "") setQuery({ [name]: null });
    else if (!Number.isNaN(Date.parse(typed))) setQuery({ [name]: new Date(typed).toISOString() });
  };
  return <TextField label={label} type="datetime-local" value={local(value)} onChange={choose} />;
}
