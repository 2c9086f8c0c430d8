// The dialog that creates an agent, empty or from a template.
import { useId, useState } from "preact/hooks";
import { ApiError, post } from "../../api";
import { useList } from "../../query";
import { go } from "../../router";
import { Words } from "../../texts/agents";
import type { Agent, Template } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { Dialog } from "../../ui/dialog";
import { TextArea, TextField, faultOf } from "../../ui/field";
import { Loaded, Problem } from "../../ui/parts";

const empty = "empty";

/** The id of the template that is selected initially. Any other text selects an empty agent. */
export function NewAgent({ template, onClose }: { template: string; onClose: () => void }) {
  const [from, setFrom] = useState(template.startsWith("tpl_") ? template : empty);
  const [name, setName] = useState("");
  const [systemPrompt, setPrompt] = useState("");
  const [error, setError] = useState<ApiError>();

  const body = from === empty ? { name: name.trim(), systemPrompt } : { templateId: from, ...(name.trim() !== "" && { name: name.trim() }) };

  const create = async () => {
    setError(undefined);
    try {
      const agent = await post<Agent>("/api/agents", body);
      go(`/dashboard/agents/${agent.id}`, { replace: true }); // going back leads to the list, not to this dialog
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      setError(cause);
    }
  };

  const choose = (id: string) => {
    setFrom(id);
    setError(undefined);
  };

  const elsewhere = error?.errors.some((e) => e.field !== "name" && e.field !== "systemPrompt") || error?.errors.length === 0;
  return (
    <Dialog title={Words.newAgent} onClose={onClose} foot={
      <>
        <Curl what={Words.createTheAgent} request={{ method: "POST", path: "/api/agents", body }} />
        <Button onClick={onClose}>{Words.cancel}</Button>
        <Button look="primary" onClick={create}>{Words.createAgent}</Button>
      </>
    }>
      <div class="stack">
        <From from={from} choose={choose} />
        <TextField label={Words.name} value={name} maxLength={120} onChange={setName} fault={faultOf(error, "name")} hint={from === empty ? Words.shownToPeopleYou : Words.ifEmptyTemplatesName} />
        {from === empty && (
          <TextArea label={Words.systemPrompt} rows={6} value={systemPrompt} onChange={setPrompt} fault={faultOf(error, "systemPrompt")}
            placeholder={Words.youWriteShortReleaseNotes} hint={Words.agentsRoleHowItWorks} />
        )}
        {error && elsewhere && <Problem error={error} />}
      </div>
    </Dialog>
  );
}

function From({ from, choose }: { from: string; choose: (id: string) => void }) {
  const templates = useList<Template>("/api/agents/templates", { limit: 100 });
  const name = useId();
  return (
    <fieldset class="plain">
      <legend class="label">{Words.startFrom}</legend>
      <div class="beginnings">
        <Choice name={name} label={Words.anEmptyAgent} what={Words.youWriteInstructions} checked={from === empty} onChoose={() => choose(empty)} autofocus />
        <Loaded query={templates}>
          {(found) => found.map((t) => <Choice key={t.id} name={name} label={t.name} what={t.description} checked={from === t.id} onChoose={() => choose(t.id)} />)}
        </Loaded>
      </div>
    </fieldset>
  );
}

function Choice({ name, label, what, checked, onChoose, autofocus }: { name: string; label: string; what: string; checked: boolean; onChoose: () => void; autofocus?: boolean }) {
  const id = useId();
  return (
    <div class="beginning">
      <input id={id} type="radio" name={name} checked={checked} onChange={onChoose} aria-describedby={id + "-what"} autofocus={autofocus} />
      <label for={id}>{label}</label>
      <span class="hint" id={id + "-what"}>{what}</span>
    </div>
  );
}
