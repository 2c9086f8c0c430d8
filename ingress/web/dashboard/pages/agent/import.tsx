// The dialog that imports endpoints from a service's OpenAPI document.
import { useState } from "preact/hooks";
import { ApiError, post } from "../../api";
import * as texts from "../../texts/tools";
import { Words } from "../../texts/tools";
import type { ImportedEndpoints } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { Dialog } from "../../ui/dialog";
import { TextArea, TextField, fieldFault } from "../../ui/field";
import { Problem } from "../../ui/parts";
import type { Pair } from "./draft";
import type { Editor } from "./editor";
import { Pairs } from "./pairs";

interface Asked {
  document: string;
  operations: string;
  serverUrl: string;
  headers: Pair[];
}

const maxDocumentBytes = 2 << 20;

function importBody(asked: Asked, version: number): Record<string, unknown> {
  const operations = asked.operations.split("\n").map((line) => line.trim()).filter(Boolean);
  const headers = Object.fromEntries(asked.headers.filter((h) => h.name !== "").map((h) => [h.name, h.value]));
  return {
    document: asked.document, version, ...(operations.length > 0 && { operations }), ...(asked.serverUrl !== "" && { serverUrl: asked.serverUrl }),
    ...(Object.keys(headers).length > 0 && { headers }),
  };
}

export function Import({ editor, onClose }: { editor: Editor; onClose: () => void }) {
  const [asked, setAsked] = useState<Asked>({ document: "", operations: "", serverUrl: "", headers: [] });
  const [error, setError] = useState<ApiError>();
  const [done, setDone] = useState<ImportedEndpoints>();
  const pending = editor.changed.some((f) => f.startsWith("tools.httpRequest."));
  const body = importBody(asked, editor.agent.version);

  const send = async () => {
    setError(undefined);
    try {
      const result = await post<ImportedEndpoints>("/api/agents", body, { id: editor.agent.id, action: "import-openapi" });
      editor.adopt(result.agent);
      setDone(result);
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      setError(cause);
    }
  };

  if (done) return <Outcome done={done} onClose={onClose} />;
  return (
    <Dialog title={Words.importFromOpenapi} onClose={onClose} foot={
      <>
        <Curl what={Words.importEndpoints} request={{ method: "POST", path: "/api/agents", params: { id: editor.agent.id, action: "import-openapi" }, body }} />
        <Button onClick={onClose}>{Words.cancel}</Button>
        <Button look="primary" disabled={asked.document.trim() === "" || pending} onClick={send}>{Words.importWord}</Button>
      </>
    }>
      <div class="stack">
        {pending && <p class="note warn">{Words.endpointsHaveUnsavedChanges}</p>}
        {error && <Problem error={error} />}
        <ImportForm asked={asked} set={(part) => setAsked((before) => ({ ...before, ...part }))} error={error} />
      </div>
    </Dialog>
  );
}

function ImportForm({ asked, set, error }: { asked: Asked; set: (part: Partial<Asked>) => void; error: ApiError | undefined }) {
  const [refused, setRefused] = useState("");
  const read = async (file: File | undefined) => {
    if (!file) return;
    if (file.size > maxDocumentBytes) {
      setRefused(Words.fileIsLarger);
      return;
    }
    setRefused("");
    set({ document: await file.text() });
  };
  return (
    <>
      <TextArea label={Words.document} mono rows={8} value={asked.document} onChange={(document) => set({ document })} fault={fieldFault(error, "document")} hint={Words.openapi30} />
      <input type="file" aria-label={Words.openapiFile} accept=".json,.yaml,.yml,application/json,application/yaml" onChange={(e) => void read(e.currentTarget.files?.[0])} />
      {refused && <p class="fault" role="alert">{refused}</p>}
      <TextArea label={Words.operations} mono rows={3} value={asked.operations} onChange={(operations) => set({ operations })} fault={fieldFault(error, "operations")}
        hint={Words.oneOperationPerLine} />
      <TextField label={Words.server} mono value={asked.serverUrl} placeholder="https://tickets.example.com/v1" onChange={(serverUrl) => set({ serverUrl: serverUrl.trim() })} fault={fieldFault(error, "serverUrl")}
        hint={Words.servicesBaseUrl} />
      <Pairs legend={Words.headers} hint={Words.sentWithEveryImported} rows={asked.headers}
        onChange={(headers) => set({ headers })} fault={(field) => error?.errors.find((e) => e.field === field)?.message} at="headers" nameLabel={Words.header} add={Words.addAHeader} />
    </>
  );
}

function Outcome({ done, onClose }: { done: ImportedEndpoints; onClose: () => void }) {
  return (
    <Dialog title={done.imported.length === 0 ? Words.nothingWasImported : texts.importedImported(done.imported.length)} onClose={onClose} foot={<Button look="primary" onClick={onClose}>{Words.done}</Button>}>
      <div class="stack">
        {done.imported.length > 0 && (
          <>
            <p>{Words.endpointsAreSaved}</p>
            <ul class="chips">{done.imported.map((name) => <li key={name} class="chip"><code>{name}</code></li>)}</ul>
          </>
        )}
        {done.skipped.length > 0 && (
          <>
            <h3>{Words.skipped}</h3>
            <ul class="skipped">{done.skipped.map((s) => <li key={s.operation}><code>{s.operation}</code> <span class="quiet">{s.reason}</span></li>)}</ul>
          </>
        )}
      </div>
    </Dialog>
  );
}
