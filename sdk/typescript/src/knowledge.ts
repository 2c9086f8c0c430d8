import { ParleyError } from "./errors.js";
import { checkId, checkParams } from "./given.js";
import { list, type PagePromise } from "./page.js";
import { sleep } from "./retry.js";
import type { RequestOptions, Transport } from "./transport.js";
import type {
  Bytes, Deleted, Document, DocumentChange, DocumentPage, DocumentPassages, FoundList, GetKnowledgeQuery, Metadata, NewDocument,
} from "./types.js";

/** A file to add: a `File`, or bytes with a name. */
export type NewFile = ({ file: File; name?: string | undefined } | { file: Bytes; name: string }) & {
  /** The document's metadata, by which searches can filter. */
  metadata?: Metadata | undefined;
};

/** A filter for documents. `q` is a text that the documents' names contain. */
export type DocumentQuery = Pick<GetKnowledgeQuery, "q" | "status" | "limit" | "cursor">;

/** The scope of a search. */
export interface SearchOptions {
  /** Only these documents. */
  documentIds?: readonly string[] | undefined;
  /** Only documents whose metadata contains all of these entries. */
  metadata?: Metadata | undefined;
  /** The number of passages, at most 50. The default is 10. */
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

  /**
   * Adds a document: a file, a text (`name`, `content`), or a URL to fetch (`url`). The
   * service then processes the document; see `wait`.
   */
  async upload(document: NewDocument | NewFile, options?: RequestOptions): Promise<Document> {
    const given = checkParams(document, "{ file, name }, { name, content } or { url }");
    return this.#transport.json({ method: "POST", path, body: "file" in given ? newForm(given) : given }, options);
  }

  /** Reads a document's state. */
  async get(id: string, options?: RequestOptions): Promise<Document> {
    return this.#transport.json({ method: "GET", path, query: { id: checkId(id) } }, options);
  }

  /**
   * Waits until a document is processed, and returns it. Its `status` is `ready`, or `failed` with
   * an `error`.
   */
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

  /** Finds the passages most similar to a question, best first. Agents search in the same way. */
  async search(question: string, { documentIds, metadata = {}, limit }: SearchOptions = {}, options?: RequestOptions): Promise<FoundList> {
    if (!question) throw new ParleyError("search requires a question");
    const pairs = Object.entries(metadata).map(([name, value]) => `${name}:${value}`);
    const query = { query: question, documentId: documentIds, metadata: pairs, limit };
    return this.#transport.json({ method: "GET", path, query }, options);
  }

  /** Downloads a document's original. */
  async download(id: string, options?: RequestOptions): Promise<Blob> {
    return this.#transport.blob({ method: "GET", path, query: { id: checkId(id), content: 1 } }, options);
  }

  /** Reads the text of a page. The first page is 1. */
  async page(id: string, page: number, options?: RequestOptions): Promise<DocumentPage> {
    return this.#transport.json({ method: "GET", path, query: { id: checkId(id), page } }, options);
  }

  /** Reads a passage and the passages around it. The first passage is 0. */
  async passages(id: string, chunk: number, options?: RequestOptions): Promise<DocumentPassages> {
    return this.#transport.json({ method: "GET", path, query: { id: checkId(id), chunk } }, options);
  }

  /**
   * Changes a document, or replaces its content with a file. Omitted fields keep their values. A
   * document with new content or a new name is processed again.
   */
  async update(id: string, change: DocumentChange | NewFile, options?: RequestOptions): Promise<Document> {
    const given = checkParams(change, "{ name }, { content }, { metadata } or { file, name }");
    return this.#transport.json({ method: "PUT", path, query: { id: checkId(id) }, body: "file" in given ? newForm(given) : given }, options);
  }

  /** Processes a failed or ready document again. */
  async retry(id: string, options?: RequestOptions): Promise<Document> {
    return this.#transport.json({ method: "POST", path, query: { id: checkId(id), action: "retry" } }, options);
  }

  /** Deletes a document. Its passages are no longer found or cited. */
  delete(id: string, options?: RequestOptions): Promise<Deleted> {
    return this.#transport.delete(path, id, options);
  }
}

function newForm({ file, name, metadata }: NewFile): FormData {
  const readable = file instanceof Blob || ArrayBuffer.isView(file);
  if (!readable) throw new ParleyError("file must be a Blob, a File or bytes; in Node use await openAsBlob(path)");
  const blob = file instanceof Blob ? file : new Blob([file as Uint8Array<ArrayBuffer>]);
  const called = name ?? (file as File).name;
  if (!called) throw new ParleyError("name is required for a file");
  const form = new FormData();
  if (metadata) form.append("metadata", JSON.stringify(metadata));
  form.append("file", blob, called);
  return form;
}
