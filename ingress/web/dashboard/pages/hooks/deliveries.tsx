// The log of a webhook's deliveries, and the details of a delivery.
import { useEffect, useState } from "preact/hooks";
import { get, post } from "../../api";
import { useLive } from "../../live";
import { useList, useQuery } from "../../query";
import type { Delivery, DeliveryStatus, Hook, Received } from "../../types";
import { Button, LinkButton } from "../../ui/button";
import { Copy, Snippet } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Dialog } from "../../ui/dialog";
import { Select } from "../../ui/field";
import { Empty, exactTime, Loaded, More, size, Status, Time } from "../../ui/parts";
import { Table } from "../../ui/table";
import { toast } from "../../ui/toast";
import { pretty } from "./newest";

const come = new EventTarget();

/** Reloads the log after a delivery that was sent from this page. */
export const tellOfDelivery = (): void => void come.dispatchEvent(new Event("delivery"));

function useDelivered(reload: () => void): void {
  useEffect(() => {
    come.addEventListener("delivery", reload);
    return () => come.removeEventListener("delivery", reload);
  }, [reload]);
}

const statuses: { value: DeliveryStatus | ""; label: string }[] = [
  { value: "", label: "All" }, { value: "accepted", label: "Accepted" }, { value: "coalesced", label: "Coalesced" },
  { value: "filtered", label: "Filtered" }, { value: "answered", label: "Answered" }, { value: "refused", label: "Refused" },
  { value: "rejected", label: "Rejected" },
];

export function Deliveries({ hook, onChange }: { hook: Hook; onChange: () => void }) {
  const [status, setStatus] = useState<DeliveryStatus | "">("");
  const [shown, setShown] = useState<Delivery>();
  const params = { hookId: hook.id, status };
  const list = useList<Delivery>("/api/hooks/deliveries", params);
  useLive("runs", list.reload); // deliveries are reported as changes of runs
  useDelivered(list.reload);
  const newest = list.data?.[0] && list.data[0].id + list.data[0].receivedAt; // a repeated rejection has the same id
  useEffect(() => {
    if (newest !== undefined) onChange(); // updates the time of the webhook's last delivery
  }, [newest]);
  return (
    <div class="stack">
      <div class="row between">
        <div class="pick"><Select label="Show" value={status} options={statuses} onChange={setStatus} /></div>
        <Curl what="List the deliveries" request={{ method: "GET", path: "/api/hooks/deliveries", params }} />
      </div>
      <Loaded query={list} room="12rem">{(deliveries) => deliveries.length === 0 ? (
        <Empty title={status === "" ? "No deliveries yet" : "No deliveries with this status"} action={status === "" ? <LinkButton href={`/dashboard/automations/${hook.id}/setup`}>Open setup</LinkButton> : undefined}>
          {status === "" ? "Set up the sender, or send a test. Deliveries without a valid signature or token appear here as rejected." : "Choose All to see the other deliveries."}
        </Empty>
      ) : (
        <>
          <Table caption="Deliveries" rows={deliveries} id={(d) => d.id} columns={[
            { head: "Received", tight: true, cell: (d) => <Button look="bare" onClick={() => setShown(d)}><span><Time at={d.receivedAt} /><span class="visually-hidden">, delivery {d.id}</span></span></Button> },
            { head: "Status", tight: true, cell: (d) => <Status of={d.status} /> },
            { head: "Event", cell: (d) => <span class="event">{d.event || (d.status === "rejected" && d.error?.message) || <span class="quiet">–</span>}</span> },
            { head: "Delivery", cell: (d) => <span class="delivery-id"><code title={d.id}>{d.id}</code>{d.duplicates > 0 && <span class="tag">received {d.duplicates + 1} times</span>}</span> },
            { head: "Run", tight: true, cell: (d) => d.runId ? <a href={"/dashboard/runs/" + d.runId}>Open run</a> : <span class="quiet">none</span> },
            { head: "Size", end: true, tight: true, cell: (d) => size(d.bytes) },
          ]} />
          <More list={list} />
        </>
      )}</Loaded>
      {shown && <One delivery={shown} onClose={() => setShown(undefined)} />}
    </div>
  );
}

function One({ delivery: listed, onClose }: { delivery: Delivery; onClose: () => void }) {
  const params = { hookId: listed.hookId, id: listed.id };
  const query = useQuery(`delivery ${listed.hookId} ${listed.id}`, (signal) => get<Delivery>("/api/hooks/deliveries", params, signal));
  const again = { ...params, action: "redeliver" };
  const redeliver = async () => {
    const made = await post<Received>("/api/hooks/deliveries", undefined, again);
    tellOfDelivery();
    toast(made.runId ? "Redelivered as a new run." : `Redelivered: ${made.status}.`);
    onClose();
  };
  return (
    <Dialog side title="Delivery" onClose={onClose} foot={listed.kept && (
      <>
        <Curl what="Deliver it again" request={{ method: "POST", path: "/api/hooks/deliveries", params: again }} />
        <Button look="primary" onClick={redeliver}>Redeliver</Button>
      </>
    )}>
      <Loaded query={query}>{(d) => (
        <div class="stack">
          <dl class="facts">
            <dt>Status</dt><dd><Status of={d.status} /></dd>
            <dt>Id</dt><dd><code>{d.id}</code> <Copy text={d.id} label="Copy the delivery’s id" /></dd>
            {d.event && <><dt>Event</dt><dd>{d.event}</dd></>}
            <dt>Received</dt><dd>{exactTime(d.receivedAt)}{d.duplicates > 0 && `, received ${d.duplicates + 1} times`}</dd>
            <dt>Run</dt><dd>{d.runId ? <a href={"/dashboard/runs/" + d.runId}>{d.runId}</a> : "none"}</dd>
          </dl>
          {d.error && <p class="problem"><strong>{d.error.message}</strong> <code>{d.error.code}</code></p>}
          <div class="row between"><h3>Payload, {size(d.bytes)}</h3><Curl what="Read this delivery" request={{ method: "GET", path: "/api/hooks/deliveries", params }} /></div>
          {d.body ? <Snippet label="the payload" text={pretty(d.body)} /> : <p class="quiet">The payload is not stored. Only payloads of up to 1 MiB are stored, and none of rejected deliveries.</p>}
        </div>
      )}</Loaded>
    </Dialog>
  );
}
