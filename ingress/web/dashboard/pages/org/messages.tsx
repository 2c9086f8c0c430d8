// The messages of a notification endpoint, sent and pending.
import { useState } from "preact/hooks";
import { get, post } from "../../api";
import { useLive } from "../../live";
import { useList, useQuery } from "../../query";
import type { Notification, NotificationEndpoint } from "../../types";
import { Button } from "../../ui/button";
import { Copy, Snippet } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Dialog } from "../../ui/dialog";
import { exactTime, Loaded, More, Status, Time } from "../../ui/parts";
import { Table } from "../../ui/table";
import { toast } from "../../ui/toast";

const path = "/api/notifications/messages";

export function Messages({ endpoint }: { endpoint: NotificationEndpoint }) {
  const params = { endpointId: endpoint.id };
  const list = useList<Notification>(path, params);
  const [shown, setShown] = useState<Notification>();
  useLive("notifications", list.reload);
  return (
    <Loaded query={list}>{(messages) => (
      <div class="stack tight">
        {messages.length === 0 ? <p class="small quiet">No messages yet. Send a test to try the endpoint.</p> : (
          <Table caption={`Messages to ${endpoint.url}`} rows={messages} id={(m) => m.id} columns={[
            { head: "Event", cell: (m) => <Button look="bare" label={`${m.event}, message ${m.id}`} onClick={() => setShown(m)}>{m.event}</Button> },
            { head: "Status", tight: true, cell: (m) => <Status of={m.status} /> },
            { head: "Attempts", end: true, tight: true, cell: (m) => m.attempts },
            { head: "Response", cell: (m) => <Answer of={m} /> },
            { head: "Created", tight: true, cell: (m) => <Time at={m.createdAt} /> },
          ]} />
        )}
        <div class="row"><More list={list} /><Curl what="List the messages" request={{ method: "GET", path, params }} /></div>
        {shown && <One id={shown.id} onClose={() => setShown(undefined)} onSent={list.reload} />}
      </div>
    )}</Loaded>
  );
}

function Answer({ of: m }: { of: Notification }) {
  if (m.error) return <span>{m.error}</span>;
  return m.responseStatus === null ? <span class="quiet">none yet</span> : <code>{m.responseStatus}</code>;
}

function One({ id, onClose, onSent }: { id: string; onClose: () => void; onSent: () => void }) {
  const query = useQuery(`notification ${id}`, (signal) => get<Notification>(path, { id }, signal));
  useLive("notifications", query.reload);
  const params = { id, action: "resend" };
  const resend = async () => {
    await post(path, undefined, params);
    toast("The message is being sent again with the same id.");
    onSent();
    onClose();
  };
  return (
    <Dialog side title="Message" onClose={onClose} foot={
      <>
        <Curl what="Send the message again" request={{ method: "POST", path, params }} />
        <Button look="primary" disabled={query.data?.status === "pending"} onClick={resend}>Send again</Button>
      </>
    }>
      <Loaded query={query}>{(m) => (
        <div class="stack">
          <dl class="facts">
            <dt>Status</dt><dd><Status of={m.status} /></dd>
            <dt>Id</dt><dd><code>{m.id}</code> <Copy text={m.id} label="Copy the message’s id" /></dd>
            <dt>Event</dt><dd>{m.event}</dd>
            <dt>Created</dt><dd>{exactTime(m.createdAt)}</dd>
            <dt>Attempts</dt><dd>{m.attempts}</dd>
            <dt>Response</dt><dd><Answer of={m} /></dd>
            {m.deliveredAt && <><dt>Delivered</dt><dd>{exactTime(m.deliveredAt)}</dd></>}
            {m.status === "pending" && m.nextAttemptAt && <><dt>Next attempt</dt><dd><Time at={m.nextAttemptAt} /></dd></>}
          </dl>
          {m.payload !== undefined && <Snippet label="the payload" text={JSON.stringify(m.payload, null, 2)} />}
        </div>
      )}</Loaded>
    </Dialog>
  );
}
