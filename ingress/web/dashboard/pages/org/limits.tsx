// The organization's limits and their use.
import { get } from "../../api";
import { useQuery } from "../../query";
import * as texts from "../../texts/org";
import { Words } from "../../texts/org";
import { wordFor } from "../../texts/values";
import type { Limits } from "../../types";
import { Curl } from "../../ui/curl";
import { Loaded, Section, count, duration, size } from "../../ui/parts";
import { Table } from "../../ui/table";

const tiers: Record<string, string> = {
  demo: Words.demoVisitors, user: Words.peopleAndApiKeys, "user-total": Words.personWithAllSessions, system: Words.automations, "widget-visitor": Words.aWidgetVisitor, "widget-address": Words.widgetsFromOneIp, "widget-agent": Words.anAgentsWidgets, "widget-tokens": Words.newVisitorsToAgents,
};

export function LimitsSection() {
  const limits = useQuery("limits", (signal) => get<Limits>("/api/organizations/limits", undefined, signal));
  return (
    <Section title={Words.limits} intro={Words.setByOperator} actions={<Curl what={Words.readTheLimits} request={{ method: "GET", path: "/api/organizations/limits" }} />}>
      <Loaded query={limits} room="28rem">{(l) => (
        <div class="stack">
          <Table caption={Words.requests} rows={l.rates} id={(r) => r.name} columns={[
            { head: Words.requestsFrom, cell: (r) => tiers[r.name] ?? r.name },
            { head: Words.atMost, end: true, tight: true, cell: (r) => texts.requestsInPart(count(r.requests), r.windowSeconds === 60 ? Words.aMinute : duration(r.windowSeconds * 1000)) },
            { head: Words.countedPer, tight: true, cell: (r) => wordFor(texts.counted, r.per) },
          ]} />
          <div class="columns">
            <Share what={Words.documents} used={l.documents.count} max={l.documents.most} format={count} />
            <Share what={Words.totalSizeOfDocuments} used={l.documents.bytes} max={l.documents.bytesMost} format={size} />
          </div>
          <p class="small quiet">
            {texts.runMustFinishWithin(duration(l.run.deadlineSeconds * 1000), count(l.streams.perOrganization), count(l.streams.perCredential), count(l.voice.perOrganization))}
          </p>
        </div>
      )}</Loaded>
    </Section>
  );
}

/** Shows the used part of a quota. The value null of the property max means that there is no limit. */
export function Share({ what, used, max, format }: { what: string; used: number; max: number | null; format: (amount: number) => string }) {
  const words = max === null ? texts.usedWithoutLimit(format(used)) : texts.usedOfMax(format(used), format(max));
  return (
    <div class="share">
      <p class="row between"><strong>{what}</strong><span class="small quiet number">{words}</span></p>
      {max !== null && <meter min={0} max={Math.max(1, max)} high={max * 0.9} value={used} aria-label={`${what}: ${words}`} />}
    </div>
  );
}
