// Usage and latency, as charts and as a table.
import { useState } from "preact/hooks";
import { get } from "../../api";
import { useQuery } from "../../query";
import type { Usage, UsageGroup, UsagePoint } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { Select } from "../../ui/field";
import { Loaded, Section, count, duration, money } from "../../ui/parts";
import { Table } from "../../ui/table";
import { Bars, Lines } from "./chart";
import { useCounted } from "./counted";
import { choicesOf, type Subject, type Subjects } from "./subjects";

const spans = [{ value: "1", label: "Last day" }, { value: "7", label: "7 days" }, { value: "30", label: "30 days" }, { value: "90", label: "90 days" }] as const;

const kinds = [{ value: "agent", label: "Agents" }, { value: "key", label: "API keys" }, { value: "automation", label: "Automations" }] as const;
const words: Record<Subject, { one: string; all: string; none: string; param: string }> = {
  agent: { one: "Agent", all: "All agents", none: "None", param: "agentId" },
  key: { one: "API key", all: "All API keys and people", none: "People without a key", param: "keyId" },
  automation: { one: "Automation", all: "All runs", none: "No automation", param: "automationId" },
};

export function UsageSection({ subjects }: { subjects: Subjects }) {
  const [days, setDays] = useState<(typeof spans)[number]["value"]>("7");
  const [by, setBy] = useState<Subject>("agent");
  const [id, setId] = useState("");
  const params = { days, by, [words[by].param]: id };
  const usage = useQuery(`usage ${JSON.stringify(params)}`, (signal) => get<Usage>("/api/usage", params, signal));
  useCounted(usage.reload);
  const choose = (kind: Subject) => {
    subjects.want(kind);
    setBy(kind);
    setId("");
  };
  return (
    <Section title="Usage" actions={<Curl what="Read the usage" request={{ method: "GET", path: "/api/usage", params }} />}>
      <div class="stack">
        <div class="columns">
          <Select label="Time" value={days} onChange={setDays} options={spans} />
          <Select label="By" value={by} onChange={choose} options={kinds} />
          <Select label={words[by].one} value={id} onChange={setId} options={[{ value: "", label: words[by].all }, ...choicesOf(subjects, by)]} />
        </div>
        <Loaded query={usage} room="24rem">{(u) => (
          <>
            <Shown of={u} />
            {id === "" && u.groups && u.groups.length > 0 && <Groups of={u.groups} by={by} subjects={subjects} choose={setId} />}
          </>
        )}</Loaded>
      </div>
    </Section>
  );
}

/** Lists usage per subject, with bars next to the figures. */
function Groups({ of: groups, by, subjects, choose }: { of: UsageGroup[]; by: Subject; subjects: Subjects; choose: (id: string) => void }) {
  const costs = groups.some((g) => g.costMicros > 0);
  const weight = (g: UsageGroup) => (costs ? g.costMicros : g.runs);
  const most = Math.max(1, ...groups.map(weight));
  return (
    <Table caption={`Usage by ${words[by].one.toLowerCase()}`} rows={groups} id={(g) => g.id ?? String(g.others)} columns={[
      { head: words[by].one, cell: (g) => (
        <span class="group">
          {g.id === null ? <span class="quiet">{g.others ? "Others" : words[by].none}</span> : <Button look="bare" label={`Only ${subjects.nameOf(by, g.id)}`} onClick={() => choose(g.id ?? "")}>{subjects.nameOf(by, g.id)}</Button>}
          <span class="bar" aria-hidden="true"><i style={{ display: "block", width: `${(weight(g) / most) * 100}%` }} /></span>
        </span>
      ) },
      { head: "Runs", end: true, tight: true, cell: (g) => count(g.runs) },
      { head: "Failed", end: true, tight: true, cell: (g) => count(g.failed + g.timedOut) },
      { head: "Tokens", end: true, tight: true, cell: (g) => count(g.inputTokens + g.outputTokens) },
      { head: "Sandbox", end: true, tight: true, cell: (g) => duration(g.sandboxSeconds * 1000) },
      { head: "Cost", end: true, tight: true, cell: (g) => money(g.costMicros) },
    ]} />
  );
}

function Shown({ of: u }: { of: Usage }) {
  const t = u.totals;
  const label = (p: UsagePoint) => labelOf(p.startsAt, u.interval);
  return (
    <>
      <dl class="totals">
        <div><dt>Runs</dt><dd>{count(t.runs)}</dd></div>
        <div><dt>Failed or timed out</dt><dd>{count(t.failed + t.timedOut)}</dd></div>
        <div><dt>Tokens in, out</dt><dd>{count(t.inputTokens)}, {count(t.outputTokens)}</dd></div>
        <div><dt>Cost</dt><dd>{money(t.costMicros)}</dd></div>
        <div><dt>Sandbox time</dt><dd>{duration(t.sandboxSeconds * 1000)}</dd></div>
        <div><dt>Median time, 95th percentile</dt><dd>{t.p50Ms === null || t.p95Ms === null ? "–" : `${duration(t.p50Ms)}, ${duration(t.p95Ms)}`}</dd></div>
      </dl>
      <div class="charts">
        <Bars title="Runs" unit={`per ${u.interval}`} empty={`No runs in this period. A bar is the number of runs of one ${u.interval}, by their result.`} points={u.data.map((p) => ({ label: label(p), parts: [
          { name: "completed", value: p.completed },
          { name: "failed", value: p.failed + p.timedOut },
          { name: "other", value: Math.max(0, p.runs - p.completed - p.failed - p.timedOut) },
        ] }))} />
        <Lines title="Time to answer" unit={`per ${u.interval}`} empty={`No run finished in this period. The lines are the time, from acceptance to result, that half and 95 % of a${u.interval === "hour" ? "n hour" : " day"}’s runs took at most.`} format={duration} points={u.data.map((p) => ({ label: label(p), values: { median: p.p50Ms, "95th percentile": p.p95Ms } }))} />
      </div>
      <details class="fold">
        <summary>Show as a table</summary>
        <Table caption={`Usage by ${u.interval}`} rows={u.data.filter((p) => p.runs > 0)} id={(p) => p.startsAt} columns={[
          { head: u.interval === "day" ? "Day" : "Hour", cell: label },
          { head: "Runs", end: true, cell: (p) => count(p.runs) },
          { head: "Failed", end: true, cell: (p) => count(p.failed + p.timedOut) },
          { head: "Tokens", end: true, cell: (p) => count(p.inputTokens + p.outputTokens) },
          { head: "Cost", end: true, cell: (p) => money(p.costMicros) },
          { head: "Sandbox", end: true, cell: (p) => duration(p.sandboxSeconds * 1000) },
          { head: "Median", end: true, cell: (p) => (p.p50Ms === null ? "–" : duration(p.p50Ms)) },
          { head: "95th percentile", end: true, cell: (p) => (p.p95Ms === null ? "–" : duration(p.p95Ms)) },
        ]} />
      </details>
    </>
  );
}

function labelOf(at: string, interval: Usage["interval"]): string {
  return new Intl.DateTimeFormat("en-GB", interval === "day" ? { day: "numeric", month: "short", timeZone: "UTC" } : { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", timeZone: "UTC" }).format(new Date(at));
}
