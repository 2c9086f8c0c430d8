// Usage and latency, drawn and as a table.
import { useState } from "preact/hooks";
import { get } from "../../api";
import { useLive } from "../../live";
import { useList, useQuery } from "../../query";
import type { Agent, Usage, UsagePoint } from "../../types";
import { Curl } from "../../ui/copy";
import { Select } from "../../ui/field";
import { Loaded, Section, count, duration, money } from "../../ui/parts";
import { Table } from "../../ui/table";
import { Bars, Lines } from "./chart";

const spans = [{ value: "1", label: "The last day" }, { value: "7", label: "7 days" }, { value: "30", label: "30 days" }, { value: "90", label: "90 days" }] as const;

export function UsageSection() {
  const [days, setDays] = useState<(typeof spans)[number]["value"]>("7");
  const [agentId, setAgent] = useState("");
  const agents = useList<Agent>("/api/agents", { limit: 100 });
  const usage = useQuery(`usage ${days} ${agentId}`, (signal) => get<Usage>("/api/usage", { days, agentId }, signal));
  useLive("runs", usage.reload);
  const choices = [{ value: "", label: "All agents" }, ...(agents.data ?? []).map((a) => ({ value: a.id, label: a.name }))];
  return (
    <Section title="Usage" actions={<Curl what="Read the usage" request={{ method: "GET", path: "/api/usage", params: { days, agentId } }} />}>
      <div class="stack">
        <div class="columns">
          <Select label="Time" value={days} onChange={setDays} options={spans} />
          <Select label="Agent" value={agentId} onChange={setAgent} options={choices} />
        </div>
        <Loaded query={usage} room="18.5rem">{(u) => <Shown of={u} />}</Loaded>
      </div>
    </Section>
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
        <div><dt>Median time</dt><dd>{t.p50Ms === null ? "–" : duration(t.p50Ms)}</dd></div>
        <div><dt>95th percentile</dt><dd>{t.p95Ms === null ? "–" : duration(t.p95Ms)}</dd></div>
      </dl>
      <div class="charts">
        <Bars title="Runs" points={u.data.map((p) => ({ label: label(p), parts: [
          { name: "completed", value: p.completed },
          { name: "failed", value: p.failed + p.timedOut },
          { name: "other", value: Math.max(0, p.runs - p.completed - p.failed - p.timedOut) },
        ] }))} />
        <Lines title="Time to the answer" format={duration} points={u.data.map((p) => ({ label: label(p), values: { median: p.p50Ms, "95th percentile": p.p95Ms } }))} />
      </div>
      <details class="fold">
        <summary>The same as a table</summary>
        <Table caption={`Usage by ${u.interval}`} rows={u.data.filter((p) => p.runs > 0)} id={(p) => p.startsAt} columns={[
          { head: u.interval === "day" ? "Day" : "Hour", cell: label },
          { head: "Runs", end: true, cell: (p) => count(p.runs) },
          { head: "Failed", end: true, cell: (p) => count(p.failed + p.timedOut) },
          { head: "Tokens", end: true, cell: (p) => count(p.inputTokens + p.outputTokens) },
          { head: "Cost", end: true, cell: (p) => money(p.costMicros) },
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
