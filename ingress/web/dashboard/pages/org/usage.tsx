// Usage and latency, as charts and as a table.
import { useState } from "preact/hooks";
import { get } from "../../api";
import { useQuery } from "../../query";
import * as texts from "../../texts/org";
import { Words } from "../../texts/org";
import { periods, wordFor } from "../../texts/values";
import type { List, Template, Usage, UsageGroup, UsagePoint } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { Select } from "../../ui/field";
import { money } from "../../ui/money";
import { Loaded, Section, count, duration } from "../../ui/parts";
import { Table } from "../../ui/table";
import { Bars, Lines } from "./chart";
import { useCounted } from "./counted";
import { choicesFor, type Subject, type Subjects } from "./subjects";

const spans = [{ value: "1", label: Words.lastDay }, { value: "7", label: Words.days7 }, { value: "30", label: Words.days30 }, { value: "90", label: Words.days90 }] as const;

const kinds = [{ value: "agent", label: Words.agents }, { value: "key", label: Words.apiKeys }, { value: "automation", label: Words.automations }] as const;
const words: Record<Subject, { one: string; all: string; none: string; param: string }> = {
  agent: { one: Words.agent, all: Words.allAgents, none: Words.none, param: "agentId" },
  key: { one: Words.apiKey, all: Words.allApiKeys, none: Words.peopleWithoutKey, param: "keyId" },
  automation: { one: Words.automation, all: Words.allRuns, none: Words.noAutomation, param: "automationId" },
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
    <Section title={Words.usage} actions={<Curl what={Words.readTheUsage} request={{ method: "GET", path: "/api/usage", params }} />}>
      <div class="stack">
        <div class="columns">
          <Select label={Words.time} value={days} onChange={setDays} options={spans} />
          <Select label={Words.by} value={by} onChange={choose} options={kinds} />
          <Select label={words[by].one} value={id} onChange={setId} options={[{ value: "", label: words[by].all }, ...choicesFor(subjects, by)]} />
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

/**
 * Shows the name of a group as a button that selects the subject of the group. Templates and
 * deleted subjects cannot be selected, so their names are plain text.
 */
function GroupName({ of: g, by, subjects, choose }: { of: UsageGroup; by: Subject; subjects: Subjects; choose: (id: string) => void }) {
  const { id } = g;
  if (id === null) return <span class="quiet">{g.others ? Words.others : words[by].none}</span>;
  if (id.startsWith("tpl_")) return <TemplateName id={id} />;
  const name = subjects.nameFor(by, id);
  if (!subjects.has(by, id)) return <span>{name}</span>;
  return <Button look="bare" label={texts.onlyName(name)} onClick={() => choose(id)}>{name}</Button>;
}

/** Shows the name of a template. It loads the templates, which few usage pages need. */
function TemplateName({ id }: { id: string }) {
  const templates = useQuery("names of templates", (signal) => get<List<Template>>("/api/agents/templates", {}, signal));
  return <span>{templates.data?.data.find((t) => t.id === id)?.name ?? id}</span>;
}

/** Lists usage per subject, with bars next to the figures. */
function Groups({ of: groups, by, subjects, choose }: { of: UsageGroup[]; by: Subject; subjects: Subjects; choose: (id: string) => void }) {
  const costs = groups.some((g) => g.costMicros > 0);
  const weight = (g: UsageGroup) => (costs ? g.costMicros : g.runs);
  const max = Math.max(1, ...groups.map(weight));
  return (
    <Table caption={texts.usageByOne(words[by].one.toLowerCase())} rows={groups} id={(g) => g.id ?? String(g.others)} columns={[
      { head: words[by].one, cell: (g) => (
        <span class="group">
          <GroupName of={g} by={by} subjects={subjects} choose={choose} />
          <span class="bar" aria-hidden="true"><i style={{ display: "block", width: `${(weight(g) / max) * 100}%` }} /></span>
        </span>
      ) },
      { head: Words.runs, end: true, tight: true, cell: (g) => count(g.runs) },
      { head: Words.failed, end: true, tight: true, cell: (g) => count(g.failed + g.timedOut) },
      { head: Words.tokens, end: true, tight: true, cell: (g) => count(g.inputTokens + g.outputTokens) },
      { head: Words.sandbox, end: true, tight: true, cell: (g) => duration(g.sandboxSeconds * 1000) },
      { head: Words.cost, end: true, tight: true, cell: (g) => money(g.costMicros) },
    ]} />
  );
}

function Shown({ of: u }: { of: Usage }) {
  const t = u.totals;
  const label = (p: UsagePoint) => formatStart(p.startsAt, u.interval);
  const interval = wordFor(periods, u.interval);
  return (
    <>
      <dl class="totals">
        <div><dt>{Words.runs}</dt><dd>{count(t.runs)}</dd></div>
        <div><dt>{Words.failedOrTimedOut}</dt><dd>{count(t.failed + t.timedOut)}</dd></div>
        <div><dt>{Words.tokensInOut}</dt><dd>{count(t.inputTokens)} / {count(t.outputTokens)}</dd></div>
        <div><dt>{Words.cost}</dt><dd>{money(t.costMicros)}</dd></div>
        <div><dt>{Words.sandboxTime}</dt><dd>{duration(t.sandboxSeconds * 1000)}</dd></div>
        <div><dt>{Words.medianTime95thPercentile}</dt><dd>{t.p50Ms === null || t.p95Ms === null ? "–" : `${duration(t.p50Ms)} / ${duration(t.p95Ms)}`}</dd></div>
      </dl>
      <div class="charts">
        <Bars title={Words.runs} unit={texts.perInterval(interval)} empty={texts.noRunsInThisPeriod(interval)} points={u.data.map((p) => ({ label: label(p), parts: [
          { name: "completed", value: p.completed },
          { name: "failed", value: p.failed + p.timedOut },
          { name: "other", value: Math.max(0, p.runs - p.completed - p.failed - p.timedOut) },
        ] }))} />
        <Lines title={Words.timeToAnswer} unit={texts.perInterval(interval)} empty={texts.noRunFinishedInThisPeriod(interval)} format={duration} points={u.data.map((p) => ({ label: label(p), values: { median: p.p50Ms, "95th percentile": p.p95Ms } }))} />
      </div>
      <details class="fold">
        <summary>{Words.showAsTable}</summary>
        <Table caption={texts.usageByInterval(interval)} rows={u.data.filter((p) => p.runs > 0)} id={(p) => p.startsAt} columns={[
          { head: u.interval === "day" ? Words.day : Words.hour, cell: label },
          { head: Words.runs, end: true, cell: (p) => count(p.runs) },
          { head: Words.failed, end: true, cell: (p) => count(p.failed + p.timedOut) },
          { head: Words.tokens, end: true, cell: (p) => count(p.inputTokens + p.outputTokens) },
          { head: Words.cost, end: true, cell: (p) => money(p.costMicros) },
          { head: Words.sandbox, end: true, cell: (p) => duration(p.sandboxSeconds * 1000) },
          { head: Words.median, end: true, cell: (p) => (p.p50Ms === null ? "–" : duration(p.p50Ms)) },
          { head: Words.percentile95th, end: true, cell: (p) => (p.p95Ms === null ? "–" : duration(p.p95Ms)) },
        ]} />
      </details>
    </>
  );
}

function formatStart(at: string, interval: Usage["interval"]): string {
  return new Intl.DateTimeFormat("en-GB", interval === "day" ? { day: "numeric", month: "short", timeZone: "UTC" } : { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", timeZone: "UTC" }).format(new Date(at));
}
