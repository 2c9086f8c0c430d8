// The form of a notification endpoint.
import { useState } from "preact/hooks";
import { post, put, type ApiError } from "../../api";
import { useList } from "../../query";
import type { Agent, NotificationEndpoint, NotificationEvent } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { Dialog } from "../../ui/dialog";
import { Check, Select, TextField, faultOf, saidOf } from "../../ui/field";
import { Problem } from "../../ui/parts";

const events: { event: NotificationEvent; what: string }[] = [
  { event: "run.completed", what: "A run completed" }, { event: "run.failed", what: "A run failed or timed out" },
  { event: "run.requires_action", what: "A run is waiting for a person" }, { event: "knowledge.ready", what: "A document is ready" },
  { event: "knowledge.failed", what: "A document failed" },
];

export function EditEndpoint({ endpoint: e, onClose, onSaved }: { endpoint: NotificationEndpoint | null; onClose: () => void; onSaved: (saved: NotificationEndpoint) => void }) {
  const [url, setUrl] = useState(e?.url ?? "");
  const [description, setDescription] = useState(e?.description ?? "");
  const [chosen, setChosen] = useState<NotificationEvent[]>(e?.events ?? ["run.failed", "run.requires_action"]);
  const [agentId, setAgent] = useState(e?.agentId ?? "");
  const [error, setError] = useState<ApiError>();
  const agents = useList<Agent>("/api/agents", { limit: 100 });
  const body = { url: url.trim(), description: description.trim(), events: chosen, agentId: agentId === "" ? null : agentId };
  const params = e ? { id: e.id } : {};
  const save = () => (e ? put<NotificationEndpoint>("/api/notifications", body, params) : post<NotificationEndpoint>("/api/notifications", body)).then(onSaved, (fault: ApiError) => setError(fault));
  const choices = [{ value: "", label: "All agents" }, ...(agents.data ?? []).map((a) => ({ value: a.id, label: a.name }))];
  const wrong = faultOf(error, "events");
  return (
    <Dialog title={e ? "Edit the endpoint" : "New endpoint"} onClose={onClose} foot={
      <>
        <Curl what={e ? "Change the endpoint" : "Create the endpoint"} request={{ method: e ? "PUT" : "POST", path: "/api/notifications", params, body }} />
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" onClick={save}>{e ? "Save" : "Create endpoint"}</Button>
      </>
    }>
      <div class="stack">
        <TextField label="URL" type="url" value={url} onChange={setUrl} placeholder="https://example.com/parley" fault={faultOf(error, "url")} hint="A public https URL." />
        <TextField label="Description" value={description} onChange={setDescription} maxLength={200} fault={faultOf(error, "description")} hint="Optional. Shown only here." />
        <fieldset class="plain stack tighter">
          <legend class="label">Notify when</legend>
          {events.map(({ event, what }) => (
            <Check key={event} label={<>{what} <code>{event}</code></>} checked={chosen.includes(event)}
              onChange={(on) => setChosen(events.map((x) => x.event).filter((x) => (x === event ? on : chosen.includes(x))))} />
          ))}
          {wrong && <p class="fault">{saidOf("The events", wrong)}</p>}
        </fieldset>
        <Select label="Runs of" value={agentId} options={choices} onChange={setAgent} fault={faultOf(error, "agentId")} />
        {error && error.errors.length === 0 && <Problem error={error} />}
      </div>
    </Dialog>
  );
}
