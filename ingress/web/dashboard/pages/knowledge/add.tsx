// The dialog that adds a document from typed text or from a URL.
import { useState } from "preact/hooks";
import { post, type ApiError } from "../../api";
import * as texts from "../../texts/knowledge";
import { Words } from "../../texts/knowledge";
import type { Document } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { Dialog } from "../../ui/dialog";
import { Select, TextArea, TextField, fieldFault } from "../../ui/field";
import { Problem } from "../../ui/parts";
import { toast } from "../../ui/toast";

type Way = "text" | "address";

export function AddDialog({ onClose, onAdded }: { onClose: () => void; onAdded: (added: Document) => void }) {
  const [way, setWay] = useState<Way>("text");
  const [name, setName] = useState("");
  const [text, setText] = useState("");
  const [url, setUrl] = useState("");
  const [error, setError] = useState<ApiError>();
  const named = name.trim() === "" ? {} : { name: name.trim() };
  const body = way === "text" ? { name: name.trim(), content: text } : { ...named, url: url.trim() };
  const add = async () => {
    try {
      const made = await post<Document>("/api/knowledge", body);
      toast(texts.nameIsBeingProcessed(made.name));
      onAdded(made);
    } catch (fault) {
      setError(fault as ApiError);
    }
  };
  return (
    <Dialog title={Words.addADocument} onClose={onClose} foot={
      <>
        <Curl what={Words.addADocument} request={{ method: "POST", path: "/api/knowledge", body }} />
        <Button onClick={onClose}>{Words.cancel}</Button>
        <Button look="primary" onClick={add}>{Words.addDocument}</Button>
      </>
    }>
      <div class="stack">
        <Select label={Words.source} value={way} onChange={setWay} options={[{ value: "text", label: Words.textTypedOrPasted }, { value: "address", label: Words.urlToFetch }]} />
        <TextField label={way === "text" ? Words.name : Words.nameOptional} value={name} onChange={setName} placeholder={Words.openingHoursMd} maxLength={255} fault={fieldFault(error, "name")} />
        {way === "text"
          ? <TextArea label={Words.text} hint={Words.markdownKeepsItsHeadings} rows={8} value={text} onChange={setText} fault={fieldFault(error, "content")} />
          : <TextField label={Words.url} type="url" hint={Words.publicUrlThatBegins} value={url} onChange={setUrl} fault={fieldFault(error, "url")} />}
        {error && error.errors.length === 0 && <Problem error={error} />}
      </div>
    </Dialog>
  );
}
