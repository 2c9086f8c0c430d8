// The files that a run's programs made: as its tool calls name them.
import { inDemo } from "../api";
import { download, usePicture } from "../files";
import type { ToolCall } from "../types";
import { Button } from "../ui/button";
import { size } from "../ui/parts";

export interface RunFile {
  id: string;
  name: string;
  mimeType: string;
  bytes: number;
}

/** An object of the API whose fields are not known yet. */
export function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? Object.fromEntries(Object.entries(value)) : {};
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");

/** The files that a call's output lists. */
export function filesOf(call: ToolCall): RunFile[] {
  const listed = fieldsOf(call.output)["files"];
  if (!Array.isArray(listed)) return [];
  return listed.map(fieldsOf).flatMap((f) => {
    const id = text(f["id"]);
    if (!/^file_[0-9a-z]{26}$/.test(id)) return [];
    return [{ id, name: text(f["name"]) || id, mimeType: text(f["mimeType"]), bytes: typeof f["bytes"] === "number" ? f["bytes"] : 0 }];
  });
}

/** Where a file's content is. */
export const fileAddress = (file: RunFile): string => `/api/files?id=${encodeURIComponent(file.id)}`;

/** Whether browsers are sent it as an image, and so may show it. */
export const isImage = (file: RunFile): boolean => /^image\/(png|jpeg|gif|webp)\b/.test(file.mimeType);

const lastPart = (name: string): string => name.split("/").at(-1) || name;

/** A file to download: it is fetched with the headers that say where somebody acts. */
export function FileLink({ file }: { file: RunFile }) {
  const words = <>{file.name} <span class="quiet number">{size(file.bytes)}</span></>;
  if (inDemo()) return <span class="tag" title="Visitors of the demo cannot open files">{words}</span>;
  return <Button icon="file" look="bare" label={`Download ${file.name}, ${size(file.bytes)}`} onClick={() => download("/api/files", { id: file.id }, lastPart(file.name))}>{words}</Button>;
}

/** A picture of ours; until it is there, or when it cannot be had, its name. */
export function Picture({ src, alt }: { src: string; alt: string }) {
  const url = usePicture(src);
  return url === null ? <span class="quiet small">{alt}</span> : <img src={url} alt={alt} />;
}

/** Files of a run to download, and those of its images to look at that are not shown elsewhere. In the demo they can be named only. */
export function Files({ files, images }: { files: RunFile[]; images: RunFile[] }) {
  if (files.length === 0) return null;
  const shown = inDemo() ? [] : images.filter(isImage);
  return (
    <div class="answer-files">
      {shown.map((f) => <div class="file-image" key={f.id}><Picture src={fileAddress(f)} alt={f.name} /></div>)}
      <ul aria-label="Files">{files.map((f) => <li key={f.id}><FileLink file={f} /></li>)}</ul>
      {inDemo() && <p class="hint">Visitors of the demo see that there are files. With an account of your own you can open them.</p>}
    </div>
  );
}
