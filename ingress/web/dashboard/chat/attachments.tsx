// The images and documents that a person attaches to a message.
import { useEffect, useState } from "preact/hooks";
import * as texts from "../texts/chat";
import { Words } from "../texts/chat";
import type { Attachment, UploadedFile } from "../types";
import { Button } from "../ui/button";
import { Icon } from "../ui/icon";
import { size } from "../ui/parts";
import { toast } from "../ui/toast";
import { useUploads, type Upload } from "../ui/uploads";

/** The maximum number of files in a message. */
export const maxFiles = 10;

/** A file in the composer, with the state of its upload. */
type Attached = Upload<UploadedFile>;

const asAttachment = (f: UploadedFile): Attachment => ({ fileId: f.id, name: f.name, mediaType: f.mimeType, bytes: f.bytes });

/**
 * Returns the composer's files, and the functions that change them. A file is uploaded as soon as
 * it is added, and can be sent only in the given session. Files are uploaded one at a time, because
 * the service limits the number of simultaneous uploads.
 */
export function useAttachments(sessionId: string) {
  const { list, add, remove, retry, clear, close } = useUploads<UploadedFile>("/api/files", { sessionId }, 1);
  useEffect(() => close, [close]); // uploads are stored for one session
  const addSome = (files: File[]) => {
    const room = maxFiles - list.length;
    if (files.length > room) toast(texts.messageTakesAtMost(maxFiles, files.slice(room).map((f) => f.name).join(", ")), "bad");
    add(files.slice(0, room));
  };
  const stored = list.flatMap((a) => (a.stored ? [asAttachment(a.stored)] : []));
  return { list, ready: stored.length === list.length, stored, add: addSome, remove, retry, clear };
}

/**
 * Returns the files in a paste that must be attached. If the paste contains both plain and HTML
 * text, no file must be attached, because office programs add a picture to the text that they copy.
 */
export function pastedFiles(from: DataTransfer | null): File[] {
  const kinds = [...(from?.types ?? [])];
  return kinds.includes("text/plain") && kinds.includes("text/html") ? [] : [...(from?.files ?? [])];
}

/** Lists the files in the composer. */
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

/** Shows a small picture of an image, or an icon for any other file. */
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
