// The images and documents that a person attaches to a message, and those of sent messages.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { FileLink, Picture, fileAddress, isImage, type RunFile } from "../answer/files";
import { inDemo, type ApiError } from "../api";
import { upload } from "../files";
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
  stop: AbortController;
}

/** Returns why the service would refuse a file, or undefined. */
export function faultOf(file: { size: number }): string | undefined {
  if (file.size === 0) return "The file is empty.";
  return file.size > mostBytes ? `The file's size is ${size(file.size)}. The limit is 20 MiB.` : undefined;
}

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
    const send = (a: Attached) => {
      upload<RunFile>("POST", "/api/files", { name: a.file.name, sessionId }, a.file, (part) => update(a.id, { part }), a.stop.signal)
        .then((f) => update(a.id, { stored: asAttachment(f) }), (error: ApiError) => update(a.id, { fault: error.errors.map((e) => e.message).join("; ") || error.detail }));
    };
    const add = (files: File[]) => {
      const room = mostFiles - all.current.length;
      const taken = files.slice(0, room).map((file): Attached => ({ id: next++, file, part: 0, fault: faultOf(file), stop: new AbortController() }));
      if (files.length > room) toast(`A message takes at most ${mostFiles} files. Not attached: ${files.slice(room).map((f) => f.name).join(", ")}.`, "bad");
      show([...all.current, ...taken]);
      taken.filter((a) => a.fault === undefined).forEach(send);
    };
    const remove = (id: number) => {
      all.current.find((a) => a.id === id)?.stop.abort();
      show(all.current.filter((a) => a.id !== id));
    };
    const retry = (id: number) => {
      update(id, { fault: undefined, part: 0, stop: new AbortController() });
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

/** The button that chooses files. */
export function AttachButton({ onFiles, disabled }: { onFiles: (files: File[]) => void; disabled: boolean }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <Button look="bare" icon="plus" label="Attach files" disabled={disabled} onClick={() => input.current?.click()} />
      <input ref={input} type="file" multiple hidden aria-label="Files to attach" onChange={(e) => {
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
    <ul class="attached" aria-label="Attached files">
      {list.map((a) => (
        <li key={a.id} class={a.fault ? "failed" : undefined}>
          <Preview file={a.file} />
          <span class="attached-name">{a.file.name} <span class="quiet number">{size(a.file.size)}</span></span>
          {a.fault !== undefined && <span class="fault" role="alert">{a.fault}</span>}
          {a.fault === undefined && !a.stored && <progress value={a.part} max={1} aria-label={`Upload of ${a.file.name}`} />}
          {a.fault !== undefined && faultOf(a.file) === undefined && <Button look="bare" label={`Try again: ${a.file.name}`} onClick={() => onRetry(a.id)}>Try again</Button>}
          <Button look="bare" icon="close" label={`Remove ${a.file.name}`} onClick={() => onRemove(a.id)} />
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

/** The attachments of a sent message. */
export function SentAttachments({ list }: { list: Attachment[] }) {
  if (list.length === 0) return null;
  const files = list.map((a): RunFile => ({ id: a.fileId, name: a.name, mimeType: a.mediaType, bytes: a.bytes }));
  return (
    <div class="turn-attachments">
      {!inDemo() && files.filter(isImage).map((f) => <div class="file-image" key={f.id}><Picture src={fileAddress(f)} alt={f.name} /></div>)}
      <ul aria-label="Attached files">{files.map((f) => <li key={f.id}><FileLink file={f} /></li>)}</ul>
    </div>
  );
}
