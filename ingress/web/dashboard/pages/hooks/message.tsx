// The editor of a webhook's message template, with a sample payload and a preview.
import { useId, useRef } from "preact/hooks";
import type { HookFilter } from "../../types";
import { Button } from "../../ui/button";
import { saidOf, TextArea, TextField } from "../../ui/field";
import { passes, pathsOf, piecesOf, type Sample } from "./template";

const special = ["@event", "@deliveryId", "@payload"];

/** The sample as typed. The text may be invalid JSON. */
export interface Typed {
  event: string;
  text: string;
}

export function sampleOf({ event, text }: Typed): Sample | null {
  try {
    return { event, deliveryId: "delivery-1", payload: JSON.parse(text) as unknown };
  } catch {
    return null;
  }
}

export function Message({ template, onChange, fault, filter, typed, onSample }: {
  template: string; onChange: (template: string) => void; fault: string | undefined; filter: HookFilter[]; typed: Typed; onSample: (typed: Typed) => void;
}) {
  const area = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  const sample = sampleOf(typed);
  const insert = (path: string) => {
    const at = area.current?.selectionStart ?? template.length;
    const to = area.current?.selectionEnd ?? at;
    const words = `{{${path}}}`;
    onChange(template.slice(0, at) + words + template.slice(to));
    requestAnimationFrame(() => {
      area.current?.focus();
      area.current?.setSelectionRange(at + words.length, at + words.length);
    });
  };
  return (
    <div class="message-editor">
      <div class="stack">
        <div class="field">
          <label for={id}>Message</label>
          <textarea ref={area} id={id} class="input" rows={8} maxLength={32_000} value={template} aria-invalid={fault ? "true" : undefined}
            aria-describedby={id + "-hint" + (fault ? ` ${id}-fault` : "")} onInput={(e) => onChange(e.currentTarget.value)} />
          <div class="hint" id={id + "-hint"}>
            <code>{"{{a.b.0.c}}"}</code> is replaced by the payload’s value at that path, or by nothing if there is none. A message may have up to 2 MiB.
          </div>
          {fault && <div class="fault" id={id + "-fault"}>{saidOf("Message", fault)}</div>}
        </div>
        <SampleFields typed={typed} onSample={onSample} />
      </div>
      <div class="stack">
        {sample && <Fields sample={sample} insert={insert} />}
        {sample ? <Preview template={template} filter={filter} sample={sample} /> : <p class="note">No preview, because the sample is not valid JSON.</p>}
      </div>
    </div>
  );
}

function SampleFields({ typed, onSample }: { typed: Typed; onSample: (typed: Typed) => void }) {
  return (
    <details class="fold">
      <summary>Sample payload</summary>
      <div class="stack tight">
        <TextField label="Sample event" value={typed.event} onChange={(event) => onSample({ ...typed, event })} hint="The sender’s name for the event, used for @event." />
        <TextArea label="Sample JSON" mono rows={8} value={typed.text} onChange={(text) => onSample({ ...typed, text })} hint="Paste your own payload. It is not saved." 
          fault={sampleOf(typed) ? undefined : "is not valid JSON"} />
      </div>
    </details>
  );
}

function Fields({ sample, insert }: { sample: Sample; insert: (path: string) => void }) {
  const id = useId();
  return (
    <div>
      <h3 id={id} class="small">Insert a field from the sample</h3>
      <ul class="fields" aria-labelledby={id}>
        {[...pathsOf(sample.payload), ...special].map((path) => (
          <li key={path}><Button look="bare" label={`Insert ${path}`} onClick={() => insert(path)}><code>{path}</code></Button></li>
        ))}
      </ul>
    </div>
  );
}

function Preview({ template, filter, sample }: { template: string; filter: HookFilter[]; sample: Sample }) {
  const id = useId();
  return (
    <section aria-labelledby={id} class="stack tight">
      <h3 id={id} class="small">Preview with the sample</h3>
      <p class="preview">
        {piecesOf(template, sample).map((piece, i) => piece.path === undefined ? <span key={i}>{piece.text}</span>
          : piece.text === "" ? <span key={i} class="nothing" title={piece.path}>empty</span> : <mark key={i} title={piece.path}>{piece.text}</mark>)}
      </p>
      <p class="small quiet">
        {passes(filter, sample) ? "A delivery like this starts a run." : "A delivery like this is filtered out and starts no run."}{" "}
        Text between ⟦ and ⟧ comes from the sender. The agent treats it as data, not as instructions.
      </p>
    </section>
  );
}
