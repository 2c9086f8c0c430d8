import { useId, useState } from "preact/hooks";
import { ApiError, post } from "../../api";
import { go } from "../../router";
import type { Agent, Template } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { Dialog } from "../../ui/dialog";
import { faultOf, TextField } from "../../ui/field";
import { Problem } from "../../ui/parts";
import { toast } from "../../ui/toast";

/** The dialog that creates an agent from a template and opens its page. */
export function CreateDialog({ template, onClose }: { template: Template; onClose: () => void }) {
  const [name, setName] = useState(template.name);
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const form = useId();
  const body = { templateId: template.id, name: name.trim() };
  const create = async () => {
    if (busy) return;
    setBusy(true);
    setError(undefined);
    try {
      const agent = await post<Agent>("/api/agents", body);
      onClose();
      go(`/dashboard/agents/${agent.id}`);
      toast(`${agent.name} was created.`);
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      setError(cause);
      setBusy(false);
    }
  };
  const fault = faultOf(error, "name");
  return (
    <Dialog title="Create an agent" onClose={onClose} foot={
      <>
        <Curl what="Create this agent" request={{ method: "POST", path: "/api/agents", body }} />
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" disabled={busy} onClick={create}>Create agent</Button>
      </>
    }>
      <form id={form} class="stack" onSubmit={(e) => { e.preventDefault(); void create(); }}>
        <p class="quiet">The agent starts with the instructions and tools of “{template.name}”. You can change them later.</p>
        <TextField label="Name" value={name} onChange={setName} required maxLength={120} fault={fault} />
        {error && !fault && <Problem error={error} />}
      </form>
    </Dialog>
  );
}
