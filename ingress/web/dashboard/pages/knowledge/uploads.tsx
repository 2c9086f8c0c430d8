// The uploads of documents: two at a time, each with its progress.
import type { ComponentChildren } from "preact";
import { useStay } from "../../router";
import * as texts from "../../texts/knowledge";
import { Words } from "../../texts/knowledge";
import type { Document } from "../../types";
import { Button } from "../../ui/button";
import { Icon } from "../../ui/icon";
import { size } from "../../ui/parts";
import { FilePicker, useDrop, useUploads, type Upload } from "../../ui/uploads";

/**
 * Returns the page's uploads, and the functions that start, retry and remove them. onSent receives
 * each document that was uploaded.
 */
export function useDocuments(onSent: (added: Document) => void) {
  const uploads = useUploads<Document>("/api/knowledge", {}, 2, (id, added) => {
    setTimeout(() => uploads.remove(id), 1500);
    onSent(added);
  });
  useStay(uploads.list.some((u) => u.state === "waiting" || u.state === "sending"));
  return uploads;
}

export function UploadButton({ onFiles }: { onFiles: (files: File[]) => void }) {
  return <FilePicker look="primary" icon="upload" words={Words.filesToUpload} onFiles={onFiles}>{Words.uploadFiles}</FilePicker>;
}

/** While mounted, accepts files that are dropped anywhere on the page. */
export function DropZone({ enabled, onFiles, children }: { enabled: boolean; onFiles: (files: File[]) => void; children: ComponentChildren }) {
  const over = useDrop(enabled, onFiles);
  return (
    <div class="drop-zone">
      {children}
      {over && <div class="drop-hint" aria-hidden="true"><Icon name="upload" />{Words.dropFilesToUpload}</div>}
    </div>
  );
}

/**
 * Lists the uploads at the bottom of the window and at the end of the page, so that nothing else
 * moves when an upload appears or disappears.
 */
export function Uploads({ list, onRemove, onRetry }: { list: Upload<Document>[]; onRemove: (id: number) => void; onRetry: (id: number) => void }) {
  if (list.length === 0) return null;
  return (
    <section class="sheet uploads-box" aria-label={Words.uploads}>
      <ul class="uploads">
        {list.map((u) => (
          <li key={u.id}>
            <Icon name="file" />
            <span class="upload-name">{u.file.name}</span>
            <span class="small quiet number">{size(u.file.size)}</span>
            {u.state === "failed" ? <span class="fault" role="alert">{u.fault}</span> : (
              <progress value={u.part} max={1} aria-label={texts.uploadOfName(u.file.name)} />
            )}
            <span class="small quiet">{u.state === "sending" ? `${Math.floor(u.part * 100)} %` : u.state === "failed" ? "" : u.state}</span>
            <span class="actions">
              {u.again && <Button look="bare" onClick={() => onRetry(u.id)}>{Words.tryAgain}</Button>}
              <Button look="bare" icon="close" label={`${u.state === "sending" ? Words.stop : Words.dismiss}: ${u.file.name}`} onClick={() => onRemove(u.id)} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
