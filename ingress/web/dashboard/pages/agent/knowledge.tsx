// The settings of the documents that an agent searches.
import { useId, useState } from "preact/hooks";
import { get } from "../../api";
import { useList, useQuery } from "../../query";
import * as texts from "../../texts/agent";
import { Words } from "../../texts/agent";
import type { Document } from "../../types";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { Check, faultSentence, TextField } from "../../ui/field";
import { Loaded, More, Status } from "../../ui/parts";
import type { Editor } from "./editor";
import { Pairs } from "./pairs";

export function Knowledge({ editor }: { editor: Editor }) {
  const { draft, set, fault } = editor;
  const name = useId();
  const ids = draft["tools.knowledge.documentIds"];
  const metadata = draft["tools.knowledge.metadata"];
  const wrong = fault("tools.knowledge.documentIds") ?? (ids?.length === 0 ? Words.chooseAtLeast : undefined);
  return (
    <>
      <fieldset class="stack plain tight">
        <legend class="label">{Words.whichDocuments}</legend>
        <Radio name={name} label={Words.allDocuments} hint={Words.includingDocumentsAddedLater} checked={ids === null} onChoose={() => set("tools.knowledge.documentIds", null)} />
        <Radio name={name} label={Words.chosenDocuments} checked={ids !== null} onChoose={() => set("tools.knowledge.documentIds", ids ?? [])} />
        {ids !== null && <Chosen ids={ids} onChange={(chosen) => set("tools.knowledge.documentIds", chosen)} />}
        {wrong && <p class="fault">{faultSentence(Words.theChoice, wrong)}</p>}
      </fieldset>
      <Pairs legend={Words.onlyDocumentsWithThisMetadata} hint={Words.documentMustMatch} rows={metadata} at="tools.knowledge.metadata"
        onChange={(rows) => set("tools.knowledge.metadata", rows)} fault={fault} nameLabel={Words.name} add={Words.addMetadata} />
    </>
  );
}

function Radio({ name, label, hint, checked, onChoose }: { name: string; label: string; hint?: string; checked: boolean; onChoose: () => void }) {
  const id = useId();
  return (
    <div class="check">
      <input id={id} type="radio" name={name} checked={checked} onChange={onChoose} />
      <label for={id}>{label} {hint && <span class="hint">{hint}</span>}</label>
    </div>
  );
}

const maxShown = 8;

function Chosen({ ids, onChange }: { ids: string[]; onChange: (ids: string[]) => void }) {
  const [choosing, setChoosing] = useState(false);
  const first = ids.slice(0, maxShown);
  return (
    <div class="chosen">
      {first.length > 0 && (
        <ul class="chips" aria-label={Words.chosenDocuments}>
          {first.map((id) => <Chip key={id} id={id} remove={() => onChange(ids.filter((other) => other !== id))} />)}
          {ids.length > maxShown && <li class="chip quiet">{texts.andIdsMore(ids.length - maxShown)}</li>}
        </ul>
      )}
      <div><Button onClick={() => setChoosing(true)}>{Words.chooseDocuments}</Button></div>
      {choosing && <Picker ids={ids} onChange={onChange} onClose={() => setChoosing(false)} />}
    </div>
  );
}

function Chip({ id, remove }: { id: string; remove: () => void }) {
  const found = useQuery<Document>("document " + id, (signal) => get("/api/knowledge", { id }, signal));
  const name = found.data?.name ?? (found.error?.status === 404 ? Words.deletedDocument : id);
  return (
    <li class="chip">
      <span title={id}>{name}</span>
      <Button look="bare" icon="close" label={texts.removeName(name)} onClick={remove} />
    </li>
  );
}

function Picker({ ids, onChange, onClose }: { ids: string[]; onChange: (ids: string[]) => void; onClose: () => void }) {
  const list = useList<Document>("/api/knowledge", { limit: 100 });
  const [text, setText] = useState("");
  const fits = (d: Document) => d.name.toLowerCase().includes(text.trim().toLowerCase());
  const toggle = (id: string, on: boolean) => onChange(on ? [...ids, id] : ids.filter((other) => other !== id));
  return (
    <Dialog kept title={Words.chooseDocuments} onClose={onClose} foot={<><span class="quiet grow">{texts.idsChosen(ids.length)}</span><Button look="primary" onClick={onClose}>{Words.done}</Button></>}>
      <div class="stack">
        <TextField label={Words.filterByName} type="search" value={text} onChange={setText} />
        <Loaded query={list}>
          {(documents) => documents.length === 0
            ? <p class="quiet">{texts.noDocumentsYetAdd()}</p>
            : (
              <ul class="picks" aria-label={Words.documents}>
                {documents.filter(fits).map((d) => (
                  <li key={d.id}>
                    <Check checked={ids.includes(d.id)} onChange={(on) => toggle(d.id, on)} label={d.name} />
                    {d.status !== "ready" && <Status of={d.status} />}
                  </li>
                ))}
                {!documents.some(fits) && <li class="quiet">{list.hasMore ? Words.noDocumentNameSoFar : Words.noDocumentNameContains}</li>}
              </ul>
            )}
        </Loaded>
        <More list={list} />
      </div>
    </Dialog>
  );
}
