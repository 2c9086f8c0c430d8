// The form of a webhook: its agent and API key, the message, and the conditions.
import { useId, useState } from "preact/hooks";
import type { ApiError } from "../../api";
import type { Agent, HookSource, Key } from "../../types";
import { faultOf, Select, TextField } from "../../ui/field";
import { Section } from "../../ui/parts";
import { Coalesce, Filters } from "./conditions";
import { filtersOf, newKey, type HookDraft } from "./draft";
import { Message, sampleOf, type Typed } from "./message";
import { sources, sourceIds, usualHeader } from "./sources";
import { pathsOf } from "./template";

export interface FormProps {
  draft: HookDraft;
  set: (part: Partial<HookDraft>) => void;
  error: ApiError | undefined;
  agents: Agent[];
  keys: Key[];
  /** A received payload, if there is one. Otherwise the source's example is the sample. */
  sample?: Typed | undefined;
  /** Whether to offer a new key. */
  fresh?: boolean;
}

/** Returns the example of a source as a sample. */
const exampleOf = (source: HookSource): Typed => ({ event: sources[source].example.event, text: JSON.stringify(sources[source].example.payload, null, 2) });

export function HookForm(props: FormProps) {
  const { draft, set, error } = props;
  const [own, setOwn] = useState<Typed>();
  const typed = own ?? props.sample ?? exampleOf(draft.source);
  const sample = sampleOf(typed);
  return (
    <>
      <Section title="Agent and API key"><Who {...props} /></Section>
      <Section title="Message to the agent" intro="A text with values from the payload. The whole payload is attached as data.">
        <Message template={draft.messageTemplate} onChange={(messageTemplate) => set({ messageTemplate })} fault={faultOf(error, "messageTemplate")}
          filter={filtersOf(draft.filter)} typed={typed} onSample={setOwn} />
      </Section>
      <Section title="When to run">
        <div class="stack">
          <Filters rows={draft.filter} onChange={(filter) => set({ filter })} error={error} paths={sample ? pathsOf(sample.payload) : []} />
          <Coalesce draft={draft} set={set} error={error} />
        </div>
      </Section>
    </>
  );
}

function Who({ draft, set, error, agents, keys, fresh }: FormProps) {
  const headers = usualHeader(draft.source) !== "";
  const agentChoices = agents.map((a) => ({ value: a.id, label: a.allowedCallers.includes("system") ? a.name : `${a.name} (automations not allowed)` }));
  const keyChoices = [
    ...(fresh ? [{ value: newKey, label: "A new key for this webhook" }] : []),
    ...keys.filter((k) => k.scope === "organization").map((k) => ({ value: k.id, label: `${k.name} (…${k.lastFour})` })),
  ];
  const known = (choices: { value: string; label: string }[], value: string, gone: string) => (choices.some((c) => c.value === value) ? choices : [{ value, label: gone }, ...choices]);
  return (
    <div class="set-up-form">
      <TextField label="Name" value={draft.name} onChange={(name) => set({ name })} maxLength={120} fault={faultOf(error, "name")} hint="The webhook's runs are grouped under this name." />
      <Select label="Agent" value={draft.agentId} options={known(agentChoices, draft.agentId, "Deleted agent")} onChange={(agentId) => set({ agentId })} fault={faultOf(error, "agentId")} />
      <Select label="API key" value={draft.keyId} options={known(keyChoices, draft.keyId, "Revoked key")} onChange={(keyId) => set({ keyId })} fault={faultOf(error, "keyId")}
        hint="An API key of the organization. If it is revoked, the webhook stops within five seconds." />
      {headers && (
        <>
          <TextField label={draft.source === "token" ? "Header with the token" : "Header with the signature"} mono value={draft.signatureHeader} onChange={(signatureHeader) => set({ signatureHeader })} fault={faultOf(error, "signatureHeader")} />
          <TextField label="Header with the delivery’s id" mono value={draft.deliveryIdHeader} onChange={(deliveryIdHeader) => set({ deliveryIdHeader })} fault={faultOf(error, "deliveryIdHeader")}
            placeholder="X-Delivery-Id" hint="If empty, the body identifies the delivery." />
        </>
      )}
    </div>
  );
}

export function SourcePicker({ source, choose }: { source: HookSource; choose: (source: HookSource) => void }) {
  const id = useId();
  return (
    <fieldset class="plain">
      <legend class="visually-hidden">Sender</legend>
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
