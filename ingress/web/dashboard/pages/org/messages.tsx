// The messages to a notification endpoint, both sent and pending.
import { useState } from "preact/hooks";
import { get, post } from "../../api";
import { useLive } from "../../live";
import { useList, useQuery } from "../../query";
import * as texts from "../../texts/org";
import { Words } from "../../texts/org";
import { wordFor } from "../../texts/values";
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
        {messages.length === 0 ? <p class="small quiet">{Words.noMessagesYetSend}</p> : (
          <Table caption={texts.messagesToUrl(endpoint.url)} rows={messages} id={(m) => m.id} columns={[
            { head: Words.event, cell: (m) => <Button look="bare" label={texts.eventMessageId(wordFor(texts.events, m.event), m.id)} onClick={() => setShown(m)}>{wordFor(texts.events, m.event)}</Button> },
            { head: Words.status, tight: true, cell: (m) => <Status of={m.status} /> },
            { head: Words.attempts, end: true, tight: true, cell: (m) => m.attempts },
            { head: Words.response, cell: (m) => <Answer of={m} /> },
            { head: Words.created, tight: true, cell: (m) => <Time at={m.createdAt} /> },
          ]} />
        )}
        <div class="row"><More list={list} /><Curl what={Words.listTheMessages} request={{ method: "GET", path, params }} /></div>
        {shown && <One id={shown.id} onClose={() => setShown(undefined)} onSent={list.reload} />}
      </div>
    )}</Loaded>
  );
}

function Answer({ of: m }: { of: Notification }) {
  if (m.error) return <span>{m.error}</span>;
  return m.responseStatus === null ? <span class="quiet">{Words.noneYet}</span> : <code>{m.responseStatus}</code>;
}

function One({ id, onClose, onSent }: { id: string; onClose: () => void; onSent: () => void }) {
  const query = useQuery(`notification ${id}`, (signal) => get<Notification>(path, { id }, signal));
  useLive("notifications", query.reload);
  const params = { id, action: "resend" };
  const resend = async () => {
    await post(path, undefined, params);
    toast(Words.messageIsBeingSent);
    onSent();
    onClose();
  };
  return (
    <Dialog side title={Words.message} onClose={onClose} foot={
      <>
        <Curl what={Words.sendMessageAgain} request={{ method: "POST", path, params }} />
        <Button look="primary" disabled={query.data?.status === "pending"} onClick={resend}>{Words.sendAgain}</Button>
      </>
    }>
      <Loaded query={query}>{(m) => (
        <div class="stack">
          <dl class="facts">
            <dt>{Words.status}</dt><dd><Status of={m.status} /></dd>
            <dt>{Words.id}</dt><dd><code>{m.id}</code> <Copy text={m.id} label={Words.copyMessagesId} /></dd>
            <dt>{Words.event}</dt><dd>{wordFor(texts.events, m.event)} <code>{m.event}</code></dd>
            <dt>{Words.created}</dt><dd>{exactTime(m.createdAt)}</dd>
            <dt>{Words.attempts}</dt><dd>{m.attempts}</dd>
            <dt>{Words.response}</dt><dd><Answer of={m} /></dd>
            {m.deliveredAt && <><dt>{Words.delivered}</dt><dd>{exactTime(m.deliveredAt)}</dd></>}
            {m.status === "pending" && m.nextAttemptAt && <><dt>{Words.nextAttempt}</dt><dd><Time at={m.nextAttemptAt} /></dd></>}
          </dl>
          {m.payload !== undefined && <Snippet label={Words.thePayload} text={JSON.stringify(m.payload, null, 2)} />}
        </div>
      )}</Loaded>
    </Dialog>
  );
}
