// The list of the organization's webhooks.
import { useList } from "../../query";
import { useLive } from "../../live";
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

/** Whether the newest delivery had no valid signature, which usually means that the sender has another secret. */
export const unsigned = (h: Hook): boolean =>
  h.lastRejectedAt !== null && (h.lastDeliveryAt === null || Date.parse(h.lastRejectedAt) > Date.parse(h.lastDeliveryAt));

export function HookList({ list, names }: { list: ReturnType<typeof useHooks>; names: Names }) {
  return (
    <Section title="Webhooks" intro="Agents that run on events from other services: GitHub, Stripe, Slack, and any service that signs its requests."
      actions={<><Curl what="List the webhooks" request={{ method: "GET", path: "/api/hooks" }} /><LinkButton look="primary" icon="plus" href="/dashboard/automations/new">New webhook</LinkButton></>}>
      <Loaded query={list}>{(hooks) => hooks.length === 0 ? (
        <Empty title="No webhooks yet">
          A webhook is a URL and a secret for one sender. Each signed delivery runs an agent once, even if it is sent several times. The agent treats the payload as data, never as instructions.
        </Empty>
      ) : (
        <div class="stack">
          <Table caption="Webhooks" rows={hooks} id={(h) => h.id} columns={[
            { head: "Name", cell: (h) => <a href={"/dashboard/automations/" + h.id}>{h.name}</a> },
            { head: "Source", tight: true, cell: (h) => sources[h.source].title },
            { head: "Agent", cell: (h) => names.of({ agentId: h.agentId, templateId: null }) },
            { head: "Last delivery", tight: true, cell: (h) => <Time at={h.lastDeliveryAt} /> },
            { head: "State", tight: true, cell: (h) => (
              <span class="row"><Status of={h.enabled ? "enabled" : "disabled"} />{unsigned(h) && <Status of="wrong signature" />}</span>
            ) },
          ]} />
          <More list={list} />
        </div>
      )}</Loaded>
    </Section>
  );
}
