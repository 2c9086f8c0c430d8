// The form of a notification endpoint.
import { useState } from "preact/hooks";
import { post, put, type ApiError } from "../../api";
import { useList } from "../../query";
import * as texts from "../../texts/org";
import { Words } from "../../texts/org";
import { wordFor } from "../../texts/values";
import type { Agent, NotificationEndpoint, NotificationEvent } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { Dialog } from "../../ui/dialog";
import { Check, Select, TextField, fieldFault, faultSentence } from "../../ui/field";
import { Problem } from "../../ui/parts";

const events: NotificationEvent[] = ["run.completed", "run.failed", "run.requires_action", "knowledge.ready", "knowledge.failed"];

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
  const choices = [{ value: "", label: Words.allAgents }, ...(agents.data ?? []).map((a) => ({ value: a.id, label: a.name }))];
  const wrong = fieldFault(error, "events");
  return (
    <Dialog title={e ? Words.editTheEndpoint : Words.newEndpoint} onClose={onClose} foot={
      <>
        <Curl what={e ? Words.changeTheEndpoint : Words.createTheEndpoint} request={{ method: e ? "PUT" : "POST", path: "/api/notifications", params, body }} />
        <Button onClick={onClose}>{Words.cancel}</Button>
        <Button look="primary" onClick={save}>{e ? Words.save : Words.createEndpoint}</Button>
      </>
    }>
      <div class="stack">
        <TextField label={Words.url} type="url" value={url} onChange={setUrl} placeholder="https://example.com/parley" fault={fieldFault(error, "url")} hint={Words.publicHttpsUrl} />
        <TextField label={Words.description} value={description} onChange={setDescription} maxLength={200} fault={fieldFault(error, "description")} hint={Words.optionalShownOnlyHere} />
        <fieldset class="plain stack tighter">
          <legend class="label">{Words.notifyWhen}</legend>
          {events.map((event) => (
            <Check key={event} label={<>{wordFor(texts.events, event)} <code>{event}</code></>} checked={chosen.includes(event)}
              onChange={(on) => setChosen(events.filter((x) => (x === event ? on : chosen.includes(x))))} />
          ))}
          {wrong && <p class="fault">{faultSentence(Words.theEvents, wrong)}</p>}
        </fieldset>
        <Select label={Words.runsOf} value={agentId} options={choices} onChange={setAgent} fault={fieldFault(error, "agentId")} />
        {error && error.errors.length === 0 && <Problem error={error} />}
      </div>
    </Dialog>
  );
}
