// Answers as they are shown: Markdown becomes nodes, made by whoever calls, and never HTML. What an answer names is shown
// as text: HTML, addresses, images of others. A link is one only to a source that the run cites, or to a path of ours.
import { blocksOf, type Block, type Item, type Leaf } from "./blocks";
import { inline, type Span } from "./inline";

export interface Citation {
  id: number;
  type: string;
  title: string;
  url: string;
  citedText: string;
  startIndex: number;
  endIndex: number;
  documentId: string | null;
  page: number | null;
  sourceId?: string | null;
}

export type Child<N> = N | string | Child<N>[];
/** Makes a node: Preact's h, or one that makes elements. Properties are HTML's names; what is true or false is boolean. */
export type Make<N> = (tag: string, props: Record<string, string | number | boolean> | null, ...children: Child<N>[]) => N;

export interface MarkdownOptions<N> {
  h: Make<N>;
  /** Of the run, in their order: one for each marker of the answer. */
  citations?: readonly Citation[];
  /** Makes the reference to a source; it should be named "Source 1: title". Without it: a number, in square brackets. */
  cite?: (citation: Citation) => N;
  /** The address on this host that a link of the answer leads to, or null if it is none of ours. */
  path?: (address: string) => string | null;
  /** The address on this host of an image of the answer, such as a file of the run, or null. */
  image?: (address: string) => string | null;
  /** Makes a code block; open: more of it is to come. Without it, or when it gives null: pre and code. */
  code?: (text: string, language: string, open: boolean) => N | null;
  /** By how much headings are lowered; at least 1, for an answer is never a page's title. */
  lower?: number;
}

/** Spans inside each other beyond this are not marked. */
const deepest = 12;

/** Characters that make text be read in another order than it stands are shown as what they are: something odd. */
const plain = (text: string): string => text.replace(/[\u202A-\u202E\u2066-\u2069\0]/g, "\uFFFD");

const ours = (address: string | null | undefined): address is string => address != null && /^\/(?![/\\])/.test(address);

class Frame<N> {
  readonly children: Child<N>[] = [];
  /** What of them is text. */
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
  /** How often each source was referred to. */
  seen = new Map<number, number>();
  private readonly numbered = new Map<number, Citation[]>();
  private readonly links = new Set<string>();

  constructor(private readonly o: MarkdownOptions<N>) {
    for (const c of o.citations ?? []) {
      this.numbered.set(c.id, [...(this.numbered.get(c.id) ?? []), c]);
      if (/^https?:\/\//i.test(c.url)) this.links.add(c.url);
    }
  }

  blocks(list: Block[]): Child<N>[] {
    return list.map((block) => this.block(block));
  }

  // No dir="auto": with it browsers look for a paragraph's direction anew with each child. The style sheets say it.
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
        return this.list(block.start, block.loose, block.items);
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

  private list(start: number | null, loose: boolean, items: Item[]): N {
    const { h } = this.o;
    const made = items.map(({ done, blocks }) => {
      const children = blocks.flatMap((b): Child<N>[] => (b.type === "paragraph" && !loose ? this.leaf(b.leaf) : [this.block(b)]));
      if (done === null) return h("li", null, children);
      const box = h("input", { type: "checkbox", disabled: true, checked: done, "aria-label": done ? "Done" : "Not done" });
      return h("li", { class: "task-item" }, [box, " ", ...children]);
    });
    if (start === null) return h("ul", null, made);
    return h("ol", start === 1 ? null : { start }, made);
  }

  private table({ align, head, rows }: Extract<Block, { type: "table" }>): N {
    const { h } = this.o;
    const cell = (tag: string) => (leaf: Leaf, i: number) => {
      const side = align[i];
      return h(tag, side ? { class: `to-${side}` } : null, this.leaf(leaf));
    };
    const top = h("thead", null, h("tr", null, head.map(cell("th"))));
    const body = rows.map((row) => h("tr", null, row.map(cell("td"))));
    const table = h("table", null, [top, h("tbody", null, body)]);
    return h("div", { class: "table-box", role: "region", "aria-label": "Table", tabindex: 0 }, table);
  }

  /** A leaf's text. What is nested too deep is told without its marks. */
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
        top.text += piece.text;
        top.children.push(h("code", { dir: "ltr" }, plain(piece.text)));
      }
      if (piece.opens.length > 0) flush();
      for (let i = piece.opens.length - 1; i >= 0; i--) {
        const span = piece.opens[i]!;
        if (frames.length > deepest) skipped++;
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
    if (this.links.has(address)) return [h("a", { href: address, title: address, target: "_blank", rel: "noopener noreferrer" }, children)];
    const local = path?.(address);
    if (ours(local)) return [h("a", { href: local }, children)];
    return this.told(children, text, address);
  }

  private image({ children, text }: Frame<N>, address: string): Child<N>[] {
    const src = this.o.image?.(address);
    if (ours(src)) return [this.o.h("img", { src, alt: text, loading: "lazy" })];
    return this.told(children, text, address);
  }

  /** Something that leads nowhere: its text, and its address unless that is the text. */
  private told(children: Child<N>[], text: string, address: string): Child<N>[] {
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
    } else if (open) top.children.push(this.o.h("sup", { class: "cite-pending" }, number)); // its source is told later
    else top.say(`[${number}]`);
  }
}

/** An answer's nodes. */
export function markdown<N>(text: string, options: MarkdownOptions<N>): N[] {
  const writer = new Writer(options);
  return blocksOf(text, false).blocks.map((block) => writer.block(block));
}

/** An answer while it is being written: blocks that are over are made once, and stay the same nodes. */
export class Growing<N> {
  private text = "";
  private done: N[] = [];
  private from = 0;
  private writer: Writer<N>;

  constructor(private readonly options: MarkdownOptions<N>) {
    this.writer = new Writer(options);
  }

  /** The nodes of the text so far; open: more of it is to come. A text that does not begin with the last one starts anew. */
  update(text: string, open: boolean): N[] {
    if (!text.startsWith(this.text)) {
      this.done = [];
      this.from = 0;
      this.writer = new Writer(this.options);
    }
    this.text = text;
    const { blocks, final, from } = blocksOf(text.slice(this.from), open);
    for (const block of blocks.slice(0, final)) this.done.push(this.writer.block(block));
    this.from += from;
    const { seen } = this.writer;
    this.writer.seen = new Map(seen); // what is written here is written again
    const rest = blocks.slice(final).map((block) => this.writer.block(block));
    this.writer.seen = seen;
    return [...this.done, ...rest];
  }
}
