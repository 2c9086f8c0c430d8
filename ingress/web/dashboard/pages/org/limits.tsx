// The organization's limits and their use.
import { get } from "../../api";
import { useQuery } from "../../query";
import type { Limits } from "../../types";
import { Curl } from "../../ui/curl";
import { Loaded, Section, count, duration, size } from "../../ui/parts";
import { Table } from "../../ui/table";

const tiers: Record<string, string> = {
  demo: "Demo visitors", user: "People and API keys", "user-total": "A person with all sessions and API keys", system: "Automations", "widget-visitor": "A widget visitor", "widget-address": "Widgets, from one IP address", "widget-agent": "An agent's widgets", "widget-tokens": "New visitors to an agent's widgets",
};

export function LimitsSection() {
  const limits = useQuery("limits", (signal) => get<Limits>("/api/organizations/limits", undefined, signal));
  return (
    <Section title="Limits" intro="Set by the operator of this service." actions={<Curl what="Read the limits" request={{ method: "GET", path: "/api/organizations/limits" }} />}>
      <Loaded query={limits} room="28rem">{(l) => (
        <div class="stack">
          <Table caption="Requests" rows={l.rates} id={(r) => r.name} columns={[
            { head: "Requests from", cell: (r) => tiers[r.name] ?? r.name },
            { head: "At most", end: true, tight: true, cell: (r) => `${count(r.requests)} in ${r.windowSeconds === 60 ? "a minute" : duration(r.windowSeconds * 1000)}` },
            { head: "Counted per", tight: true, cell: (r) => r.per },
          ]} />
          <div class="columns">
            <Share what="Documents" used={l.documents.count} most={l.documents.most} words={`${count(l.documents.count)} of ${count(l.documents.most)}`} />
            <Share what="Total size of documents" used={l.documents.bytes} most={l.documents.bytesMost} words={`${size(l.documents.bytes)} of ${size(l.documents.bytesMost)}`} />
          </div>
          <p class="small quiet">
            A run must finish within {duration(l.run.deadlineSeconds * 1000)} of its acceptance. Each server allows {count(l.streams.perOrganization)} open streams, {count(l.streams.perCredential)} per credential,
            and {count(l.voice.perOrganization)} voice connections.
          </p>
        </div>
      )}</Loaded>
    </Section>
  );
}

function Share({ what, used, most, words }: { what: string; used: number; most: number; words: string }) {
  return (
    <div class="share">
      <p class="row between"><strong>{what}</strong><span class="small quiet number">{words}</span></p>
      <meter min={0} max={Math.max(1, most)} high={most * 0.9} value={used} aria-label={`${what}: ${words}`} />
    </div>
  );
}
