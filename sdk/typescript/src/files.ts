import { ParleyError } from "./errors.js";
import { checkId } from "./given.js";
import type { RequestOptions, Transport } from "./transport.js";
import type { Source, UploadedFile } from "./types.js";

/** A file to upload. */
export interface FileUpload {
  /** The content; in Node use `await openAsBlob(path)`. */
  file: Blob | Uint8Array;
  /** The file's name. The default is the name of a `File`. */
  name?: string | undefined;
  /**
   * The only session in which the file can be attached. By default it can be attached in any
   * session.
   */
  sessionId?: string | undefined;
}

/** The files that runs created, and uploads for messages. */
export class Files {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Stores an image or a document for the `attachments` of a message. */
  async upload(given: FileUpload, options?: RequestOptions): Promise<UploadedFile> {
    const { file, name, sessionId } = given;
    const readable = file instanceof Blob || ArrayBuffer.isView(file);
    if (!readable) throw new ParleyError("file must be a Blob, a File or bytes; in Node use await openAsBlob(path)");
    const form = new FormData();
    if (sessionId !== undefined) form.append("sessionId", sessionId);
    form.append("file", file instanceof Blob ? file : new Blob([file as Uint8Array<ArrayBuffer>]), name ?? (file as File).name ?? "file");
    return this.#transport.json({ method: "POST", path: "/api/files", body: form }, options);
  }

  /** Downloads a file by its id in the `output.files` of a tool call. */
  async download(id: string, options?: RequestOptions): Promise<Blob> {
    return this.#transport.blob({ method: "GET", path: "/api/files", query: { id: checkId(id) } }, options);
  }
}

/** The texts that answers cite. */
export class Sources {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Reads the text that a run read from a source, by the `sourceId` of a citation. */
  async get(id: string, options?: RequestOptions): Promise<Source> {
    return this.#transport.json({ method: "GET", path: "/api/sources", query: { id: checkId(id) } }, options);
  }
}
