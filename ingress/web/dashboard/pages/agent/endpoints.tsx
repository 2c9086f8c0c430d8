// The settings of an agent's HTTP endpoints.
import { useState } from "preact/hooks";
import * as texts from "../../texts/tools";
import { Words } from "../../texts/tools";
import type { SideEffect } from "../../types";
import { Button } from "../../ui/button";
import { faultSentence, Select, TextArea, TextField, type Choice } from "../../ui/field";
import { Icon } from "../../ui/icon";
import { jsonFault } from "../../ui/json";
import { hidden, newEndpoint, type EndpointDraft } from "./draft";
import type { Editor } from "./editor";
import { Import } from "./import";
import { Pairs } from "./pairs";
import { random, Secret } from "./secret";

const maxEntries = 32;
const methods: readonly Choice<string>[] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"].map((m) => ({ value: m, label: m }));

export const effects: readonly Choice<SideEffect>[] = [
  { value: "none", label: Words.none },
  { value: "idempotent", label: Words.idempotent },
  { value: "unsafe", label: Words.unsafe },
];

export const effectMeanings: Record<SideEffect, string> = {
  none: Words.repeatingCallHasNoFurther,
  idempotent: Words.repeatingCallWithSame,
  unsafe: Words.repeatingCallRepeats,
};

export function Endpoints({ editor }: { editor: Editor }) {
  const field = "tools.httpRequest.endpoints";
  const entries = editor.draft[field];
  const [importing, setImporting] = useState(false);
  const [opened, setOpened] = useState<number | null>(null);
  const change = (list: EndpointDraft[]) => {
    if (list.length !== entries.length) editor.clearFaults(); // errors name entries by their position, which may have changed
    editor.set(field, list);
  };
  const add = () => {
    const entry = newEndpoint();
    setOpened(entry.key);
    change([...entries, entry]);
  };
  return (
    <div class="stack tight">
      {entries.length === 0 && <p class="quiet">{Words.noEndpointsYetAdd}</p>}
      <ul class="entries" aria-label={Words.httpEndpoints}>
        {entries.map((e, i) => (
          <li key={e.key}>
            <Entry editor={editor} entry={e} at={`${field}[${i}]`} open={e.key === opened} change={(next) => change(entries.with(i, next))} remove={() => change(entries.toSpliced(i, 1))} />
          </li>
        ))}
      </ul>
      {editor.fault(field) && <p class="fault">{faultSentence(Words.theList, editor.fault(field) ?? "")}</p>}
      <div class="row">
        {entries.length < maxEntries && <Button icon="plus" onClick={add}>{Words.addAnEndpoint}</Button>}
        <Button icon="upload" onClick={() => setImporting(true)}>{Words.importFromOpenapi}</Button>
        <span class="hint number">{texts.entriesOfMax(entries.length, maxEntries)}</span>
      </div>
      {importing && <Import editor={editor} onClose={() => setImporting(false)} />}
    </div>
  );
}

interface EntryProps {
  editor: Editor;
  entry: EndpointDraft;
  at: string;
  open: boolean;
  change: (entry: EndpointDraft) => void;
  remove: () => void;
}

function Entry({ editor, entry, at, open, change, remove }: EntryProps) {
  const wrong = editor.error?.errors.some((e) => e.field.startsWith(at)) ?? false;
  const [unfolded, setUnfolded] = useState(open);
  return (
    <details class={"entry" + (wrong ? " wrong" : "")} open={unfolded || wrong} onToggle={(e) => setUnfolded(e.currentTarget.open)}>
      <summary>
        <Icon name="down" />
        <span class="method">{entry.method}</span>
        <span class="entry-name">{entry.name || Words.newEndpoint}</span>
        <span class="entry-url">{entry.url}</span>
        {wrong && <span class="status bad">{Words.needsCorrection}</span>}
      </summary>
      <EntryFields editor={editor} entry={entry} at={at} change={change} />
      <div class="entry-foot"><Button look="bare" icon="trash" onClick={remove}>{Words.removeThisEndpoint}</Button></div>
    </details>
  );
}

function EntryFields({ editor, entry: e, at, change }: Omit<EntryProps, "open" | "remove">) {
  const fault = (name: string) => editor.fault(`${at}.${name}`);
  const set = (part: Partial<EndpointDraft>) => change({ ...e, ...part });
  return (
    <div class="entry-body">
      <div class="columns">
        <TextField label={Words.name} mono value={e.name} required maxLength={64} onChange={(name) => set({ name })} fault={fault("name")} hint={Words.toolsNameForModel} />
        <Select label={Words.method} value={e.method} options={methods} onChange={(method) => set({ method })} fault={fault("method")} />
      </div>
      <TextField label={Words.url} mono value={e.url} required placeholder="https://shop.example/orders/{id}" onChange={(url) => set({ url })} fault={fault("url")}
        hint={Words.nameInPath} />
      <TextArea label={Words.description} rows={2} value={e.description} maxLength={1000} onChange={(description) => set({ description })} fault={fault("description")} hint={Words.explainsToModel} />
      <Select label={Words.sideEffect} value={e.sideEffect} options={effects} onChange={(sideEffect) => set({ sideEffect })} fault={fault("sideEffect")} hint={effectMeanings[e.sideEffect]} />
      <Pairs legend={Words.headers} hint={Words.sentWithEachCall} rows={e.headers} secret
        onChange={(headers) => set({ headers })} fault={editor.fault} at={`${at}.headers`} nameLabel={Words.header} add={Words.addAHeader} />
      <Schema text={e.inputSchema} fault={schemaFault(editor, `${at}.inputSchema`)} onChange={(inputSchema) => set({ inputSchema })} />
      <Secret label={Words.signingSecret} value={e.signingSecret} saved={e.signingSecret === hidden || wasSigned(editor, e.name)} fault={fault("signingSecret")} generate={() => "whsec_" + random(32, "base64")}
        onChange={(signingSecret) => set({ signingSecret })} hint={Words.signsRequestsAccording} />
    </div>
  );
}

const wasSigned = (editor: Editor, name: string): boolean => editor.base["tools.httpRequest.endpoints"].some((e) => e.name === name && e.signingSecret !== "");

/** Returns the error of a schema, or of a field in it. */
function schemaFault(editor: Editor, at: string): string | undefined {
  const found = editor.error?.errors.find((e) => e.field === at || e.field.startsWith(at + "."));
  if (!found) return undefined;
  return found.field === at ? found.message : `${found.field.slice(at.length + 1)} ${found.message}`;
}

const sample = JSON.stringify({ type: "object", properties: { id: { type: "string" } }, required: ["id"] }, null, 2);

function Schema({ text, fault, onChange }: { text: string; fault: string | undefined; onChange: (text: string) => void }) {
  const tidy = () => {
    if (jsonFault(text) === "") onChange(JSON.stringify(JSON.parse(text), null, 2));
  };
  return (
    <div class="stack tighter">
      <TextArea label={Words.argumentsWord} mono rows={4} value={text} placeholder={sample} onChange={onChange} fault={fault}
        hint={Words.jsonSchemaOfArguments} />
      {text.trim() !== "" && <div><Button look="bare" onClick={tidy} disabled={jsonFault(text) !== ""}>{Words.formatJson}</Button></div>}
    </div>
  );
}
