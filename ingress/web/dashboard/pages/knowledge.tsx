// The page of the organization's documents: upload, search, view and delete.
import { useEffect, useState } from "preact/hooks";
import "../shared";
import { useLive } from "../live";
import { useList } from "../query";
import { setQuery, useRoute } from "../router";
import { OfferSamples } from "../samples";
import { useMay } from "../state";
import * as texts from "../texts/knowledge";
import { Words } from "../texts/knowledge";
import type { Document } from "../types";
import { Button } from "../ui/button";
import { Curl } from "../ui/curl";
import { Empty, Loaded, More, PageHeader, Time, count, size } from "../ui/parts";
import { Table } from "../ui/table";
import { AddDialog } from "./knowledge/add";
import { AskInRow } from "./knowledge/ask";
import { passageInUrl, type CitedPassage } from "./knowledge/contents";
import { DocumentDialog } from "./knowledge/document";
import { Search } from "./knowledge/search";
import { DocumentStatus } from "./knowledge/status";
import { DropZone, UploadButton, Uploads, useDocuments } from "./knowledge/uploads";

export function KnowledgePage() {
  const may = useMay("admin");
  const documents = useList<Document>("/api/knowledge", { limit: 50 });
  useLive("documents", documents.reload);
  const [added, setAdded] = useState<string[]>([]); // the ids of the documents that were added on this page
  const noteAdded = ({ id }: Document) => {
    setAdded((before) => [...before, id]);
    documents.reload();
  };
  const uploads = useDocuments(noteAdded);
  const [shown, setShown] = useState<Shown | null>(shownInUrl);
  const [adding, setAdding] = useState(false);
  const named = useRoute().query.toString();
  useEffect(() => { // the finder may change the document in the URL while this page is shown
    const next = shownInUrl();
    setShown((before) => next ?? (before?.linked ? null : before));
  }, [named]);
  const close = () => {
    setShown(null);
    if (location.search !== "") setQuery({ id: null, page: null, chunk: null }); // a reload must not open the document again
  };
  return (
    <>
      <PageHeader guide="knowledge" title={Words.knowledge} actions={may && (
        <>
          <Curl what={Words.uploadADocument} request={{ method: "POST", path: "/api/knowledge", file: "handbook.pdf" }} />
          <Button onClick={() => setAdding(true)}>{Words.addTextOrUrl}</Button>
          <UploadButton onFiles={uploads.add} />
        </>
      )}>
        {texts.documentsThatAgentsSearchAnswers(may && Words.dropFilesAnywhere)}
      </PageHeader>
      <DropZone enabled={may} onFiles={uploads.add}>
        <div class="stack loose">
          <Loaded query={documents}>{(list) => list.length === 0 ? (
            <Empty title={Words.noDocumentsYet} action={may && <OfferSamples onAdded={documents.reload} />}>
              {texts.onceDocumentIsReady(may ? Words.uploadPdfWordPowerpoint : Words.adminsOfOrganizationAdd)}
            </Empty>
          ) : (
            <>
              <Search onShow={(id, passage) => setShown({ id, passage })} />
              <section class="stack" aria-label={Words.documents}>
                <Documents list={list} added={added} onShow={(id) => setShown({ id })} />
                <More list={documents} />
              </section>
            </>
          )}</Loaded>
          <Uploads list={uploads.list} onRemove={uploads.remove} onRetry={uploads.retry} />
        </div>
      </DropZone>
      {shown !== null && <DocumentDialog key={shown.id} {...shown} onClose={close} onChange={documents.reload} />}
      {adding && <AddDialog onClose={() => setAdding(false)} onAdded={(document) => { setAdding(false); noteAdded(document); }} />}
    </>
  );
}

/** The document whose dialog is open, and the passage in it to show. */
interface Shown {
  id: string;
  passage?: CitedPassage;
  /** Whether the URL names the document. */
  linked?: boolean;
}

function shownInUrl(): Shown | null {
  const id = new URLSearchParams(location.search).get("id");
  return id === null ? null : { id, passage: passageInUrl(), linked: true };
}

/** The list of documents. The row of each added document offers to ask an agent about the document. */
function Documents({ list, added, onShow }: { list: Document[]; added: string[]; onShow: (id: string) => void }) {
  return (
    <Table caption={Words.documents} rows={list} id={(d) => d.id} columns={[
      { head: Words.name, cell: (d) => <button type="button" class="name-button" onClick={() => onShow(d.id)}>{d.name}</button> },
      { head: Words.status, cell: (d) => <div class="document-status"><DocumentStatus of={d} />{d.status === "ready" && d.notes[0] && <span class="small quiet">{d.notes[0]}</span>}{d.status === "ready" && added.includes(d.id) && <div><AskInRow of={d} /></div>}</div> },
      { head: Words.size, end: true, tight: true, cell: (d) => d.bytes > 0 && size(d.bytes) },
      { head: Words.pages, end: true, tight: true, cell: (d) => d.pages !== null && count(d.pages) },
      { head: Words.passages, end: true, tight: true, cell: (d) => count(d.chunks) },
      { head: Words.added, tight: true, cell: (d) => <Time at={d.createdAt} /> },
    ]} />
  );
}
