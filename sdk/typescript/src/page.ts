import type { Query, RequestOptions, Transport } from "./transport.js";

interface Listed<T> {
  data: T[];
  hasMore: boolean;
  nextCursor: string | null;
}

/** A page of a list. Iterating it yields the entries of this page and of all following pages. */
export class Page<T> implements AsyncIterable<T> {
  /** The entries of this page. */
  readonly data: T[];
  /** Whether there is a next page. */
  readonly hasMore: boolean;
  /** The cursor of the next page, for the parameter `cursor`; null on the last page. */
  readonly nextCursor: string | null;
  readonly #next: (cursor: string) => Promise<Page<T>>;

  /** @internal */
  constructor(listed: Listed<T>, next: (cursor: string) => Promise<Page<T>>) {
    this.data = listed.data;
    this.hasMore = listed.hasMore;
    this.nextCursor = listed.nextCursor;
    this.#next = next;
  }

  /** Reads the next page. It resolves to null if this is the last page. */
  async nextPage(): Promise<Page<T> | null> {
    return this.nextCursor === null ? null : this.#next(this.nextCursor);
  }

  /** Yields the entries of this page and of all following pages, which are read on demand. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for (let page: Page<T> | null = this; page; page = await page.nextPage()) yield* page.data;
  }
}

/** The promise of a page. Iterating it yields the entries of all pages. */
export class PagePromise<T> extends Promise<Page<T>> implements AsyncIterable<T> {
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  /** Yields the entries of all pages. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    yield* await this;
  }
}

/** Lists the objects at a path. */
export function list<T>(transport: Transport, path: string, query: Query, options?: RequestOptions): PagePromise<T> {
  const read = async (more?: Query): Promise<Page<T>> => {
    const listed = await transport.json<Listed<T>>({ method: "GET", path, query: { ...query, ...more } }, options);
    return new Page(listed, (cursor) => read({ cursor }));
  };
  return new PagePromise((resolve) => resolve(read()));
}
