// Renders the Markdown of answers as nodes that the caller creates, and never as HTML. HTML in an
// answer appears as text, and so do URLs and images from other hosts. A link works only if it leads
// to a source that the run cites, or to a path on this host.
import { parseBlocks, type Align, type Block, type Leaf } from "./blocks";
import { inline, type Span } from "./inline";
import type { Citation } from "../../../sdk/typescript/src/types";
import { labels, type Labels } from "./texts";

export type { Citation };

export type Child<N> = N | string | Child<N>[];
/**
 * The function that creates a node. It is Preact's h, or a function that creates elements.
 * Properties have their HTML names. Boolean attributes have boolean values.
 */
export type Make<N> = (tag: string, props: Record<string, string | number | boolean> | null, ...children: Child<N>[]) => N;

export interface MarkdownOptions<N> {
  h: Make<N>;
  /** The accessible names of parts. The default is English. */
  labels?: Labels;
  /** The run's citations in order, one for each marker in the answer. */
  citations?: readonly Citation[];
  /**
   * Creates the reference to a source. Its accessible name should be "Source 1: title". The default
   * is a number in brackets.
   */
  cite?: (citation: Citation) => N;
  /** Returns the path on this host to which a link in the answer leads, or null. */
  path?: (address: string) => string | null;
  /**
   * Returns the URL on this host for an image in the answer, for example a file of the run, or
   * null.
   */
  image?: (address: string) => string | null;
  /**
   * Creates a code block. If open is true, more code follows. If this function is missing or
   * returns null, the block consists of pre and code.
   */
  code?: (text: string, language: string, open: boolean) => N | null;
  /**
   * The number of levels by which headings are lowered, at least 1, because an answer never
   * contains the page's title.
   */
  lower?: number;
}

type List = Extract<Block, { type: "list" }>;
type Table = Extract<Block, { type: "table" }>;

/** The maximum nesting depth of spans. Deeper spans are rendered without their marks. */
const maxDepth = 12;

/**
 * Replaces characters that change the reading direction with U+FFFD, so that a text cannot look
 * different from its content.
 */
export const plain = (text: string): string => text.replace(/[\u202A-\u202E\u2066-\u2069\0]/g, "\uFFFD");

const ours = (address: string | null | undefined): address is string => address != null && /^\/(?![/\\])/.test(address);

class Frame<N> {
  readonly children: Child<N>[] = [];
  /** The text of a span's children. */
  text = "";

  constructor(
    readonly span: Span | null,
    readonly inLink: boolean,
  ) {}

  say(text: string): void {
    this.text += text;
    const last = this.children.length - 1;
    const before = this.children[last];
    if (typeof before === "string") this.children[last] = before + text;
    else if (text !== "") this.children.push(text);
  }
}

class Writer<N> {
  /** The number of references to each source that were rendered so far. */
  seen = new Map<number, number>();
  private readonly numbered = new Map<number, Citation[]>();
  private readonly links = new Set<string>();
  private readonly labels: Labels;

  constructor(private readonly o: MarkdownOptions<N>) {
    this.labels = o.labels ?? labels;
    for (const c of o.citations ?? []) {
      this.numbered.set(c.id, [...(this.numbered.get(c.id) ?? []), c]);
      if (/^https?:\/\//i.test(c.url)) this.links.add(c.url);
    }
  }

  blocks(list: Block[]): Child<N>[] {
    return list.map((block) => this.block(block));
  }

  // Blocks have no attribute dir="auto", with which browsers would determine a paragraph's
  // direction again for each new child. The style sheets set the direction instead.
  block(block: Block): N {
    const { h } = this.o;
    switch (block.type) {
      case "paragraph":
        return h("p", null, this.leaf(block.leaf));
      case "heading":
        return h(`h${Math.min(6, block.level + Math.max(1, this.o.lower ?? 1))}`, null, this.leaf(block.leaf));
      case "code":
        return this.code(plain(block.text), block.language, block.open);
      case "quote":
        return h("blockquote", null, this.blocks(block.blocks));
      case "list":
        return this.list(block);
      case "table":
        return this.table(block);
      case "rule":
        return h("hr", null);
    }
  }

  private code(text: string, language: string, open: boolean): N {
    const { h, code } = this.o;
    const name = /^[\w+#.-]{1,30}$/.test(language) ? language.toLowerCase() : "";
    return code?.(text, name, open) ?? h("pre", { tabindex: 0, dir: "ltr" }, h("code", null, text));
  }

  items({ loose, items }: List): N[] {
    const { h } = this.o;
    return items.map(({ done, blocks }) => {
      const children = blocks.flatMap((b): Child<N>[] => (b.type === "paragraph" && !loose ? this.leaf(b.leaf) : [this.block(b)]));
      if (done === null) return h("li", null, children);
      const box = h("input", { type: "checkbox", disabled: true, checked: done, "aria-label": done ? this.labels.done : this.labels.notDone });
      return h("li", { class: "task-item" }, [box, " ", ...children]);
    });
  }

  /** Renders the rest of a list, after the items that are already finished. */
  list(block: List, before: N[] = []): N {
    const { start } = block;
    const items = before.concat(this.items(block));
    if (start === null) return this.o.h("ul", null, items);
    return this.o.h("ol", start === 1 ? null : { start }, items);
  }

  private row(tag: string, cells: Leaf[], align: Align[]): N {
    const { h } = this.o;
    return h("tr", null, cells.map((leaf, i) => h(tag, align[i] ? { class: `to-${align[i]}` } : null, this.leaf(leaf))));
  }

  top({ head, align }: Table): N {
    return this.o.h("thead", null, this.row("th", head, align));
  }

  rows({ rows, align }: Table): N[] {
    return rows.map((cells) => this.row("td", cells, align));
  }

  /** Renders the rest of a table, after the rows that are already finished. */
  table(block: Table, top: N = this.top(block), before: N[] = []): N {
    const { h } = this.o;
    const table = h("table", null, [top, h("tbody", null, before.concat(this.rows(block)))]);
    return h("div", { class: "table-box", role: "region", "aria-label": this.labels.table, tabindex: 0 }, table);
  }

  /** Renders the text of a leaf. Spans that are nested too deeply lose their marks. */
  private leaf({ text, open }: Leaf): Child<N>[] {
    const { h } = this.o;
    const frames = [new Frame<N>(null, false)];
    let skipped = 0;
    let said = "";
    const flush = () => {
      if (said !== "") frames.at(-1)!.say(plain(said));
      said = "";
    };
    const close = () => {
      if (skipped > 0) skipped--;
      else if (frames.length > 1) this.end(frames.pop()!, frames.at(-1)!);

    };
    for (const piece of inline(text, open)) {
      if (piece.closes > 0 || piece.kind !== "text") flush();
      for (let i = 0; i < piece.closes; i++) close();
      const top = frames.at(-1)!;
      if (piece.kind === "break") top.children.push(h("br", null));
      else if (piece.kind === "cite") this.cite(piece.text, top, open);
      else if (piece.kind === "text") said += piece.text;
      else {
        const code = plain(piece.text);
        top.text += code;
        top.children.push(h("code", { dir: "ltr" }, code));
      }
      if (piece.opens.length > 0) flush();
      for (let i = piece.opens.length - 1; i >= 0; i--) {
        const span = piece.opens[i]!;
        if (frames.length > maxDepth) skipped++;
        else frames.push(new Frame<N>(span, frames.at(-1)!.inLink || span.tag === "link"));
      }
    }
    flush();
    while (frames.length > 1) this.end(frames.pop()!, frames.at(-1)!);
    return frames[0]!.children;
  }

  private end(frame: Frame<N>, outer: Frame<N>): void {
    const { h } = this.o;
    const { tag, address } = frame.span!;
    if (tag === "link" || tag === "image") {
      const made = address === null ? frame.children : tag === "link" ? this.link(frame, address) : this.image(frame, address);
      for (const child of made) {
        if (typeof child === "string") outer.say(child);
        else outer.children.push(child);
      }
    } else outer.children.push(h(tag, null, frame.children));
    outer.text += frame.text;
  }

  private link({ children, text }: Frame<N>, address: string): Child<N>[] {
    const { h, path } = this.o;
    if (this.links.has(address)) return [h("a", { href: address, title: plain(address), target: "_blank", rel: "noopener noreferrer" }, children)];
    const local = path?.(address);
    if (ours(local)) return [h("a", { href: local }, children)];
    return this.unlinked(children, text, address);
  }

  private image({ children, text }: Frame<N>, address: string): Child<N>[] {
    const src = this.o.image?.(address);
    if (ours(src)) return [this.o.h("img", { src, alt: text, loading: "lazy" })];
    return this.unlinked(children, text, address);
  }

  /** Renders a link that must not work: its text, and its URL if that differs from the text. */
  private unlinked(children: Child<N>[], text: string, address: string): Child<N>[] {
    const shown = plain(address);
    if (text === "") return [shown];
    return text === address || address === "" ? children : [...children, ` (${shown})`];
  }

  private cite(number: string, top: Frame<N>, open: boolean): void {
    const id = Number(number);
    const all = this.numbered.get(id);
    if (all && !top.inLink) {
      const nth = this.seen.get(id) ?? 0;
      this.seen.set(id, nth + 1);
      const citation = all[Math.min(nth, all.length - 1)]!;
      top.children.push(this.o.cite?.(citation) ?? this.o.h("sup", null, `[${id}]`));
    } else if (open) top.children.push(this.o.h("sup", { class: "cite-pending" }, number)); // the source has not arrived yet
    else top.say(`[${number}]`);
  }
}

/** Renders a complete answer. */
export function markdown<N>(text: string, options: MarkdownOptions<N>): N[] {
  const writer = new Writer(options);
  return parseBlocks(text, false).blocks.map((block) => writer.block(block));
}

/** The finished part of a list or table that is still being written. */
interface Part<N> {
  /** The offset at which the part starts in the text, and the reference counts before it. */
  begin: number;
  seen: Map<number, number>;
  made: N[];
  /** The start number of a list, and whether the list is loose. */
  start: number | null;
  loose: boolean;
  /** The header lines of a table, which its later rows need, and the rendered header. */
  head: string;
  top: N | null;
}

/**
 * Renders an answer while it is being written. Finished blocks, items and rows are rendered once
 * and keep their nodes.
 */
export class LiveMarkdown<N> {
  private text = "";
  private done: N[] = [];
  private from = 0;
  private part: Part<N> | null = null;
  private writer: Writer<N>;

  constructor(private readonly options: MarkdownOptions<N>) {
    this.writer = new Writer(options);
  }

  /**
   * Returns the nodes for the text so far. If open is true, more text follows. If the text does not
   * begin with the previous text, all of it is rendered again.
   */
  update(text: string, open: boolean): N[] {
    if (!text.startsWith(this.text)) {
      this.done = [];
      this.from = 0;
      this.part = null;
      this.writer = new Writer(this.options);
    }
    this.text = text;

    const head = this.part?.head ?? "";
    const at = this.from - head.length;
    const source = head + text.slice(this.from);
    const { blocks, final, from, kept, inner } = parseBlocks(source, open);

    if (this.part && !this.continues(this.part, blocks)) return this.again(this.part, open);
    for (const block of blocks.slice(0, final)) {
      this.done.push(this.make(block, this.part));
      this.part = null;
    }

    if (final > 0) this.from = at + from;
    const live = blocks.slice(final);
    if (kept > 0 && live[0]) {
      live[0] = this.keep(live[0], kept, source);
      this.from = at + inner;
    }

    const { seen } = this.writer;
    this.writer.seen = new Map(seen); // the unfinished nodes are rendered again
    const nodes = live.map((block, i) => this.make(block, i === 0 ? this.part : null));
    this.writer.seen = seen;
    return [...this.done, ...nodes];
  }

  /**
   * Reports whether the first block continues the unfinished part. The block then inherits the
   * properties of the part.
   */
  private continues(part: Part<N>, blocks: Block[]): boolean {
    const first = blocks[0];
    if (part.top) return first?.type === "table";
    if (first?.type !== "list" || (first.loose && !part.loose)) return false;
    first.start = part.start;
    first.loose = part.loose;
    return true;
  }

  /**
   * Renders the unfinished part again from its start, because its list has become loose: its items
   * now contain paragraphs.
   */
  private again({ begin, seen }: Part<N>, open: boolean): N[] {
    this.part = null;
    this.from = begin;
    this.writer.seen = seen;
    return this.update(this.text, open);
  }

  private make(block: Block, part: Part<N> | null): N {
    const { writer } = this;
    if (block.type === "list") return writer.list(block, part?.made);
    if (block.type === "table") return writer.table(block, part?.top ?? undefined, part?.made);
    return writer.block(block);
  }

  /**
   * Renders the first items or rows of a block permanently, and returns the rest of the block. kept
   * is the number of items or rows.
   */
  private keep(block: Block, kept: number, source: string): Block {
    const { writer } = this;
    const begin = { begin: this.from, seen: new Map(writer.seen), made: [], start: null, loose: false, head: "", top: null };
    if (block.type === "list") {
      this.part ??= { ...begin, start: block.start, loose: block.loose };
      this.part.made = this.part.made.concat(writer.items({ ...block, items: block.items.slice(0, kept) }));
      return { ...block, items: block.items.slice(kept) };
    }

    if (block.type !== "table") return block;
    const head = source.split("\n").slice(block.line, block.line + 2).join("\n");
    this.part ??= { ...begin, head: `${head}\n`, top: writer.top(block) };
    this.part.made = this.part.made.concat(writer.rows({ ...block, rows: block.rows.slice(0, kept) }));
    return { ...block, rows: block.rows.slice(kept) };
  }
}
