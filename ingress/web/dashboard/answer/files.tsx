// The files of a run: the files that its programs created, as listed in the output of its tool
// calls, and the attachments of its message.
import { inDemo } from "../api";
import { download, usePicture } from "../files";
import * as texts from "../texts/answer";
import { Words } from "../texts/answer";
import type { Attachment, RunFile, ToolCall } from "../types";
import { Button } from "../ui/button";
import { size } from "../ui/parts";

/** Returns the fields of an untyped object of the API, or no fields for any other value. */
export function asFields(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? Object.fromEntries(Object.entries(value)) : {};
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");

/** Returns the files listed in a call's output. */
export function filesIn(call: Pick<ToolCall, "output">): RunFile[] {
  const listed = asFields(call.output)["files"];
  if (!Array.isArray(listed)) return [];
  return listed.map(asFields).flatMap((f) => {
    const id = text(f["id"]);
    if (!/^file_[0-9a-z]{26}$/.test(id)) return [];
    return [{ id, name: text(f["name"]) || id, mimeType: text(f["mimeType"]), bytes: typeof f["bytes"] === "number" ? f["bytes"] : 0 }];
  });
}

/** Returns the URL of a file's content. */
export const fileAddress = (file: RunFile): string => `/api/files?id=${encodeURIComponent(file.id)}`;

/** Whether the service serves the file as an image, so that the page can show it. */
export const isImage = (file: RunFile): boolean => /^image\/(png|jpeg|gif|webp)\b/.test(file.mimeType);

const lastPart = (name: string): string => name.split("/").at(-1) || name;

/**
 * A button that downloads a file. It is not a link, because a link cannot send the identity headers.
 */
export function FileLink({ file }: { file: RunFile }) {
  const words = <>{file.name} <span class="quiet number">{size(file.bytes)}</span></>;
  if (inDemo()) return <span class="tag" title={Words.filesCantBeOpened}>{words}</span>;
  return <Button icon="file" look="bare" label={texts.downloadNameBytes(file.name, size(file.bytes))} onClick={() => download("/api/files", { id: file.id }, lastPart(file.name))}>{words}</Button>;
}

/**
 * Shows a picture. Until the picture has loaded, or if it cannot be loaded, shows its alternative
 * text.
 */
export function Picture({ src, alt }: { src: string; alt: string }) {
  const url = usePicture(src);
  return url === null ? <span class="quiet small">{alt}</span> : <img src={url} alt={alt} />;
}

/**
 * Lists a run's files with download buttons, and shows the images among them that the text does not
 * show. In the demo, lists only the names.
 */
export function Files({ files, images }: { files: RunFile[]; images: RunFile[] }) {
  if (files.length === 0) return null;
  const shown = inDemo() ? [] : images.filter(isImage);
  return (
    <div class="answer-files">
      {shown.map((f) => <div class="file-image" key={f.id}><Picture src={fileAddress(f)} alt={f.name} /></div>)}
      <ul aria-label={Words.files}>{files.map((f) => <li key={f.id}><FileLink file={f} /></li>)}</ul>
      {inDemo() && <p class="hint">{Words.filesCantBeOpenedInDemo}</p>}
    </div>
  );
}

/**
 * Shows the attachments of a sent message. If readable is false, images are not shown, because an
 * upload cannot be read back.
 */
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
