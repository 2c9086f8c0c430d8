// The dialog of a document: its state, its text, and its actions.
import { useRef, useState } from "preact/hooks";
import { ApiError, del, get, post, put } from "../../api";
import { download, upload } from "../../files";
import { useLive } from "../../live";
import { useQuery } from "../../query";
import { useMay } from "../../state";
import * as texts from "../../texts/knowledge";
import { Words } from "../../texts/knowledge";
import type { Document } from "../../types";
import { Button } from "../../ui/button";
import { Copy } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Confirm } from "../../ui/confirm";
import { Dialog } from "../../ui/dialog";
import { TextArea, TextField, fieldFault } from "../../ui/field";
import { Loaded, Problem, Time, size } from "../../ui/parts";
import { toast } from "../../ui/toast";
import { AskInDialog } from "./ask";
import { Contents, type CitedPassage } from "./contents";
import { DocumentStatus } from "./status";

/** The dialog of a document. If a passage is given, the dialog first shows that passage. */
export function DocumentDialog({ id, passage, linked, onClose, onChange }: { id: string; passage?: CitedPassage; linked?: boolean; onClose: () => void; onChange: () => void }) {
  const document = useQuery(id, (signal) => get<Document>("/api/knowledge", { id }, signal));
  const deleting = useRef(false); // a document that is being deleted must not be loaded again
  useLive("documents", () => {
    if (!deleting.current) document.reload();
  });
  const changed = () => {
    document.reload();
    onChange();
  };
  return (
    <Dialog side title={document.data?.name ?? Words.document} linked={linked} onClose={onClose}>
      <Loaded query={document}>{(d) => (
        <div class="stack loose">
          {passage && d.status === "ready" && <Contents of={d} passage={passage} />}
          {d.status === "ready" && <AskInDialog of={d} />}
          <Facts of={d} />
          <Actions of={d} onChange={changed} deleting={deleting} onDeleted={() => { onChange(); onClose(); }} />
          <Details key={d.updatedAt} of={d} onChange={changed} />
          {!passage && d.status === "ready" && <Contents of={d} />}
        </div>
      )}</Loaded>
    </Dialog>
  );
}

const languages = new Intl.DisplayNames("en", { type: "language" });

/** Returns the name of a language, or its code if the browser does not know the code. */
function languageName(code: string): string {
  try {
    return languages.of(code) ?? code;
  } catch {
    return code; // the code is malformed
  }
}

function Facts({ of: d }: { of: Document }) {
  return (
    <div class="stack">
      <div><DocumentStatus of={d} /></div>
      {d.notes.length > 0 && <ul class="notes">{d.notes.map((note) => <li key={note}>{note}</li>)}</ul>}
      <dl class="facts">
        <dt>{Words.id}</dt><dd class="row"><code>{d.id}</code><Copy text={d.id} label={Words.copyDocumentsId} /></dd>
        <dt>{Words.kind}</dt><dd>{d.mimeType || Words.unknown}{d.bytes > 0 && `, ${size(d.bytes)}`}</dd>
        {d.url !== null && <><dt>{Words.from}</dt><dd>{d.url}</dd></>}
        <dt>{Words.contents}</dt><dd>{d.pages !== null && `${texts.pagesLower(d.pages)}, `}{texts.passagesLower(d.chunks)}{d.language && texts.inLanguage(languageName(d.language))}</dd>
        <dt>{Words.added}</dt><dd><Time at={d.createdAt} /></dd>
      </dl>
    </div>
  );
}

function Actions({ of: d, deleting, onChange, onDeleted }: { of: Document; deleting: { current: boolean }; onChange: () => void; onDeleted: () => void }) {
  const may = useMay("admin");
  const input = useRef<HTMLInputElement>(null);
  const [sending, setSending] = useState<number | null>(null);
  const replace = async (file: File | undefined) => {
    if (!file) return;
    setSending(0);
    try {
      await upload<Document>("PUT", "/api/knowledge", { id: d.id }, file, setSending, new AbortController().signal);
      toast(Words.newContentIsBeingProcessed);
      onChange();
    } catch (fault) {
      toast(fault instanceof ApiError ? fault.detail : Words.couldntSendFileTry, "bad");
    } finally {
      setSending(null);
    }
  };
  const retry = () => post("/api/knowledge", undefined, { id: d.id, action: "retry" }).then(onChange);
  const remove = () => {
    deleting.current = true;
    return del("/api/knowledge", { id: d.id }).then(() => {
      toast(texts.nameIsDeleted(d.name));
      onDeleted();
    }).finally(() => {
      deleting.current = false;
    });
  };
  return (
    <div class="stack">
      <div class="actions">
        <Button onClick={() => download("/api/knowledge", { id: d.id, content: 1 }, d.name)} disabled={d.bytes === 0}>{Words.download}</Button>
        {may && <Button onClick={() => input.current?.click()} disabled={sending !== null}>{Words.replace}</Button>}
        {may && (d.status === "failed" || d.status === "ready") && <Button onClick={retry}>{d.status === "failed" ? Words.tryAgain : Words.processAgain}</Button>}
        {may && <Confirm action={Words.deleteIt} question={texts.deleteName(d.name)} onConfirm={remove} detail={
          <div class="stack">
            <p>{Words.documentAndItsPassages}</p>
            <p>{Words.inEachSessionFirst}</p>
          </div>
        } />}
      </div>
      <Curl what={Words.downloadThisDocument} request={{ method: "GET", path: "/api/knowledge", params: { id: d.id, content: 1 } }} />
      {may && <Curl what={Words.replaceThisDocument} request={{ method: "PUT", path: "/api/knowledge", params: { id: d.id }, file: d.name }} />}
      {may && <Curl what={Words.processThisDocumentAgain} request={{ method: "POST", path: "/api/knowledge", params: { id: d.id, action: "retry" } }} />}
      {may && <Curl what={Words.deleteThisDocument} request={{ method: "DELETE", path: "/api/knowledge", params: { id: d.id } }} />}
      {sending !== null && <progress value={sending} max={1} aria-label={Words.uploadOfNewContent} />}
      <input ref={input} type="file" hidden aria-label={texts.newContentOfName(d.name)} onChange={(e) => { void replace(e.currentTarget.files?.[0]); e.currentTarget.value = ""; }} />
    </div>
  );
}

const asLines = (metadata: Record<string, string>): string => Object.entries(metadata).map(([k, v]) => `${k}: ${v}`).join("\n");

function fromLines(text: string): Record<string, string> {
  const pairs = text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const at = line.indexOf(":");
    return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  });
  return Object.fromEntries(pairs) as Record<string, string>;
}

function Details({ of: d, onChange }: { of: Document; onChange: () => void }) {
  const may = useMay("admin");
  const [name, setName] = useState(d.name);
  const [lines, setLines] = useState(asLines(d.metadata));
  const [error, setError] = useState<ApiError>();
  const body = { name, metadata: fromLines(lines) };
  const save = () => put<Document>("/api/knowledge", body, { id: d.id }).then(() => {
    setError(undefined);
    toast(Words.saved);
    onChange();
  }, (fault: ApiError) => setError(fault));
  if (!may) {
    return Object.keys(d.metadata).length === 0 ? null : <dl class="facts">{Object.entries(d.metadata).map(([k, v]) => <><dt>{k}</dt><dd>{v}</dd></>)}</dl>;
  }
  return (
    <details class="fold">
      <summary>{Words.nameAndMetadata}</summary>
      <div class="stack">
        <TextField label={Words.name} value={name} onChange={setName} maxLength={255} hint={Words.changingNameProcessesDocument} fault={fieldFault(error, "name")} />
        <TextArea label={Words.metadata} rows={3} value={lines} onChange={setLines} hint={Words.onePairPerLine} fault={fieldFault(error, "metadata")} />
        {error && error.errors.length === 0 && <Problem error={error} />}
        <div class="actions">
          <Button look="primary" onClick={save}>{Words.save}</Button>
          <Curl what={Words.changeThisDocument} request={{ method: "PUT", path: "/api/knowledge", params: { id: d.id }, body }} />
        </div>
      </div>
    </details>
  );
}
