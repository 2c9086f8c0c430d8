// The log of a webhook's deliveries, and the details of a delivery.
import { useEffect, useState } from "preact/hooks";
import { get, post } from "../../api";
import { useLive } from "../../live";
import { useList, useQuery } from "../../query";
import * as texts from "../../texts/hooks";
import { Words } from "../../texts/hooks";
import { statuses, wordFor } from "../../texts/values";
import type { Delivery, DeliveryStatus, DeliveryWithBody, Hook, Received } from "../../types";
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
export const notifyDelivery = (): void => void come.dispatchEvent(new Event("delivery"));

function useDelivered(reload: () => void): void {
  useEffect(() => {
    come.addEventListener("delivery", reload);
    return () => come.removeEventListener("delivery", reload);
  }, [reload]);
}

const choices: { value: DeliveryStatus | ""; label: string }[] = [
  { value: "", label: Words.all }, { value: "accepted", label: Words.accepted }, { value: "coalesced", label: Words.coalesced },
  { value: "filtered", label: Words.filtered }, { value: "answered", label: Words.answered }, { value: "refused", label: Words.refused },
  { value: "rejected", label: Words.rejected },
];

/**
 * Reports whether the id of a delivery comes from its sender. Rejected deliveries have ids from the
 * log.
 */
const hasSenderId = (d: Delivery): boolean => d.status !== "rejected";

export function Deliveries({ hook, onChange }: { hook: Hook; onChange: () => void }) {
  const [status, setStatus] = useState<DeliveryStatus | "">("");
  const [shown, setShown] = useState<Delivery>();
  const params = { hookId: hook.id, status };
  const list = useList<Delivery>("/api/hooks/deliveries", params);
  useLive("runs", list.reload); // the service reports deliveries as changes of runs
  useDelivered(list.reload);
  const newest = list.data?.[0] && list.data[0].id + list.data[0].receivedAt; // a delivery rejected again has the same id, but a new time
  useEffect(() => {
    if (newest !== undefined) onChange(); // the page then shows the time of the newest delivery
  }, [newest]);
  return (
    <div class="stack">
      <div class="row between">
        <div class="pick"><Select label={Words.show} value={status} options={choices} onChange={setStatus} /></div>
        <Curl what={Words.listTheDeliveries} request={{ method: "GET", path: "/api/hooks/deliveries", params }} />
      </div>
      <Loaded query={list} room="12rem">{(deliveries) => deliveries.length === 0 ? (
        <Empty title={status === "" ? Words.noDeliveriesYet : Words.noDeliveriesWithThisStatus} action={status === "" ? <LinkButton href={`/dashboard/automations/${hook.id}/setup`}>{Words.openSetup}</LinkButton> : undefined}>
          {status === "" ? Words.setUpSender : Words.chooseAllToSee}
        </Empty>
      ) : (
        <>
          <Table caption={Words.deliveries} rows={deliveries} id={(d) => d.id} columns={[
            { head: Words.received, tight: true, cell: (d) => <Button look="bare" onClick={() => setShown(d)}><span><Time at={d.receivedAt} /><span class="visually-hidden">{hasSenderId(d) ? texts.deliveryId(d.id) : texts.rejectedDelivery(d.error?.message ?? "")}</span></span></Button> },
            { head: Words.status, tight: true, cell: (d) => <Status of={d.status} /> },
            { head: Words.event, cell: (d) => <span class="event">{d.event || (d.status === "rejected" && d.error?.message) || <span class="quiet">–</span>}</span> },
            { head: Words.delivery, cell: (d) => <span class="delivery-id">{hasSenderId(d) ? <code title={d.id}>{d.id}</code> : <span class="quiet">{Words.none}</span>}{d.duplicates > 0 && <span class="tag">{texts.receivedDuplicatesTimes(d.duplicates + 1)}</span>}</span> },
            { head: Words.run, tight: true, cell: (d) => d.runId ? <a href={"/dashboard/runs/" + d.runId}>{Words.openRun}</a> : <span class="quiet">{Words.none}</span> },
            { head: Words.size, end: true, tight: true, cell: (d) => size(d.bytes) },
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
  const query = useQuery(`delivery ${listed.hookId} ${listed.id}`, (signal) => get<DeliveryWithBody>("/api/hooks/deliveries", params, signal));
  const again = { ...params, action: "redeliver" };
  const redeliver = async () => {
    const made = await post<Received>("/api/hooks/deliveries", undefined, again);
    notifyDelivery();
    toast(made.runId ? Words.redeliveredAsNewRun : texts.redeliveredStatus(wordFor(statuses, made.status)));
    onClose();
  };
  return (
    <Dialog side title={Words.delivery} onClose={onClose} foot={listed.kept && (
      <>
        <Curl what={Words.deliverItAgain} request={{ method: "POST", path: "/api/hooks/deliveries", params: again }} />
        <Button look="primary" onClick={redeliver}>{Words.redeliver}</Button>
      </>
    )}>
      <Loaded query={query}>{(d) => (
        <div class="stack">
          <dl class="facts">
            <dt>{Words.status}</dt><dd><Status of={d.status} /></dd>
            {hasSenderId(d) && <><dt>{Words.id}</dt><dd><code>{d.id}</code> <Copy text={d.id} label={Words.copyDeliverysId} /></dd></>}
            {d.event && <><dt>{Words.event}</dt><dd>{d.event}</dd></>}
            <dt>{Words.received}</dt><dd>{exactTime(d.receivedAt)}{d.duplicates > 0 && texts.receivedDuplicatesTimesPart(d.duplicates + 1)}</dd>
            <dt>{Words.run}</dt><dd>{d.runId ? <a href={"/dashboard/runs/" + d.runId}>{d.runId}</a> : Words.none}</dd>
          </dl>
          {d.error && <p class="problem"><strong>{d.error.message}</strong> <a href={"/docs/errors#" + d.error.code}><code>{d.error.code}</code></a></p>}
          <div class="row between"><h3>{texts.payloadBytes(size(d.bytes))}</h3><Curl what={Words.readThisDelivery} request={{ method: "GET", path: "/api/hooks/deliveries", params }} /></div>
          {d.body ? <Snippet label={Words.thePayload} text={pretty(d.body)} /> : <p class="quiet">{Words.payloadIsNotStored}</p>}
        </div>
      )}</Loaded>
    </Dialog>
  );
}
