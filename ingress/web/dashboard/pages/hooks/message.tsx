// The editor of a webhook's message template, with a sample payload and a preview.
import { useId, useRef } from "preact/hooks";
import { useNarrow } from "../../narrow";
import * as texts from "../../texts/hooks";
import { Words } from "../../texts/hooks";
import type { HookFilter } from "../../types";
import { Button } from "../../ui/button";
import { faultSentence, TextArea, TextField } from "../../ui/field";
import { passes, findPaths, renderPieces, type Sample } from "./template";

const special = ["@event", "@deliveryId", "@payload"];

/** The sample as typed. The text may be invalid JSON. */
export interface Typed {
  event: string;
  text: string;
}

export function parseSample({ event, text }: Typed): Sample | null {
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
  const sample = parseSample(typed);
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
          <label for={id}>{Words.message}</label>
          <textarea ref={area} id={id} class="input" rows={8} maxLength={32_000} value={template} aria-invalid={fault ? "true" : undefined}
            aria-describedby={id + "-hint" + (fault ? ` ${id}-fault` : "")} onInput={(e) => onChange(e.currentTarget.value)} />
          <div class="hint" id={id + "-hint"}>
            {texts.pathsAreReplaced()}
          </div>
          {fault && <div class="fault" id={id + "-fault"}>{faultSentence(Words.message, fault)}</div>}
        </div>
        <SampleFields typed={typed} onSample={onSample} />
      </div>
      <div class="stack">
        {sample && <Fields sample={sample} insert={insert} />}
        {sample ? <Preview template={template} filter={filter} sample={sample} /> : <p class="note">{Words.noPreviewBecauseSample}</p>}
      </div>
    </div>
  );
}

function SampleFields({ typed, onSample }: { typed: Typed; onSample: (typed: Typed) => void }) {
  return (
    <details class="fold">
      <summary>{Words.samplePayload}</summary>
      <div class="stack tight">
        <TextField label={Words.sampleEvent} value={typed.event} onChange={(event) => onSample({ ...typed, event })} hint={Words.sendersNameForEvent} />
        <TextArea label={Words.sampleJson} mono rows={8} value={typed.text} onChange={(text) => onSample({ ...typed, text })} hint={Words.pasteYourOwnPayload} 
          fault={parseSample(typed) ? undefined : Words.isNotValidJson} />
      </div>
    </details>
  );
}

function Fields({ sample, insert }: { sample: Sample; insert: (path: string) => void }) {
  const id = useId();
  return (
    <details class="fold" open={!useNarrow()}>
      <summary id={id}>{Words.insertFieldFromSample}</summary>
      <ul class="fields" aria-labelledby={id}>
        {[...findPaths(sample.payload), ...special].map((path) => (
          <li key={path}><Button look="bare" label={texts.insertPath(path)} onClick={() => insert(path)}><code>{path}</code></Button></li>
        ))}
      </ul>
    </details>
  );
}

function Preview({ template, filter, sample }: { template: string; filter: HookFilter[]; sample: Sample }) {
  const id = useId();
  return (
    <section aria-labelledby={id} class="stack tight">
      <h3 id={id} class="small">{Words.previewWithSample}</h3>
      <p class="preview">
        {renderPieces(template, sample).map((piece, i) => piece.path === undefined ? <span key={i}>{piece.text}</span>
          : piece.text === "" ? <span key={i} class="nothing" title={piece.path}>{Words.empty}</span> : <mark key={i} title={piece.path}>{piece.text}</mark>)}
      </p>
      <p class="small quiet">
        {texts.textBetweenAndComes(passes(filter, sample) ? Words.deliveryLikeThisStarts : Words.deliveryLikeThisIsFiltered)}
      </p>
    </section>
  );
}
