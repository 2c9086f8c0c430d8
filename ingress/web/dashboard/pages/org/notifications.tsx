// Notifications: addresses that are told what happens in the organization.
import { useState } from "preact/hooks";
import { del, post, put } from "../../api";
import { useLive } from "../../live";
import { useList } from "../../query";
import type { NotificationEndpoint } from "../../types";
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

export function useEndpoints(admin: boolean) {
  const list = useList<NotificationEndpoint>(admin ? path : null, { limit: 100 });
  useLive("notifications", list.reload);
  return list;
}

type Endpoints = ReturnType<typeof useEndpoints>;

/** Says on every tab that the service gave an address up. */
export function DisabledNote({ endpoints }: { endpoints: NotificationEndpoint[] | undefined }) {
  const off = (endpoints ?? []).filter((e) => !e.enabled && e.disabledReason !== null);
  if (off.length === 0) return null;
  return (
    <div class="note warn above-tabs" role="status">
      <p><strong>{off.length === 1 ? "An endpoint of notifications was disabled." : `${off.length} endpoints of notifications were disabled.`}</strong> What happens is not told there. <a href="/dashboard/org/notifications">See why</a></p>
    </div>
  );
}

export function NotificationsSection({ endpoints }: { endpoints: Endpoints }) {
  const [editing, setEditing] = useState<NotificationEndpoint | "new" | null>(null);
  const [made, setMade] = useState<NotificationEndpoint>();
  const add = () => setEditing("new");
  return (
    <Section title="Notifications" intro="Parley tells your services what has happened: signed by Standard Webhooks, and again until they take it."
      actions={<><Curl what="List the endpoints" request={{ method: "GET", path }} /><Button look="primary" icon="plus" onClick={add}>New endpoint</Button></>}>
      <Loaded query={endpoints} room="12rem">{(list) => list.length === 0 ? (
        <Empty title="Nobody is told yet" action={<Button onClick={add}>Make an endpoint</Button>}>
          An endpoint is an address of yours. It gets a POST when a run has ended or waits for somebody, or when a document is ready, so that nothing has to ask. Each message has an id that stays the same when it comes again, and a signature.
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
        <Dialog firm title="Keep this secret now" onClose={() => setMade(undefined)} foot={<Button look="primary" onClick={() => setMade(undefined)}>I have kept it</Button>}>
          <div class="stack">
            <p>Your service verifies with it that messages come from here. It is not shown again.</p>
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
      <p class="tags">{e.events.map((event) => <span class="tag" key={event}>{event}</span>)}{e.agentId && <span class="tag">one agent only</span>}</p>
      <p class="small quiet">
        {e.lastSuccessAt ? <>Last taken <Time at={e.lastSuccessAt} /></> : "Nothing was taken yet"}{e.failures > 0 && `; ${many(e.failures, "attempt")} failed since`}.
        {e.previousSecretUntil && <> Signed with the secret before as well, until it ends <Time at={e.previousSecretUntil} />.</>}
      </p>
      <Actions endpoint={e} reload={reload} edit={edit} onMade={onMade} open={open} onOpen={() => setOpen(!open)} />
      {open && <Messages endpoint={e} />}
    </li>
  );
}

function Disabled({ endpoint: e, reload }: { endpoint: NotificationEndpoint; reload: () => void }) {
  const request = { method: "PUT", path, params: { id: e.id }, body: { enabled: true } };
  const enable = async () => {
    await put(path, request.body, request.params);
    toast("Enabled: what waits is sent now.");
    reload();
  };
  return (
    <div class="note warn">
      <p>
        <strong>{e.disabledReason === null ? "It is disabled." : "The service disabled it."}</strong>{" "}
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
    toast("A ping is on its way: see under Messages.");
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
      <Curl words="curl" what={`Send a test to ${e.url}`} request={ask("test")} />
      <Button look="bare" icon="edit" label={`Edit ${e.url}`} onClick={edit}>Edit</Button>
      <Confirm look="bare" action="Rotate the secret" label={`Rotate the secret of ${e.url}`} request={ask("rotate")} question="Rotate the secret?" detail="A new one is made and shown once. For a day messages are signed with both." onConfirm={rotate} />
      {e.enabled && <Confirm look="bare" action="Disable" label={`Disable ${e.url}`} request={{ method: "PUT", path, params, body: { enabled: false } }} question="Disable the endpoint?" detail="Nothing is sent there until it is enabled again." onConfirm={disable} />}
      <Confirm look="bare" action="Delete" label={`Delete ${e.url}`} request={{ method: "DELETE", path, params }} question="Delete the endpoint?" detail="What has not been sent there yet is dropped." onConfirm={remove} />
    </div>
  );
}
