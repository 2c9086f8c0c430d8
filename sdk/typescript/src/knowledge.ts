import { ParleyError } from "./errors.js";
import { idOf, paramsOf } from "./given.js";
import { list, type PagePromise } from "./page.js";
import { sleep } from "./retry.js";
import type { RequestOptions, Transport } from "./transport.js";
import type { Bytes, Deleted, Document, FoundList, GetKnowledgeQuery, Metadata, NewDocument } from "./types.js";

/** A file to add: a `File`, or bytes and their name. */
export type NewFile = ({ file: File; name?: string | undefined } | { file: Bytes; name: string }) & {
  /** What is said of the document, to search by. */
  metadata?: Metadata | undefined;
};

/** Which documents to list; `q` is what their name contains. */
export type DocumentQuery = Pick<GetKnowledgeQuery, "q" | "status" | "limit" | "cursor">;

/** Where to search. */
export interface SearchOptions {
  /** Only in these documents. */
  documentIds?: readonly string[] | undefined;
  /** Only in documents that have all of this. */
  metadata?: Metadata | undefined;
  /** How many passages, 50 at most; 10 unless given. */
  limit?: GetKnowledgeQuery["limit"] | undefined;
}

const path = "/api/knowledge";

/** The documents that agents search and cite. */
export class Knowledge {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Adds a document: a file, a text (`name`, `content`), or an address to fetch (`url`). It is read after the answer: `wait` for it. */
  async upload(document: NewDocument | NewFile, options?: RequestOptions): Promise<Document> {
    const given = paramsOf(document, "{ file, name }, { name, content } or { url }");
    return this.#transport.json({ method: "POST", path, body: "file" in given ? formOf(given) : given }, options);
  }

  /** Reads how a document stands. */
  async get(id: string, options?: RequestOptions): Promise<Document> {
    return this.#transport.json({ method: "GET", path, query: { id: idOf(id) } }, options);
  }

  /** Waits until a document has been read, and gives it: `status` is `ready`, or `failed` with an `error`. */
  async wait(id: string, options: RequestOptions = {}): Promise<Document> {
    for (let pause = 100; ; pause = Math.min(2 * pause, 2_000)) {
      const document = await this.get(id, options);
      if (document.status === "ready" || document.status === "failed") return document;
      await sleep(pause, options.signal);
    }
  }

  /** Lists documents, newest first. */
  list(query: DocumentQuery = {}, options?: RequestOptions): PagePromise<Document> {
    return list(this.#transport, path, { ...query }, options);
  }

  /** Finds the passages that are most like a question, the best first, as agents find them. */
  async search(question: string, { documentIds, metadata = {}, limit }: SearchOptions = {}, options?: RequestOptions): Promise<FoundList> {
    if (!question) throw new ParleyError("search takes a question");
    const having = Object.entries(metadata).map(([name, value]) => `${name}:${value}`);
    const query = { query: question, documentId: documentIds, metadata: having, limit };
    return this.#transport.json({ method: "GET", path, query }, options);
  }

  /** Deletes a document: nothing of it is found or cited any more. */
  delete(id: string, options?: RequestOptions): Promise<Deleted> {
    return this.#transport.delete(path, id, options);
  }
}

function formOf({ file, name, metadata }: NewFile): FormData {
  const readable = file instanceof Blob || ArrayBuffer.isView(file);
  if (!readable) throw new ParleyError("file is a Blob, a File or bytes: in Node await openAsBlob(path)");
  const blob = file instanceof Blob ? file : new Blob([file as Uint8Array<ArrayBuffer>]);
  const called = name ?? (file as File).name;
  if (!called) throw new ParleyError("a file needs a name");
  const form = new FormData();
  if (metadata) form.append("metadata", JSON.stringify(metadata));
  form.append("file", blob, called);
  return form;
}
