// The page of the organization's documents: upload, search, view and delete.
import { useState } from "preact/hooks";
import { useLive } from "../live";
import { useList } from "../query";
import { setQuery } from "../router";
import { useMay } from "../state";
import * as texts from "../texts/knowledge";
import { Words } from "../texts/knowledge";
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
import { DropZone, Uploads, useUploads } from "./knowledge/uploads";

export function KnowledgePage() {
  const may = useMay("admin");
  const documents = useList<Document>("/api/knowledge", { limit: 50 });
  useLive("documents", documents.reload);
  const uploads = useUploads(documents.reload);
  const [shown, setShown] = useState<Shown | null>(shownInUrl);
  const [adding, setAdding] = useState(false);
  const close = () => {
    setShown(null);
    if (location.search !== "") setQuery({ id: null, page: null, chunk: null }); // a reload must not open it again
  };
  return (
    <>
      <PageHeader guide="knowledge" title={Words.knowledge} actions={may && (
        <>
          <Curl what={Words.uploadADocument} request={{ method: "POST", path: "/api/knowledge", file: "handbook.pdf" }} />
          <Button onClick={() => setAdding(true)}>{Words.addTextOrUrl}</Button>
          <uploads.Picker>{Words.uploadFiles}</uploads.Picker>
        </>
      )}>
        {texts.documentsThatAgentsSearch(may && Words.dropFilesAnywhere)}
      </PageHeader>
      <DropZone enabled={may} onFiles={uploads.send}>
        <div class="stack loose">
          <Loaded query={documents}>{(list) => list.length === 0 ? (
            <Empty title={Words.noDocumentsYet} action={may && <uploads.Picker>{Words.uploadFiles}</uploads.Picker>}>
              {texts.onceDocumentIsReady(may ? Words.uploadPdfWordPowerpoint : Words.adminsOfOrganizationAdd)}
            </Empty>
          ) : (
            <>
              <Search onShow={(id, passage) => setShown({ id, passage })} />
              <section class="stack" aria-label={Words.documents}>
                <Documents list={list} onShow={(id) => setShown({ id })} />
                <More list={documents} />
              </section>
            </>
          )}</Loaded>
          <Uploads list={uploads.list} onDismiss={uploads.dismiss} onRetry={uploads.retry} />
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
    <Table caption={Words.documents} rows={list} id={(d) => d.id} columns={[
      { head: Words.name, cell: (d) => <button type="button" class="name-button" onClick={() => onShow(d.id)}>{d.name}</button> },
      { head: Words.status, cell: (d) => <Standing of={d} /> },
      { head: Words.size, end: true, tight: true, cell: (d) => (d.bytes === 0 ? "–" : size(d.bytes)) },
      { head: Words.pages, end: true, tight: true, cell: (d) => (d.pages === null ? "–" : count(d.pages)) },
      { head: Words.passages, end: true, tight: true, cell: (d) => count(d.chunks) },
      { head: Words.added, tight: true, cell: (d) => <Time at={d.createdAt} /> },
    ]} />
  );
}
