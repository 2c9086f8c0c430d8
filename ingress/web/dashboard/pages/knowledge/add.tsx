// The dialog that adds a document from typed text or from a URL.
import { useState } from "preact/hooks";
import { post, type ApiError } from "../../api";
import type { Document } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { Dialog } from "../../ui/dialog";
import { Select, TextArea, TextField, faultOf } from "../../ui/field";
import { Problem } from "../../ui/parts";
import { toast } from "../../ui/toast";

type Way = "text" | "address";

export function AddDialog({ onClose, onAdded }: { onClose: () => void; onAdded: () => void }) {
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
      toast(`${made.name} is being processed.`);
      onAdded();
    } catch (fault) {
      setError(fault as ApiError);
    }
  };
  return (
    <Dialog title="Add a document" onClose={onClose} foot={
      <>
        <Curl what="Add a document" request={{ method: "POST", path: "/api/knowledge", body }} />
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" onClick={add}>Add document</Button>
      </>
    }>
      <div class="stack">
        <Select label="Source" value={way} onChange={setWay} options={[{ value: "text", label: "Text, typed or pasted here" }, { value: "address", label: "A URL to fetch" }]} />
        <TextField label={way === "text" ? "Name" : "Name (optional)"} value={name} onChange={setName} placeholder="opening-hours.md" maxLength={255} fault={faultOf(error, "name")} />
        {way === "text"
          ? <TextArea label="Text" hint="Markdown keeps its headings and tables." rows={8} value={text} onChange={setText} fault={faultOf(error, "content")} />
          : <TextField label="URL" type="url" hint="A public URL that begins with https:// or http://. It is fetched once." value={url} onChange={setUrl} fault={faultOf(error, "url")} />}
        {error && error.errors.length === 0 && <Problem error={error} />}
      </div>
    </Dialog>
  );
}
