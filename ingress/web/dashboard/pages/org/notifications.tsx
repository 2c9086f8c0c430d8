// Notifications: endpoints that receive the organization's events.
import { useState } from "preact/hooks";
import { del, get, post, put } from "../../api";
import { useLive } from "../../live";
import { useOverview } from "../../overview";
import { useList, useQuery } from "../../query";
import type { Agent, NotificationEndpoint } from "../../types";
import { Button } from "../../ui/button";
import { Snippet } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Confirm } from "../../ui/confirm";
import { Dialog } from "../../ui/dialog";
import { Empty, Loaded, many, Section, Status, Time } from "../../ui/parts";
import { toast } from "../../ui/toast";
import { EditEndpoint } from "./endpoint";
import { Messages } from "./messages";

const path = "/api/notifications";

export function useEndpoints(shown: boolean) {
  const list = useList<NotificationEndpoint>(shown ? path : null, { limit: 100 });
  useLive("notifications", list.reload);
  return list;
}

type Endpoints = ReturnType<typeof useEndpoints>;

/** On the other tabs, shows that the service has disabled an endpoint. */
export function DisabledNote() {
  const off = (useOverview().data?.notifications ?? []).filter((e) => e.disabledReason !== null);
  if (off.length === 0) return null;
  return (
    <div class="note warn above-tabs" role="status">
      <p><strong>{off.length === 1 ? `The notification endpoint ${off[0]?.description || off[0]?.url} was disabled.` : `${off.length} notification endpoints were disabled.`}</strong> {off.length === 1 ? "It gets" : "They get"} no messages. <a href="/dashboard/org/notifications">See why</a></p>
    </div>
  );
}

export function NotificationsSection({ endpoints }: { endpoints: Endpoints }) {
  const [editing, setEditing] = useState<NotificationEndpoint | "new" | null>(null);
  const [made, setMade] = useState<NotificationEndpoint>();
  const add = () => setEditing("new");
  return (
    <Section title="Notifications" intro="Parley notifies your services of events. Messages are signed according to Standard Webhooks, and resent if a delivery fails."
      actions={<><Curl what="List the endpoints" request={{ method: "GET", path }} /><Button look="primary" icon="plus" onClick={add}>New endpoint</Button></>}>
      <Loaded query={endpoints} room="12rem">{(list) => list.length === 0 ? (
        <Empty title="No endpoints yet" action={<Button onClick={add}>Create an endpoint</Button>}>
          An endpoint is a URL of your service. It gets a POST request when a run finishes or waits for a person, or when a document is ready, so that your service need not poll. Each message has a signature, and an id that stays the same on retries.
        </Empty>
      ) : (
        <ul class="endpoints">{list.map((e) => <Entry key={e.id} endpoint={e} reload={endpoints.reload} edit={() => setEditing(e)} onMade={setMade} />)}</ul>
      )}</Loaded>
      {editing !== null && (
        <EditEndpoint endpoint={editing === "new" ? null : editing} onClose={() => setEditing(null)} onSaved={(saved) => {
          if (editing === "new") setMade(saved);
          setEditing(null);
          endpoints.reload();
        }} />
      )}
      {made && (
        <Dialog firm title="Copy this secret now" onClose={() => setMade(undefined)} foot={<Button look="primary" onClick={() => setMade(undefined)}>I have saved it</Button>}>
          <div class="stack">
            <p>Your service uses it to verify that messages come from Parley. It is not shown again.</p>
            <Snippet label="the secret" text={made.secret} />
          </div>
        </Dialog>
      )}
    </Section>
  );
}

function Entry({ endpoint: e, reload, edit, onMade }: { endpoint: NotificationEndpoint; reload: () => void; edit: () => void; onMade: (e: NotificationEndpoint) => void }) {
  const [open, setOpen] = useState(false);
  return (
    <li class="stack tight">
      <div class="row between">
        <div class="endpoint">
          <h3>{e.description || e.url}</h3>
          {e.description && <p class="small quiet">{e.url}</p>}
        </div>
        <Status of={e.enabled ? "enabled" : "disabled"} />
      </div>
      {!e.enabled && <Disabled endpoint={e} reload={reload} />}
      <p class="tags">{e.events.map((event) => <span class="tag" key={event}>{event}</span>)}{e.agentId && <OnlyAgent id={e.agentId} />}</p>
      <p class="small quiet">
        {e.lastSuccessAt ? <>Last delivered <Time at={e.lastSuccessAt} /></> : "Nothing delivered yet"}{e.failures > 0 && `; ${many(e.failures, "attempt")} failed${e.lastSuccessAt ? " since" : ""}`}.
        {e.previousSecretUntil && <> Also signed with the previous secret, which expires <Time at={e.previousSecretUntil} />.</>}
      </p>
      <Actions endpoint={e} reload={reload} edit={edit} onMade={onMade} open={open} onOpen={() => setOpen(!open)} />
      {open && <Messages endpoint={e} />}
    </li>
  );
}

/** Names the agent that an endpoint is limited to. */
function OnlyAgent({ id }: { id: string }) {
  const agent = useQuery<Agent>("agent " + id, (signal) => get("/api/agents", { id }, signal));
  return <a class="tag" href={"/dashboard/agents/" + encodeURIComponent(id)}>Only {agent.data?.name ?? id}</a>;
}

function Disabled({ endpoint: e, reload }: { endpoint: NotificationEndpoint; reload: () => void }) {
  const request = { method: "PUT", path, params: { id: e.id }, body: { enabled: true } };
  const enable = async () => {
    await put(path, request.body, request.params);
    toast("Endpoint enabled. Waiting messages are being sent.");
    reload();
  };
  return (
    <div class="note warn">
      <p>
        <strong>{e.disabledReason === null ? "This endpoint is disabled." : "The service disabled this endpoint."}</strong>{" "}
        {e.disabledReason} {e.disabledAt && <span class="small">(<Time at={e.disabledAt} />)</span>}
      </p>
      <div class="actions">
        <Button look="primary" label={`Enable again: ${e.url}`} onClick={enable}>Enable again</Button>
        <Curl what="Enable the endpoint" request={request} />
      </div>
    </div>
  );
}

function Actions({ endpoint: e, reload, edit, onMade, open, onOpen }: {
  endpoint: NotificationEndpoint; reload: () => void; edit: () => void; onMade: (e: NotificationEndpoint) => void; open: boolean; onOpen: () => void;
}) {
  const params = { id: e.id };
  const ask = (action: string) => ({ method: "POST", path, params: { ...params, action } });
  const test = async () => {
    await post(path, undefined, { ...params, action: "test" });
    toast("Test sent. See Messages for the result.");
    reload();
  };
  const rotate = () => post<NotificationEndpoint>(path, undefined, { ...params, action: "rotate" }).then((made) => {
    onMade(made);
    reload();
  });
  const disable = () => put(path, { enabled: false }, params).then(reload);
  const remove = () => del(path, params).then(() => {
    toast("The endpoint is deleted.");
    reload();
  });
  return (
    <div class="actions">
      <Button look="bare" icon="down" expanded={open} label={`Messages to ${e.url}`} onClick={onOpen}>Messages</Button>
      <Button look="bare" icon="send" label={`Send a test to ${e.url}`} onClick={test}>Send a test</Button>
      <Curl what={`Send a test to ${e.url}`} request={ask("test")} />
      <Button look="bare" icon="edit" label={`Edit ${e.url}`} onClick={edit}>Edit</Button>
      <Confirm look="bare" action="Rotate the secret" label={`Rotate the secret of ${e.url}`} request={ask("rotate")} question={`Rotate the secret of ${e.description || e.url}?`} detail="A new secret is generated and shown once. For a day, messages are signed with both secrets." onConfirm={rotate} />
      {e.enabled && <Confirm look="bare" action="Disable" label={`Disable ${e.url}`} request={{ method: "PUT", path, params, body: { enabled: false } }} question={`Disable ${e.description || e.url}?`} detail="Nothing is sent to it until you enable it again." onConfirm={disable} />}
      <Confirm look="remove" action="Delete" label={`Delete ${e.url}`} request={{ method: "DELETE", path, params }} question={`Delete ${e.description || e.url}?`} detail="Messages that have not been sent yet are discarded." onConfirm={remove} />
    </div>
  );
}
