// The files that a run's programs made: as its tool calls name them.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, chosenOrganization, credentials, identity, inDemo, problemOf } from "../api";
import type { ToolCall } from "../types";
import { Button, LinkButton } from "../ui/button";
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

async function contentOf(file: RunFile): Promise<Blob> {
  const response = await fetch(fileAddress(file), { headers: identity(), credentials: credentials() });
  if (!response.ok) throw await problemOf(response);
  return response.blob();
}

async function save(file: RunFile): Promise<void> {
  const url = URL.createObjectURL(await contentOf(file));
  const link = document.createElement("a");
  link.href = url;
  link.download = lastPart(file.name);
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A file to download. Addresses cannot say in which organization somebody acts: outside the first one it is fetched. */
export function FileLink({ file }: { file: RunFile }) {
  const words = <>{file.name} <span class="quiet number">{size(file.bytes)}</span></>;
  const label = `Download ${file.name}, ${size(file.bytes)}`;
  if (inDemo()) return <span class="tag" title="Visitors of the demo cannot open files">{words}</span>;
  if (chosenOrganization() === null) return <LinkButton href={fileAddress(file)} icon="file" look="bare" label={label} download>{words}</LinkButton>;
  return <Button icon="file" look="bare" label={label} onClick={() => save(file)}>{words}</Button>;
}

/** An image that a program made, as it is, with its name below. */
export function FileImage({ file, alt }: { file: RunFile; alt?: string }) {
  const described = alt || file.name;
  return (
    <figure class="file-image">
      {chosenOrganization() === null ? <img src={fileAddress(file)} alt={described} loading="lazy" /> : <Painted file={file} alt={described} />}
      <figcaption><FileLink file={file} /></figcaption>
    </figure>
  );
}

/** Paints an image that was fetched with the organization's header, which an img cannot send. */
function Painted({ file, alt }: { file: RunFile; alt: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    let gone = false;
    contentOf(file).then(createImageBitmap).then(
      (image) => {
        if (gone || !canvas.current) return;
        canvas.current.width = image.width;
        canvas.current.height = image.height;
        canvas.current.getContext("2d")?.drawImage(image, 0, 0);
      },
      (cause: unknown) => {
        if (!gone) setError(cause instanceof ApiError ? cause.detail : "This image cannot be shown.");
      },
    );
    return () => {
      gone = true;
    };
  }, [file.id]);
  return error === "" ? <canvas ref={canvas} role="img" aria-label={alt} /> : <p class="quiet small">{error}</p>;
}

/** Files of a run: images to look at, all else to download. In the demo they can be named only. */
export function Files({ files, images = true }: { files: RunFile[]; images?: boolean }) {
  if (files.length === 0) return null;
  const shown = images && !inDemo() ? files.filter(isImage) : [];
  const rest = files.filter((f) => !shown.includes(f));
  return (
    <div class="answer-files">
      {shown.map((f) => <FileImage key={f.id} file={f} />)}
      {rest.length > 0 && <ul aria-label="Files">{rest.map((f) => <li key={f.id}><FileLink file={f} /></li>)}</ul>}
      {inDemo() && <p class="hint">Visitors of the demo see that there are files. With an account of your own you can open them.</p>}
    </div>
  );
}
