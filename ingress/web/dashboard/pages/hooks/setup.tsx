// The setup of a webhook at its sender, and its secret.
import { useState } from "preact/hooks";
import { post, type ApiError } from "../../api";
import * as texts from "../../texts/hooks";
import { Words } from "../../texts/hooks";
import type { Hook } from "../../types";
import { Button } from "../../ui/button";
import { Snippet } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Dialog } from "../../ui/dialog";
import { Select, TextField, fieldFault } from "../../ui/field";
import { Problem, Section, Time } from "../../ui/parts";
import { toast } from "../../ui/toast";
import { formatCommand, sources, usualHeader } from "./sources";

export function Steps({ hook }: { hook: Hook }) {
  const { steps, note } = sources[hook.source];
  return (
    <div class="stack tight">
      <ol class="steps">{steps(hook.signatureHeader || usualHeader(hook.source)).map((s) => <li key={s}>{s}</li>)}</ol>
      <p class="small quiet">{note}</p>
    </div>
  );
}

/** Shows the values to enter at the sender, except the secret. */
export function Values({ hook }: { hook: Hook }) {
  const { url, contentType } = sources[hook.source];
  return (
    <>
      <div class="piece"><p class="small">{url}</p><Snippet label={Words.theAddress} text={hook.url} /></div>
      {contentType && <div class="piece"><p class="small">{Words.contentType}</p><Snippet label={Words.theContentType} text={contentType} /></div>}
    </>
  );
}

export function HookSetUp({ hook, reload }: { hook: Hook; reload: () => void }) {
  const [rotating, setRotating] = useState(false);
  const source = sources[hook.source];
  return (
    <div class="stack">
      <Section title={texts.atPart(source.title === "GitHub" || hook.source === "stripe" || hook.source === "slack" ? source.title : Words.theSender)}>
        <div class="stack">
          <Values hook={hook} />
          <Steps hook={hook} />
          <div class="piece">
            <p class="small">{Words.sendDeliveryFromShell}</p>
            <Snippet label={Words.commandThatSendsDelivery} text={formatCommand(hook.source, hook)} />
          </div>
        </div>
      </Section>
      <Section title={source.secret} intro={Words.verifiesSenderItWasShown}
        actions={<Button onClick={() => setRotating(true)}>{source.theirs ? Words.setTheSecret : Words.rotateTheSecret}</Button>}>
        {hook.previousSecretUntil && <p>{texts.previousSecretIsAlso(<Time at={hook.previousSecretUntil} />)}</p>}
      </Section>
      {rotating && <Rotate hook={hook} onClose={() => setRotating(false)} onDone={reload} />}
    </div>
  );
}

const keeps = [
  { value: "0", label: Words.notAtAll }, { value: "3600", label: Words.forAnHour }, { value: "86400", label: Words.forADay }, { value: "604800", label: Words.forAWeek },
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
      toast(Words.secretIsSet);
      onClose();
    }
  }, (fault: ApiError) => setError(fault));

  if (made) {
    return (
      <Dialog firm title={Words.copyThisSecretNow} onClose={onClose} foot={<Button look="primary" onClick={onClose}>{Words.iHaveSavedIt}</Button>}>
        <div class="stack">
          <p>{Words.enterItInSenders}</p>
          <Snippet label={Words.theSecret} text={made.secret} />
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title={theirs ? Words.setTheSecret : Words.rotateTheSecret} onClose={onClose} foot={
      <>
        <Curl what={Words.setTheSecret} request={{ method: "POST", path: "/api/hooks", params, body: { ...body, ...(secret !== "" && { secret: "***" }) } }} />
        <Button onClick={onClose}>{Words.cancel}</Button>
        <Button look="primary" onClick={rotate}>{secret === "" ? Words.generateNewSecret : Words.setTheSecret}</Button>
      </>
    }>
      <div class="stack">
        <TextField label={word} mono value={secret} onChange={setSecret} fault={fieldFault(error, "secret")} hint={theirs ? texts.secretThatShows(title) : Words.ifEmptySecret} />
        <Select label={Words.alsoAcceptPreviousSecret} value={keep} onChange={setKeep} options={keeps} fault={fieldFault(error, "keepSeconds")} hint={Words.deliveriesKeepWorking} />
        {error && error.errors.length === 0 && <Problem error={error} />}
      </div>
    </Dialog>
  );
}
