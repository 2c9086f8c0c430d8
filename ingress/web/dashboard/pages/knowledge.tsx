// The page of the organization's documents: upload, search, view and delete.
import { useState } from "preact/hooks";
import { useLive } from "../live";
import { useList } from "../query";
import { setQuery } from "../router";
import { useMay } from "../state";
import type { Document } from "../types";
import { Button } from "../ui/button";
import { Curl } from "../ui/curl";
import { Empty, Loaded, More, PageHeader, Time, count, size } from "../ui/parts";
import { Table } from "../ui/table";
import { AddDialog } from "./knowledge/add";
import { passageInUrl, type CitedPassage } from "./knowledge/contents";
import { DocumentDialog } from "./knowledge/document";
import { Search } from "./knowledge/search";
import { Standing } from "./knowledge/standing";
import { DropZone, UploadButton, Uploads, useDocuments } from "./knowledge/uploads";

export function KnowledgePage() {
  const may = useMay("admin");
  const documents = useList<Document>("/api/knowledge", { limit: 50 });
  useLive("documents", documents.reload);
  const uploads = useDocuments(documents.reload);
  const [shown, setShown] = useState<Shown | null>(shownInUrl);
  const [adding, setAdding] = useState(false);
  const close = () => {
    setShown(null);
    if (location.search !== "") setQuery({ id: null, page: null, chunk: null }); // a reload must not open it again
  };
  return (
    <>
      <PageHeader guide="knowledge" title="Knowledge" actions={may && (
        <>
          <Curl what="Upload a document" request={{ method: "POST", path: "/api/knowledge", file: "handbook.pdf" }} />
          <Button onClick={() => setAdding(true)}>Add text or a URL</Button>
          <UploadButton onFiles={uploads.add} />
        </>
      )}>
        Documents that agents search. Answers cite the page and the exact words.{may && " Drop files anywhere on this page to add them."}
      </PageHeader>
      <DropZone enabled={may} onFiles={uploads.add}>
        <div class="stack loose">
          <Loaded query={documents}>{(list) => list.length === 0 ? (
            <Empty title="No documents yet" action={may && <UploadButton onFiles={uploads.add} />}>
              {may ? "Upload PDF, Word, PowerPoint, Excel, EPUB, HTML, Markdown, text, CSV or JSON, up to 20 MiB each. " : "Admins of the organization add documents. "}
              Once a document is ready, every agent with the knowledge tool can search and cite it.
            </Empty>
          ) : (
            <>
              <Search onShow={(id, passage) => setShown({ id, passage })} />
              <section class="stack" aria-label="Documents">
                <Documents list={list} onShow={(id) => setShown({ id })} />
                <More list={documents} />
              </section>
            </>
          )}</Loaded>
          <Uploads list={uploads.list} onRemove={uploads.remove} onRetry={uploads.retry} />
        </div>
      </DropZone>
      {shown !== null && <DocumentDialog {...shown} onClose={close} onChange={documents.reload} />}
      {adding && <AddDialog onClose={() => setAdding(false)} onAdded={() => { setAdding(false); documents.reload(); }} />}
    </>
  );
}

/** The document whose dialog is open, and the passage in it to show. */
interface Shown {
  id: string;
  passage?: CitedPassage;
}

function shownInUrl(): Shown | null {
  const id = new URLSearchParams(location.search).get("id");
  return id === null ? null : { id, passage: passageInUrl() };
}

function Documents({ list, onShow }: { list: Document[]; onShow: (id: string) => void }) {
  return (
    <Table caption="Documents" rows={list} id={(d) => d.id} columns={[
      { head: "Name", cell: (d) => <button type="button" class="name-button" onClick={() => onShow(d.id)}>{d.name}</button> },
      { head: "Status", cell: (d) => <Standing of={d} /> },
      { head: "Size", end: true, tight: true, cell: (d) => (d.bytes === 0 ? "–" : size(d.bytes)) },
      { head: "Pages", end: true, tight: true, cell: (d) => (d.pages === null ? "–" : count(d.pages)) },
      { head: "Passages", end: true, tight: true, cell: (d) => count(d.chunks) },
      { head: "Added", tight: true, cell: (d) => <Time at={d.createdAt} /> },
    ]} />
  );
}
