// Downloads and uploads of documents and files. The requests send the identity headers, which a
// plain link cannot send.
import { useEffect, useState } from "preact/hooks";
import { ApiError, address, credentials, identity, lookFirst, readProblem, reached, type Params } from "./api";
import { Words } from "./texts/frame";

const read = (path: string, params?: Params, signal?: AbortSignal): Promise<Blob> =>
  reached(async () => {
    const response = await fetch(address(path, params), { headers: identity(), credentials: credentials(), signal });
    if (!response.ok) throw await readProblem(response);
    return response.blob();
  }, signal);

/** Saves the content of a path as a file on the person's machine. */
export async function download(path: string, params: Params, name: string): Promise<void> {
  const url = URL.createObjectURL(await read(path, params));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

const pictures = /^image\/(png|jpeg|gif|webp)$/;

/**
 * Returns an object URL of a picture, valid while the picture is shown. Returns null before the
 * picture has loaded, or if the content is not a picture.
 */
export function usePicture(path: string): string | null {
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    let made: string | null = null;
    read(path, undefined, stop.signal).then((blob) => {
      if (stop.signal.aborted || !pictures.test(blob.type)) return;
      made = URL.createObjectURL(blob);
      setUrl(made);
    }, () => undefined); // if this fails, the name of the file is shown instead
    return () => {
      stop.abort();
      if (made) URL.revokeObjectURL(made);
    };
  }, [path]);
  return url;
}

/** Sends a file. It passes the fraction that was sent, from 0 to 1, to the function progress. */
export function upload<T>(method: "POST" | "PUT", path: string, params: Params, file: File, progress: (part: number) => void, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(); // fetch does not report progress
    request.open(method, address(path, params));
    for (const [name, value] of Object.entries(identity())) request.setRequestHeader(name, value);

    request.upload.onprogress = (event) => {
      if (event.lengthComputable) progress(event.loaded / event.total);
    };

    let gone = false;
    request.upload.onload = () => { gone = true; };
    request.onerror = () => reject(new ApiError(0, "unreachable", gone ? lookFirst : Words.connectionLostBeforeWhole));
    request.onabort = () => reject(new ApiError(0, "stopped", Words.uploadCancelled));

    request.onload = () => {
      const headers = new Headers();
      for (const name of ["retry-after", "x-request-id"]) {
        const value = request.getResponseHeader(name);
        if (value !== null) headers.set(name, value);
      }
      const response = new Response(request.responseText, { status: request.status, headers });
      if (response.ok) reached<T>(() => response.json(), undefined, lookFirst).then(resolve, reject);
      else readProblem(response).then(reject, reject);
    };

    signal.addEventListener("abort", () => request.abort());
    const form = new FormData();
    form.append("file", file, file.name);
    request.send(form);
  });
}
