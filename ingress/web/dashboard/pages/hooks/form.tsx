// The form of a webhook: its agent, the message, the conditions, and settings that few people change.
import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import type { ApiError } from "../../api";
import * as texts from "../../texts/hooks";
import { Words } from "../../texts/hooks";
import type { Agent, HookSource, Key } from "../../types";
import { fieldFault, Select, TextField } from "../../ui/field";
import { Section } from "../../ui/parts";
import { SchemaEditor } from "../../ui/schema";
import { Coalesce, Filters } from "./conditions";
import { parseFilters, newKey, type HookDraft } from "./draft";
import { Message, parseSample, type Typed } from "./message";
import { sources, sourceIds, usualHeader } from "./sources";
import { findPaths } from "./template";

export interface FormProps {
  draft: HookDraft;
  set: (part: Partial<HookDraft>) => void;
  error: ApiError | undefined;
  agents: Agent[];
  keys: Key[];
  /** The sample payload: a payload that the webhook has received, or else the source's example. */
  sample?: Typed | undefined;
  /** Whether the form offers to create a new key. */
  fresh?: boolean;
  /** The field of the secret, if it is among the settings that few people change. */
  secret?: ComponentChildren;
}

/** Returns the example of a source as a sample. */
const exampleFor = (source: HookSource): Typed => ({ event: sources[source].example.event, text: JSON.stringify(sources[source].example.payload, null, 2) });

export function HookForm(props: FormProps) {
  const { draft, set, error } = props;
  const [own, setOwn] = useState<Typed>();
  const typed = own ?? props.sample ?? exampleFor(draft.source);
  const sample = parseSample(typed);
  return (
    <>
      <Section title={Words.nameAndAgent}><Who {...props} /></Section>
      <Section title={Words.messageToAgent} intro={Words.textWithValues}>
        <Message template={draft.messageTemplate} onChange={(messageTemplate) => set({ messageTemplate })} fault={fieldFault(error, "messageTemplate")}
          filter={parseFilters(draft.filter)} typed={typed} onSample={setOwn} />
      </Section>
      <Section title={Words.whenToRun}>
        <Filters rows={draft.filter} onChange={(filter) => set({ filter })} error={error} paths={sample ? findPaths(sample.payload) : []} />
      </Section>
      <Rare {...props} />
    </>
  );
}

const known = (choices: { value: string; label: string }[], value: string, gone: string) => (choices.some((c) => c.value === value) ? choices : [{ value, label: gone }, ...choices]);

function Who({ draft, set, error, agents }: FormProps) {
  const closed = agents.filter((a) => !a.allowedCallers.includes("system"));
  const agentChoices = agents.map((a) => ({ value: a.id, label: a.allowedCallers.includes("system") ? a.name : texts.nameAutomationsNotAllowed(a.name) }));
  return (
    <div class="set-up-form">
      <TextField label={Words.name} value={draft.name} onChange={(name) => set({ name })} maxLength={120} fault={fieldFault(error, "name")} hint={Words.webhooksRunsAreGrouped} />
      <Select label={Words.agent} value={draft.agentId} options={known(agentChoices, draft.agentId, Words.deletedAgent)} onChange={(agentId) => set({ agentId })} fault={fieldFault(error, "agentId")}
        hint={closed.length > 0 && texts.automationsMayNotRunThese(closed.map((a, i) => <>{i > 0 && ", "}<a href={`/dashboard/agents/${a.id}/settings`}>{a.name}</a></>))} />
      {usualHeader(draft.source) !== "" && (
        <TextField label={draft.source === "token" ? Words.headerWithToken : Words.headerWithSignature} mono value={draft.signatureHeader} onChange={(signatureHeader) => set({ signatureHeader })} fault={fieldFault(error, "signatureHeader")} />
      )}
    </div>
  );
}

/** The settings that few people change. They are folded unless one of them was changed. */
function Rare({ draft, set, error, agents, keys, fresh, secret }: FormProps) {
  const [changed] = useState(draft.outputSchema !== "" || draft.coalesces || draft.deliveryIdHeader !== "");
  const keyChoices = [
    ...(fresh ? [{ value: newKey, label: Words.newKeyForThisWebhook }] : []),
    ...keys.filter((k) => k.scope === "organization").map((k) => ({ value: k.id, label: `${k.name} (…${k.lastFour})` })),
  ];
  return (
    <details class="sheet fold" open={changed}>
      <summary>{secret ? Words.keySecretAnswers : Words.keyAnswers}</summary>
      <div class="stack">
        <div class="set-up-form">
          <Select label={Words.apiKey} value={draft.keyId} options={known(keyChoices, draft.keyId, Words.revokedKey)} onChange={(keyId) => set({ keyId })} fault={fieldFault(error, "keyId")}
            hint={Words.apiKeyOfOrganization} />
          {usualHeader(draft.source) !== "" && (
            <TextField label={Words.headerWithDeliverysId} mono value={draft.deliveryIdHeader} onChange={(deliveryIdHeader) => set({ deliveryIdHeader })} fault={fieldFault(error, "deliveryIdHeader")}
              placeholder={Words.xDeliveryId} hint={Words.ifEmptyBodyIdentifies} />
          )}
          {secret}
        </div>
        <SchemaEditor value={draft.outputSchema} onChange={(outputSchema) => set({ outputSchema })} fault={fieldFault(error, "outputSchema")} hint={Words.answersMatchIt}
          agent={agents.find((a) => a.id === draft.agentId)} />
        <Coalesce draft={draft} set={set} error={error} />
      </div>
    </details>
  );
}

export function SourcePicker({ source, choose }: { source: HookSource; choose: (source: HookSource) => void }) {
  const id = useId();
  return (
    <fieldset class="plain">
      <legend class="visually-hidden">{Words.sender}</legend>
      <div class="sources">
        {sourceIds.map((s) => (
          <div class="beginning" key={s}>
            <input id={id + s} type="radio" name={id} checked={s === source} onChange={() => choose(s)} aria-describedby={`${id + s}-what`} />
            <label for={id + s}>{sources[s].title}</label>
            <span class="hint" id={`${id + s}-what`}>{sources[s].what}</span>
          </div>
        ))}
      </div>
    </fieldset>
  );
}
