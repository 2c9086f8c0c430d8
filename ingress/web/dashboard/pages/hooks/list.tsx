// The list of the organization's webhooks.
import { useList } from "../../query";
import { useLive } from "../../live";
import { Words } from "../../texts/hooks";
import type { Hook } from "../../types";
import { LinkButton } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { Empty, Loaded, More, Section, Status, Time } from "../../ui/parts";
import { Table } from "../../ui/table";
import type { Names } from "../runs/names";
import { sources } from "./sources";

export function useHooks() {
  const list = useList<Hook>("/api/hooks", { limit: 50 });
  useLive("runs", list.reload);
  return list;
}

/**
 * Whether the newest delivery was rejected, which usually means that the sender uses a wrong
 * secret.
 */
export const wasRejected = (h: Hook): boolean =>
  h.lastRejectedAt !== null && (h.lastDeliveryAt === null || Date.parse(h.lastRejectedAt) > Date.parse(h.lastDeliveryAt));

export function HookList({ list, names }: { list: ReturnType<typeof useHooks>; names: Names }) {
  return (
    <Section title={Words.webhooks} intro={Words.agentsThatRun}
      actions={<><Curl what={Words.listTheWebhooks} request={{ method: "GET", path: "/api/hooks" }} /><LinkButton look="primary" icon="plus" href="/dashboard/automations/new">{Words.newWebhook}</LinkButton></>}>
      <Loaded query={list}>{(hooks) => hooks.length === 0 ? (
        <Empty title={Words.noWebhooksYet}>
          {Words.webhookIsUrl}
        </Empty>
      ) : (
        <div class="stack">
          <Table caption={Words.webhooks} rows={hooks} id={(h) => h.id} columns={[
            { head: Words.name, cell: (h) => <a href={"/dashboard/automations/" + h.id}>{h.name}</a> },
            { head: Words.sender, tight: true, cell: (h) => sources[h.source].title },
            { head: Words.agent, cell: (h) => names.of({ agentId: h.agentId, templateId: null }) },
            { head: Words.lastDelivery, tight: true, cell: (h) => <Time at={h.lastDeliveryAt} /> },
            { head: Words.state, tight: true, cell: (h) => (
              <span class="row"><Status of={h.enabled ? "enabled" : "disabled"} />{wasRejected(h) && <Status of="rejected" />}</span>
            ) },
          ]} />
          <More list={list} />
        </div>
      )}</Loaded>
    </Section>
  );
}
