// The images and documents that a person attaches to a message, and those of sent messages.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { FileLink, Picture, fileAddress, isImage, type RunFile } from "../answer/files";
import { ApiError, inDemo } from "../api";
import { upload } from "../files";
import * as texts from "../texts/chat";
import { Words } from "../texts/chat";
import type { Attachment } from "../types";
import { Button } from "../ui/button";
import { Icon } from "../ui/icon";
import { size } from "../ui/parts";
import { toast } from "../ui/toast";

/** The number of files that a message takes. */
export const mostFiles = 10;
const mostBytes = 20 << 20;

/** A file in the composer. */
export interface Attached {
  id: number;
  file: File;
  part: number; // 0 to 1
  /** The stored file, once it is uploaded. */
  stored?: Attachment;
  fault?: string;
  /** Whether the same file may succeed at another attempt. */
  again?: boolean;
  stop: AbortController;
}

/** Returns why the service would refuse a file, or undefined. */
export function faultOf(file: { size: number }): string | undefined {
  if (file.size === 0) return Words.fileIsEmpty;
  return file.size > mostBytes ? texts.filesSizeIsLimit(size(file.size)) : undefined;
}

const faultWords = (error: ApiError): string => error.errors.map((e) => e.message).join("; ") || error.detail;

/** Whether an error may pass. The type and the content of a file do not change. */
const passing = ({ status }: ApiError): boolean => status === 0 || status === 429 || status >= 500;

const asAttachment = (f: RunFile): Attachment => ({ fileId: f.id, name: f.name, mediaType: f.mimeType, bytes: f.bytes });

/** Returns the composer's files, and the functions that change them. Files are uploaded when they are added. */
export function useAttachments(sessionId: string) {
  const [list, setList] = useState<Attached[]>([]);
  const all = useRef<Attached[]>([]);
  const actions = useMemo(() => {
    let next = 1;
    const show = (now: Attached[]) => {
      all.current = now;
      setList(now);
    };
    const update = (id: number, change: Partial<Attached>) => show(all.current.map((a) => (a.id === id ? { ...a, ...change } : a)));
    let last = Promise.resolve(); // one upload at a time, because the service limits those of a caller
    const send = (a: Attached) => {
      last = last.then(async () => {
        if (a.stop.signal.aborted) return;
        try {
          const f = await upload<RunFile>("POST", "/api/files", { name: a.file.name, sessionId }, a.file, (part) => update(a.id, { part }), a.stop.signal);
          update(a.id, { stored: asAttachment(f) });
        } catch (error) {
          if (!(error instanceof ApiError)) throw error;
          update(a.id, { fault: faultWords(error), again: passing(error) });
        }
      });
    };
    const add = (files: File[]) => {
      const room = mostFiles - all.current.length;
      const taken = files.slice(0, room).map((file): Attached => ({ id: next++, file, part: 0, fault: faultOf(file), stop: new AbortController() }));
      if (files.length > room) toast(texts.messageTakesAtMost(mostFiles, files.slice(room).map((f) => f.name).join(", ")), "bad");
      show([...all.current, ...taken]);
      taken.filter((a) => a.fault === undefined).forEach(send);
    };
    const remove = (id: number) => {
      all.current.find((a) => a.id === id)?.stop.abort();
      show(all.current.filter((a) => a.id !== id));
    };
    const retry = (id: number) => {
      update(id, { fault: undefined, again: false, part: 0, stop: new AbortController() });
      const again = all.current.find((a) => a.id === id);
      if (again) send(again);
    };
    const clear = () => {
      for (const a of all.current) a.stop.abort();
      show([]);
    };
    return { add, remove, retry, clear };
  }, [sessionId]);
  useEffect(() => actions.clear, [actions]); // uploads belong to one session
  return { list, ready: list.every((a) => a.stored), stored: list.flatMap((a) => a.stored ?? []), ...actions };
}

const hasFiles = (from: DataTransfer | null): boolean => from !== null && [...from.types].includes("Files");

/**
 * Returns the files to attach of a paste. Office programs put a picture of copied text beside the text. Such a paste is text.
 */
export function pastedFiles(from: DataTransfer | null): File[] {
  const kinds = [...(from?.types ?? [])];
  return kinds.includes("text/plain") && kinds.includes("text/html") ? [] : [...(from?.files ?? [])];
}

/** Takes the files that are dropped anywhere on the page. Returns whether files are over the page now. */
export function useDrop(onFiles: (files: File[]) => void): boolean {
  const [over, setOver] = useState(false);
  const latest = useRef(onFiles);
  latest.current = onFiles;
  useEffect(() => {
    const done = new AbortController();
    const on = <K extends "dragover" | "dragleave" | "drop">(kind: K, act: (e: DragEvent) => void) => {
      window.addEventListener(kind, (e) => { if (hasFiles(e.dataTransfer)) act(e); }, { signal: done.signal });
    };
    on("dragover", (e) => {
      e.preventDefault(); // without this, the browser leaves the page and opens the file
      if (inDemo() && e.dataTransfer) e.dataTransfer.dropEffect = "none"; // visitors of the demo cannot attach files
      setOver(!inDemo());
    });
    on("dragleave", (e) => { if (e.relatedTarget === null) setOver(false); });
    on("drop", (e) => {
      e.preventDefault();
      setOver(false);
      if (!inDemo()) latest.current([...(e.dataTransfer?.files ?? [])]);
    });
    return () => done.abort();
  }, []);
  return over;
}

/** The button that chooses files. */
export function AttachButton({ onFiles, disabled }: { onFiles: (files: File[]) => void; disabled: boolean }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <Button look="bare" icon="plus" label={Words.attachFiles} disabled={disabled} onClick={() => input.current?.click()} />
      <input ref={input} type="file" multiple hidden aria-label={Words.filesToAttach} onChange={(e) => {
        onFiles([...(e.currentTarget.files ?? [])]);
        e.currentTarget.value = "";
      }} />
    </>
  );
}

/** The files of the message in the composer. */
export function AttachedList({ list, onRemove, onRetry }: { list: Attached[]; onRemove: (id: number) => void; onRetry: (id: number) => void }) {
  if (list.length === 0) return null;
  return (
    <ul class="attached" aria-label={Words.attachedFiles}>
      {list.map((a) => (
        <li key={a.id} class={a.fault ? "failed" : undefined}>
          {a.fault === undefined ? <Preview file={a.file} /> : <Icon name="warn" />}
          <span class="attached-name">{a.file.name} <span class="quiet number">{size(a.file.size)}</span></span>
          {a.fault !== undefined && <span class="fault" role="alert">{a.fault}</span>}
          {a.fault === undefined && !a.stored && <progress value={a.part} max={1} aria-label={texts.uploadOfName(a.file.name)} />}
          {a.again && <Button look="bare" label={texts.tryAgainName(a.file.name)} onClick={() => onRetry(a.id)}>{Words.tryAgain}</Button>}
          <Button look="bare" icon="close" label={texts.removeName(a.file.name)} onClick={() => onRemove(a.id)} />
        </li>
      ))}
    </ul>
  );
}

/** A small picture of an image, and an icon for any other file. */
function Preview({ file }: { file: File }) {
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    if (!/^image\/(png|jpeg|gif|webp)$/.test(file.type)) return;
    const made = URL.createObjectURL(file);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [file]);
  return url === null ? <Icon name="file" /> : <img src={url} alt="" />;
}

/** The attachments of a sent message. Pictures are shown if readable: an upload cannot be read, the files of a run can. */
export function SentAttachments({ list, readable }: { list: Attachment[]; readable: boolean }) {
  if (list.length === 0) return null;
  const files = list.map((a): RunFile => ({ id: a.fileId, name: a.name, mimeType: a.mediaType, bytes: a.bytes }));
  return (
    <div class="turn-attachments">
      {readable && !inDemo() && files.filter(isImage).map((f) => <div class="file-image" key={f.id}><Picture src={fileAddress(f)} alt={f.name} /></div>)}
      <ul aria-label={Words.attachedFiles}>{files.map((f) => <li key={f.id}>{readable ? <FileLink file={f} /> : <span class="tag">{f.name}</span>}</li>)}</ul>
    </div>
  );
}
