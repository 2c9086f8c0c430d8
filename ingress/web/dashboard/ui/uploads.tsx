// Files that a person sends to the service: how they are chosen, dropped and uploaded.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, type Params } from "../api";
import { upload } from "../files";
import * as texts from "../texts/parts";
import { Words } from "../texts/parts";
import { Button } from "./button";
import type { IconName } from "./icon";
import { size } from "./parts";

const maxBytes = 20 << 20;

/** The state of a file that is being uploaded. */
export interface Upload<T> {
  id: number;
  file: File;
  part: number; // fraction that was sent, from 0 to 1
  state: "waiting" | "sending" | "sent" | "failed";
  /** The object that the service has stored. Set after the file was sent. */
  stored?: T;
  fault?: string;
  /** Whether another attempt to upload the same file may succeed. */
  again?: boolean;
  stop: AbortController;
}

/** Returns the reason for which the service would reject a file, or undefined. */
export function checkFile(file: { size: number }): string | undefined {
  if (file.size === 0) return Words.fileIsEmpty;
  return file.size > maxBytes ? texts.filesSizeIsLimit(size(file.size)) : undefined;
}

const words = (error: ApiError): string => error.errors.map((e) => `${e.field} ${e.message}`).join("; ") || error.detail;

/**
 * Reports whether another attempt to upload a file may succeed. An error about the type or the
 * content of the file is permanent.
 */
const isTransient = ({ status }: ApiError): boolean => status === 0 || status === 429 || status >= 500;

/**
 * Returns the uploads to a path, and the functions that change them. At most atOnce uploads run at
 * the same time. Uploads continue after the component is unmounted, unless the component calls the
 * function close. If params changes, a new list of uploads begins.
 */
export function useUploads<T>(path: string, params: Params, atOnce: number, onSent?: (id: number, stored: T) => void) {
  const [list, setList] = useState<Upload<T>[]>([]);
  const latest = useRef(onSent);
  latest.current = onSent;
  const actions = useMemo(() => {
    let all: Upload<T>[] = [];
    let next = 1;
    let closed = false;
    const show = (now: Upload<T>[]) => {
      all = now;
      if (!closed) setList(now);
    };
    const update = (id: number, change: Partial<Upload<T>>) => show(all.map((u) => (u.id === id ? { ...u, ...change } : u)));
    const begin = () => {
      const room = atOnce - all.filter((u) => u.state === "sending").length;
      for (const u of all.filter((w) => w.state === "waiting").slice(0, Math.max(0, room))) {
        update(u.id, { state: "sending" });
        upload<T>("POST", path, params, u.file, (part) => update(u.id, { part }), u.stop.signal)
          .then((stored) => {
            update(u.id, { state: "sent", part: 1, stored });
            latest.current?.(u.id, stored);
          }, (error: ApiError) => update(u.id, { state: "failed", fault: words(error), again: isTransient(error) }))
          .finally(begin);
      }
    };
    const add = (files: Iterable<File>) => {
      const added = [...files].map((file): Upload<T> => {
        const fault = checkFile(file);
        return { id: next++, file, part: 0, state: fault === undefined ? "waiting" : "failed", fault, stop: new AbortController() };
      });
      show([...all, ...added]);
      begin();
    };
    const remove = (id: number) => {
      all.find((u) => u.id === id)?.stop.abort();
      show(all.filter((u) => u.id !== id));
      begin();
    };
    const retry = (id: number) => {
      update(id, { state: "waiting", fault: undefined, again: false, part: 0, stop: new AbortController() });
      begin();
    };
    const clear = () => {
      for (const u of all) u.stop.abort();
      show([]);
    };
    const close = () => {
      clear();
      closed = true;
    };
    return { add, remove, retry, clear, close };
  }, [path, JSON.stringify(params)]);
  return { list, ...actions };
}

/** The button that chooses files. */
export function FilePicker({ onFiles, words, look, icon, label, disabled, children }: {
  onFiles: (files: File[]) => void; words: string; look: "primary" | "bare"; icon: IconName; label?: string; disabled?: boolean; children?: ComponentChildren;
}) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <Button look={look} icon={icon} label={label} disabled={disabled} onClick={() => input.current?.click()}>{children}</Button>
      <input ref={input} type="file" multiple hidden aria-label={words} onChange={(e) => {
        onFiles([...(e.currentTarget.files ?? [])]);
        e.currentTarget.value = "";
      }} />
    </>
  );
}

const hasFiles = (from: DataTransfer | null): boolean => from !== null && [...from.types].includes("Files");

/**
 * If enabled is true, receives the files that are dropped anywhere on the page. Returns whether
 * files are being dragged over the page.
 */
export function useDrop(enabled: boolean, onFiles: (files: File[]) => void): boolean {
  const [over, setOver] = useState(false);
  const latest = useRef(onFiles);
  latest.current = onFiles;
  useEffect(() => {
    const done = new AbortController();
    const on = <K extends "dragover" | "dragleave" | "drop">(kind: K, act: (e: DragEvent) => void) => {
      addEventListener(kind, (e) => { if (hasFiles(e.dataTransfer)) act(e); }, { signal: done.signal });
    };
    on("dragover", (e) => {
      e.preventDefault(); // otherwise the browser would leave the page and open the file
      if (!enabled && e.dataTransfer) e.dataTransfer.dropEffect = "none";
      setOver(enabled);
    });
    on("dragleave", (e) => { if (e.relatedTarget === null) setOver(false); });
    on("drop", (e) => {
      e.preventDefault();
      setOver(false);
      if (enabled) latest.current([...(e.dataTransfer?.files ?? [])]);
    });
    return () => done.abort();
  }, [enabled]);
  return over;
}
