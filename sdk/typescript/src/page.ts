import type { Query, RequestOptions, Transport } from "./transport.js";

interface Listed<T> {
  data: T[];
  hasMore: boolean;
  nextCursor: string | null;
}

/** One page of a list, and by iterating it the entries of all pages from it on. */
export class Page<T> implements AsyncIterable<T> {
  /** The entries of this page. */
  readonly data: T[];
  /** There is a next page. */
  readonly hasMore: boolean;
  /** What names the next page, for the list's parameter `cursor`; null on the last one. */
  readonly nextCursor: string | null;
  readonly #next: (cursor: string) => Promise<Page<T>>;

  /** @internal */
  constructor(listed: Listed<T>, next: (cursor: string) => Promise<Page<T>>) {
    this.data = listed.data;
    this.hasMore = listed.hasMore;
    this.nextCursor = listed.nextCursor;
    this.#next = next;
  }

  /** Reads the next page; null behind the last one. */
  async nextPage(): Promise<Page<T> | null> {
    return this.nextCursor === null ? null : this.#next(this.nextCursor);
  }

  /** Gives the entries of this page and of all pages behind it, which are read when their turn comes. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for (let page: Page<T> | null = this; page; page = await page.nextPage()) yield* page.data;
  }
}

/** The promise of a page; iterating it gives the entries of all pages. */
export class PagePromise<T> extends Promise<Page<T>> implements AsyncIterable<T> {
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  /** Gives the entries of all pages. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    yield* await this;
  }
}

/** Lists what stands at a path. */
export function list<T>(transport: Transport, path: string, query: Query, options?: RequestOptions): PagePromise<T> {
  const read = async (more?: Query): Promise<Page<T>> => {
    const listed = await transport.json<Listed<T>>({ method: "GET", path, query: { ...query, ...more } }, options);
    return new Page(listed, (cursor) => read({ cursor }));
  };
  return new PagePromise((resolve) => resolve(read()));
}
