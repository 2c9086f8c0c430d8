// The setup of a webhook at its sender, and its secret.
import { useState } from "preact/hooks";
import { post, type ApiError } from "../../api";
import type { Hook, HookSource } from "../../types";
import { Button } from "../../ui/button";
import { Snippet } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Dialog } from "../../ui/dialog";
import { Select, TextField, faultOf } from "../../ui/field";
import { Problem, Section, Time } from "../../ui/parts";
import { toast } from "../../ui/toast";
import { commandOf, sources } from "./sources";

export function Steps({ source }: { source: HookSource }) {
  const { steps, note } = sources[source];
  return (
    <div class="stack tight">
      <ol class="steps">{steps.map((s) => <li key={s}>{s}</li>)}</ol>
      <p class="small quiet">{note}</p>
    </div>
  );
}

export function HookSetUp({ hook, reload }: { hook: Hook; reload: () => void }) {
  const [rotating, setRotating] = useState(false);
  const command = commandOf(hook.source, hook.url, hook.signatureHeader, hook.deliveryIdHeader);
  const source = sources[hook.source];
  return (
    <div class="stack">
      <Section title={`At ${source.title === "GitHub" || hook.source === "stripe" || hook.source === "slack" ? source.title : "the sender"}`}>
        <div class="stack">
          <div class="piece"><p class="small">Address</p><Snippet label="the address" text={hook.url} /></div>
          <Steps source={hook.source} />
          {command && (
            <div class="piece">
              <p class="small">Send a delivery from a shell, with the secret in SECRET</p>
              <Snippet label="a command that sends a delivery" text={command} />
            </div>
          )}
        </div>
      </Section>
      <Section title={source.secret} intro="Verifies the sender. It was shown once, when it was created." 
        actions={<Button onClick={() => setRotating(true)}>{source.theirs ? "Set the secret" : "Rotate the secret"}</Button>}>
        {hook.previousSecretUntil && <p>The previous secret is also accepted. It expires <Time at={hook.previousSecretUntil} />.</p>}
      </Section>
      {rotating && <Rotate hook={hook} onClose={() => setRotating(false)} onDone={reload} />}
    </div>
  );
}

const keeps = [
  { value: "0", label: "Not at all" }, { value: "3600", label: "For an hour" }, { value: "86400", label: "For a day" }, { value: "604800", label: "For a week" },
] as const;

function Rotate({ hook, onClose, onDone }: { hook: Hook; onClose: () => void; onDone: () => void }) {
  const { theirs, title, secret: word } = sources[hook.source];

  const [secret, setSecret] = useState("");
  const [keep, setKeep] = useState<(typeof keeps)[number]["value"]>("86400");
  const [error, setError] = useState<ApiError>();
  const [made, setMade] = useState<Hook>();
  const params = { id: hook.id, action: "rotate" };
  const body = { ...(secret !== "" && { secret }), keepSeconds: Number(keep) };

  const rotate = () => post<Hook>("/api/hooks", body, params).then((next) => {
    onDone();
    if (secret === "") setMade(next);
    else {
      toast("The secret is set.");
      onClose();
    }
  }, (fault: ApiError) => setError(fault));

  if (made) {
    return (
      <Dialog firm title="Copy this secret now" onClose={onClose} foot={<Button look="primary" onClick={onClose}>I have saved it</Button>}>
        <div class="stack">
          <p>Enter it in the sender's webhook settings. It is not shown again.</p>
          <Snippet label="the secret" text={made.secret} />
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title={theirs ? "Set the secret" : "Rotate the secret"} onClose={onClose} foot={
      <>
        <Curl what="Set the secret" request={{ method: "POST", path: "/api/hooks", params, body: { ...body, ...(secret !== "" && { secret: "***" }) } }} />
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" onClick={rotate}>{secret === "" ? "Generate a new secret" : "Set the secret"}</Button>
      </>
    }>
      <div class="stack">
        <TextField label={word} mono value={secret} onChange={setSecret} fault={faultOf(error, "secret")} hint={theirs ? `The secret that ${title} shows. If empty, a secret is generated.` : "If empty, a secret is generated and shown once."} />
        <Select label="Also accept the previous secret" value={keep} onChange={setKeep} options={keeps} fault={faultOf(error, "keepSeconds")} hint="Deliveries keep working until the sender has the new secret." />
        {error && error.errors.length === 0 && <Problem error={error} />}
      </div>
    </Dialog>
  );
}
