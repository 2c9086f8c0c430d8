import { idOf } from "./given.js";
import type { RequestOptions, Transport } from "./transport.js";
import type { Source } from "./types.js";

/** The files that runs made. */
export class Files {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Downloads a file by its id in the `output.files` of a tool call. */
  async download(id: string, options?: RequestOptions): Promise<Blob> {
    return this.#transport.blob({ method: "GET", path: "/api/files", query: { id: idOf(id) } }, options);
  }
}

/** The texts that answers cite. */
export class Sources {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Reads a text by the `sourceId` of a citation, as it was when a run read it. */
  async get(id: string, options?: RequestOptions): Promise<Source> {
    return this.#transport.json({ method: "GET", path: "/api/sources", query: { id: idOf(id) } }, options);
  }
}
