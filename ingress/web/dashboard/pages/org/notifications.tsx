// Notifications: endpoints that receive the organization's events.
import { useState } from "preact/hooks";
import { del, get, post, put } from "../../api";
import { useLive } from "../../live";
import { useOverview } from "../../overview";
import { useList, useQuery } from "../../query";
import * as texts from "../../texts/org";
import { Words } from "../../texts/org";
import type { Agent, NotificationEndpoint } from "../../types";
import { Button } from "../../ui/button";
import { Snippet } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Confirm } from "../../ui/confirm";
import { Dialog } from "../../ui/dialog";
import { Empty, Loaded, Section, Status, Time } from "../../ui/parts";
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
      <p>{texts.noMessagesSeeWhy(off.length === 1 ? texts.notificationEndpointWasDisabled(off[0]?.description || off[0]?.url) : texts.notificationEndpointsWereDisabled(off.length), off.length === 1 ? Words.itGets : Words.theyGet)}</p>
    </div>
  );
}

export function NotificationsSection({ endpoints }: { endpoints: Endpoints }) {
  const [editing, setEditing] = useState<NotificationEndpoint | "new" | null>(null);
  const [made, setMade] = useState<NotificationEndpoint>();
  const add = () => setEditing("new");
  return (
    <Section title={Words.notifications} intro={Words.parleyNotifiesYourServices}
      actions={<><Curl what={Words.listTheEndpoints} request={{ method: "GET", path }} /><Button look="primary" icon="plus" onClick={add}>{Words.newEndpoint}</Button></>}>
      <Loaded query={endpoints} room="12rem">{(list) => list.length === 0 ? (
        <Empty title={Words.noEndpointsYet}>
          {Words.endpointIsUrl}
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
        <Dialog firm title={Words.copyThisSecretNow} onClose={() => setMade(undefined)} foot={<Button look="primary" onClick={() => setMade(undefined)}>{Words.iHaveSavedIt}</Button>}>
          <div class="stack">
            <p>{Words.yourServiceUses}</p>
            <Snippet label={Words.theSecret} text={made.secret} />
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
        {e.lastSuccessAt ? <>{texts.lastDeliveredTime(<Time at={e.lastSuccessAt} />)}</> : Words.nothingDeliveredYet}{e.failures > 0 && texts.attemptsFailedPart(e.failures, e.lastSuccessAt ? Words.sincePart : "")}.
        {e.previousSecretUntil && <>{" "}{texts.alsoSignedWithPrevious(<Time at={e.previousSecretUntil} />)}</>}
      </p>
      <Actions endpoint={e} reload={reload} edit={edit} onMade={onMade} open={open} onOpen={() => setOpen(!open)} />
      {open && <Messages endpoint={e} />}
    </li>
  );
}

/** Shows the name of the agent to which an endpoint is limited. */
function OnlyAgent({ id }: { id: string }) {
  const agent = useQuery<Agent>("agent " + id, (signal) => get("/api/agents", { id }, signal));
  return <a class="tag" href={"/dashboard/agents/" + encodeURIComponent(id)}>{texts.onlyName(agent.data?.name ?? id)}</a>;
}

function Disabled({ endpoint: e, reload }: { endpoint: NotificationEndpoint; reload: () => void }) {
  const request = { method: "PUT", path, params: { id: e.id }, body: { enabled: true } };
  const enable = async () => {
    await put(path, request.body, request.params);
    toast(Words.endpointEnabledWaitingMessages);
    reload();
  };
  return (
    <div class="note warn">
      <p>
        <strong>{e.disabledReason === null ? Words.thisEndpointIsDisabled : Words.serviceDisabledThisEndpoint}</strong>{" "}
        {e.disabledReason} {e.disabledAt && <span class="small">(<Time at={e.disabledAt} />)</span>}
      </p>
      <div class="actions">
        <Button look="primary" label={texts.enableAgainUrl(e.url)} onClick={enable}>{Words.enableAgain}</Button>
        <Curl what={Words.enableTheEndpoint} request={request} />
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
    toast(Words.testSentSeeMessages);
    reload();
  };
  const rotate = () => post<NotificationEndpoint>(path, undefined, { ...params, action: "rotate" }).then((made) => {
    onMade(made);
    reload();
  });
  const disable = () => put(path, { enabled: false }, params).then(reload);
  const remove = () => del(path, params).then(() => {
    toast(Words.endpointIsDeleted);
    reload();
  });
  return (
    <div class="actions">
      <Button look="bare" icon="down" expanded={open} label={texts.messagesToUrl(e.url)} onClick={onOpen}>{Words.messages}</Button>
      <Button look="bare" icon="send" label={texts.sendTestTo(e.url)} onClick={test}>{Words.sendATest}</Button>
      <Curl what={texts.sendTestTo(e.url)} request={ask("test")} />
      <Button look="bare" icon="edit" label={texts.editUrl(e.url)} onClick={edit}>{Words.edit}</Button>
      <Confirm look="bare" action={Words.rotateTheSecret} label={texts.rotateSecretOf(e.url)} request={ask("rotate")} question={texts.rotateTheSecretOf(e.description || e.url)} detail={Words.newSecretIsGenerated} onConfirm={rotate} />
      {e.enabled && <Confirm look="bare" action={Words.disable} label={texts.disableUrl(e.url)} request={{ method: "PUT", path, params, body: { enabled: false } }} question={texts.disableDescription(e.description || e.url)} detail={Words.nothingIsSent} onConfirm={disable} />}
      <Confirm look="remove" action={Words.deleteIt} label={texts.deleteUrl(e.url)} request={{ method: "DELETE", path, params }} question={texts.deleteDescription(e.description || e.url)} detail={Words.messagesThatHaveNotBeenSent} onConfirm={remove} />
    </div>
  );
}
