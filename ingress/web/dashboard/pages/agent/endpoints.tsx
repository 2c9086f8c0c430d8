// The settings of an agent's HTTP endpoints.
import { useState } from "preact/hooks";
import type { SideEffect } from "../../types";
import { Button } from "../../ui/button";
import { saidOf, Select, TextArea, TextField, type Choice } from "../../ui/field";
import { Icon } from "../../ui/icon";
import { hidden, jsonFault, newEndpoint, type EndpointDraft } from "./draft";
import type { Editor } from "./editor";
import { Import } from "./import";
import { Pairs } from "./pairs";
import { random, Secret } from "./secret";

const most = 32;
const methods: readonly Choice<string>[] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"].map((m) => ({ value: m, label: m }));

export const effects: readonly Choice<SideEffect>[] = [
  { value: "none", label: "None" },
  { value: "idempotent", label: "Idempotent" },
  { value: "unsafe", label: "Unsafe" },
];

export const effectMeanings: Record<SideEffect, string> = {
  none: "Repeating a call has no further effect. A failed call is retried.",
  idempotent: "Repeating a call with the same Idempotency-Key has no further effect. A failed call is retried with that key.",
  unsafe: "Repeating a call repeats its effect. Parley sends each call at most once; if the outcome is unknown, a person decides.",
};

export function Endpoints({ editor }: { editor: Editor }) {
  const field = "tools.httpRequest.endpoints";
  const entries = editor.draft[field];
  const [importing, setImporting] = useState(false);
  const [opened, setOpened] = useState<number | null>(null);
  const change = (list: EndpointDraft[]) => {
    if (list.length !== entries.length) editor.clearFaults(); // errors refer to positions in the list
    editor.set(field, list);
  };
  const add = () => {
    const entry = newEndpoint();
    setOpened(entry.key);
    change([...entries, entry]);
  };
  return (
    <div class="stack tight">
      {entries.length === 0 && <p class="quiet">No endpoints yet. Add one, or import the endpoints of an OpenAPI document.</p>}
      <ul class="entries" aria-label="HTTP endpoints">
        {entries.map((e, i) => (
          <li key={e.key}>
            <Entry editor={editor} entry={e} at={`${field}[${i}]`} open={e.key === opened} change={(next) => change(entries.with(i, next))} remove={() => change(entries.toSpliced(i, 1))} />
          </li>
        ))}
      </ul>
      {editor.fault(field) && <p class="fault">{saidOf("The list", editor.fault(field) ?? "")}</p>}
      <div class="row">
        {entries.length < most && <Button icon="plus" onClick={add}>Add an endpoint</Button>}
        <Button icon="upload" onClick={() => setImporting(true)}>Import from OpenAPI</Button>
        <span class="hint number">{entries.length} of {most}</span>
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
        <span class="entry-name">{entry.name || "New endpoint"}</span>
        <span class="entry-url">{entry.url}</span>
        {wrong && <span class="status bad">needs correction</span>}
      </summary>
      <EntryFields editor={editor} entry={entry} at={at} change={change} />
      <div class="entry-foot"><Button look="bare" icon="trash" onClick={remove}>Remove this endpoint</Button></div>
    </details>
  );
}

function EntryFields({ editor, entry: e, at, change }: Omit<EntryProps, "open" | "remove">) {
  const fault = (name: string) => editor.fault(`${at}.${name}`);
  const set = (part: Partial<EndpointDraft>) => change({ ...e, ...part });
  return (
    <div class="entry-body">
      <div class="columns">
        <TextField label="Name" mono value={e.name} required maxLength={64} onChange={(name) => set({ name })} fault={fault("name")} hint="The tool's name for the model: letters, digits, _ and -." />
        <Select label="Method" value={e.method} options={methods} onChange={(method) => set({ method })} fault={fault("method")} />
      </div>
      <TextField label="URL" mono value={e.url} required placeholder="https://shop.example/orders/{id}" onChange={(url) => set({ url })} fault={fault("url")}
        hint="{name} in the path or query is replaced by an argument. The host is fixed." />
      <TextArea label="Description" rows={2} value={e.description} maxLength={1000} onChange={(description) => set({ description })} fault={fault("description")} hint="Explains to the model when to call the endpoint." />
      <Select label="Side effect" value={e.sideEffect} options={effects} onChange={(sideEffect) => set({ sideEffect })} fault={fault("sideEffect")} hint={effectMeanings[e.sideEffect]} />
      <Pairs legend="Headers" hint="Sent with each call, for example a credential. Values are encrypted, and shown as *** once saved. Type to replace a value." rows={e.headers} secret
        onChange={(headers) => set({ headers })} fault={editor.fault} at={`${at}.headers`} nameLabel="Header" add="Add a header" />
      <Schema text={e.inputSchema} fault={schemaFault(editor, `${at}.inputSchema`)} onChange={(inputSchema) => set({ inputSchema })} />
      <Secret label="Signing secret" value={e.signingSecret} saved={e.signingSecret === hidden || wasSigned(editor, e.name)} fault={fault("signingSecret")} generate={() => "whsec_" + random(32, "base64")}
        onChange={(signingSecret) => set({ signingSecret })} hint="Signs the requests according to Standard Webhooks: whsec_ and base64." />
    </div>
  );
}

const wasSigned = (editor: Editor, name: string): boolean => editor.base["tools.httpRequest.endpoints"].some((e) => e.name === name && e.signingSecret !== "");

/** Returns the error of a schema, or of a part of it. */
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
      <TextArea label="Arguments" mono rows={4} value={text} placeholder={sample} onChange={onChange} fault={fault}
        hint="A JSON Schema of the arguments. If empty, each variable in the URL is a required string." />
      {text.trim() !== "" && <div><Button look="bare" onClick={tidy} disabled={jsonFault(text) !== ""}>Format JSON</Button></div>}
    </div>
  );
}
