import { useId, useState } from "preact/hooks";
import { ApiError, post } from "../../api";
import { go } from "../../router";
import { useSampleSwitch } from "../../samples";
import * as texts from "../../texts/templates";
import { Words } from "../../texts/templates";
import type { Agent, Template } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { Dialog } from "../../ui/dialog";
import { fieldFault, TextField } from "../../ui/field";
import { Problem } from "../../ui/parts";
import { toast } from "../../ui/toast";

/** The dialog that creates an agent from a template and opens its page. */
export function CreateDialog({ template, onClose }: { template: Template; onClose: () => void }) {
  const [name, setName] = useState(template.name);
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const form = useId();
  const samples = useSampleSwitch(template.tools);
  const body = { templateId: template.id, name: name.trim() };
  const create = async () => {
    if (busy) return;
    setBusy(true);
    setError(undefined);
    try {
      const agent = await post<Agent>("/api/agents", body);
      await samples.add();
      onClose();
      go(`/dashboard/agents/${agent.id}`);
      toast(texts.nameWasCreated(agent.name));
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      setError(cause);
      setBusy(false);
    }
  };
  const fault = fieldFault(error, "name");
  return (
    <Dialog title={Words.createAnAgent} onClose={onClose} foot={
      <>
        <Curl what={Words.createThisAgent} request={{ method: "POST", path: "/api/agents", body }} />
        <Button onClick={onClose}>{Words.cancel}</Button>
        <Button look="primary" disabled={busy} onClick={create}>{Words.createAgent}</Button>
      </>
    }>
      <form id={form} class="stack" onSubmit={(e) => { e.preventDefault(); void create(); }}>
        <p class="quiet">{texts.agentStartsWithInstructions(template.name)}</p>
        <TextField label={Words.name} value={name} onChange={setName} required maxLength={120} fault={fault} />
        {samples.field}
        {error && !fault && <Problem error={error} />}
      </form>
    </Dialog>
  );
}
