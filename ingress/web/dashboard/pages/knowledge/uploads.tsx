// File uploads: two at a time, each with its progress.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError } from "../../api";
import { upload } from "../../files";
import { useStay } from "../../router";
import * as texts from "../../texts/knowledge";
import { Words } from "../../texts/knowledge";
import type { Document } from "../../types";
import { Button } from "../../ui/button";
import { Icon } from "../../ui/icon";
import { size } from "../../ui/parts";

const atOnce = 2;
const most = 20 << 20; // maximum size of a document in bytes

export interface Upload {
  id: number;
  file: File;
  part: number; // 0 to 1
  state: "waiting" | "sending" | "sent" | "failed";
  fault?: string;
  stop: AbortController;
}

/** Returns the page's uploads, and the functions that start, retry and dismiss them. */
export function useUploads(onSent: () => void) {
  const [list, setList] = useState<Upload[]>([]);
  const work = useRef<{ next: number; all: Upload[]; sent: () => void }>({ next: 1, all: [], sent: onSent });
  work.current.sent = onSent;
  const actions = useMemo(() => {
    const update = (id: number, change: Partial<Upload>) => {
      work.current.all = work.current.all.map((u) => (u.id === id ? { ...u, ...change } : u));
      setList(work.current.all);
    };
    const begin = () => {
      const room = atOnce - work.current.all.filter((u) => u.state === "sending").length;
      for (const u of work.current.all.filter((w) => w.state === "waiting").slice(0, Math.max(0, room))) {
        update(u.id, { state: "sending" });
        upload<Document>("POST", "/api/knowledge", {}, u.file, (part) => update(u.id, { part }), u.stop.signal)
          .then(() => {
            update(u.id, { state: "sent", part: 1 });
            setTimeout(() => dismiss(u.id), 1500);
            work.current.sent();
          }, (error: ApiError) => update(u.id, { state: "failed", fault: faultOf(error) }))
          .finally(begin);
      }
    };
    const dismiss = (id: number) => {
      work.current.all.find((u) => u.id === id)?.stop.abort();
      work.current.all = work.current.all.filter((u) => u.id !== id);
      setList(work.current.all);
      begin();
    };
    const send = (files: Iterable<File>) => {
      for (const file of files) {
        const fault = file.size > most ? texts.filesSizeIsLimit(size(file.size)) : file.size === 0 ? Words.fileIsEmpty : undefined;
        work.current.all = [...work.current.all, { id: work.current.next++, file, part: 0, state: fault ? "failed" : "waiting", fault, stop: new AbortController() }];
      }
      setList(work.current.all);
      begin();
    };
    const retry = (id: number) => {
      update(id, { state: "waiting", fault: undefined, part: 0, stop: new AbortController() });
      begin();
    };
    const Picker = ({ children }: { children: ComponentChildren }) => <FilePicker onFiles={send}>{children}</FilePicker>;
    return { send, dismiss, retry, Picker };
  }, []);
  const under = list.some((u) => u.state === "waiting" || u.state === "sending");
  useStay(under);
  return { list, ...actions };
}

const faultOf = (error: ApiError): string => error.errors.map((e) => `${e.field} ${e.message}`).join("; ") || error.detail;

function FilePicker({ onFiles, children }: { onFiles: (files: Iterable<File>) => void; children: ComponentChildren }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <Button look="primary" icon="upload" onClick={() => input.current?.click()}>{children}</Button>
      <input ref={input} type="file" multiple hidden aria-label={Words.filesToUpload} onChange={(e) => {
        onFiles([...(e.currentTarget.files ?? [])]);
        e.currentTarget.value = "";
      }} />
    </>
  );
}

/** Accepts files that are dropped anywhere on the page, while mounted. */
export function DropZone({ enabled, onFiles, children }: { enabled: boolean; onFiles: (files: Iterable<File>) => void; children: ComponentChildren }) {
  const [over, setOver] = useState(false);
  const take = useRef(onFiles);
  take.current = onFiles;
  useEffect(() => {
    if (!enabled) return;
    let left: ReturnType<typeof setTimeout> | undefined;
    const hover = (event: DragEvent) => {
      if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
      event.preventDefault(); // prevents the browser from opening the file instead of the page
      setOver(true);
      clearTimeout(left);
      left = setTimeout(() => setOver(false), 250); // the event repeats while a file is over the page
    };
    const drop = (event: DragEvent) => {
      if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
      event.preventDefault();
      clearTimeout(left);
      setOver(false);
      take.current([...(event.dataTransfer?.files ?? [])]);
    };
    addEventListener("dragover", hover);
    addEventListener("drop", drop);
    return () => {
      clearTimeout(left);
      removeEventListener("dragover", hover);
      removeEventListener("drop", drop);
    };
  }, [enabled]);
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
export function Uploads({ list, onDismiss, onRetry }: { list: Upload[]; onDismiss: (id: number) => void; onRetry: (id: number) => void }) {
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
              {u.state === "failed" && u.file.size <= most && u.file.size > 0 && <Button look="bare" onClick={() => onRetry(u.id)}>{Words.tryAgain}</Button>}
              <Button look="bare" icon="close" label={`${u.state === "sending" ? Words.stop : Words.dismiss}: ${u.file.name}`} onClick={() => onDismiss(u.id)} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
