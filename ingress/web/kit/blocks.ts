// Markdown's blocks: headings, lists, quotes, tables, code. Every step looks at a line a bounded number of times, so that
// a hostile text costs no more than a friendly one of its length.

export interface Leaf {
  text: string;
  /** The text goes on: it is the last of an answer that is still being written. */
  open: boolean;
}
export type Align = "left" | "center" | "right" | undefined;
export type Block =
  | { type: "paragraph"; leaf: Leaf }
  | { type: "heading"; level: number; leaf: Leaf }
  | { type: "code"; language: string; text: string; open: boolean }
  | { type: "quote"; blocks: Block[] }
  | { type: "list"; start: number | null; loose: boolean; items: Item[] }
  | { type: "table"; line: number; align: Align[]; head: Leaf[]; rows: Leaf[][] }
  | { type: "rule" };
export interface Item {
  /** Of a task list: whether it is done. */
  done: boolean | null;
  /** The line that it begins with. */
  line: number;
  blocks: Block[];
}

/** Quotes and lists inside each other beyond this are text. */
const deepest = 12;
const mostColumns = 100;

const indentOf = (line: string): number => line.length - line.trimStart().length;
const blank = (line: string): boolean => line.trim() === "";

/** Tabs before a line's text become spaces: columns are counted in them. */
function untabbed(line: string): string {
  const width = indentOf(line);
  if (!line.slice(0, width).includes("\t")) return line;
  let spaces = "";
  for (const c of line.slice(0, width)) spaces += c === "\t" ? " ".repeat(4 - (spaces.length % 4)) : " ";
  return spaces + line.slice(width);
}

interface Fence {
  mark: string;
  indent: number;
  language: string;
}

function fenceOf(line: string): Fence | null {
  const m = /^( {0,3})(`{3,}|~{3,})(.*)$/.exec(line);
  if (!m || (m[2]!.startsWith("`") && m[3]!.includes("`"))) return null;
  return { mark: m[2]!, indent: m[1]!.length, language: m[3]!.trim().split(/\s/, 1)[0]! };
}

function closes(line: string, fence: Fence): boolean {
  const text = line.trim();
  return indentOf(line) < 4 && text.length >= fence.mark.length && text === fence.mark[0]!.repeat(text.length);
}

interface Marker {
  kind: string;
  number: number | null;
  /** Where the item's text begins. */
  width: number;
  empty: boolean;
}

function markerOf(line: string): Marker | null {
  const m = /^( {0,3})([-+*]|\d{1,9}[.)])(?:([ \t]+)(?=[^ \t])|[ \t]*$)/.exec(line);
  if (!m || rule(line)) return null;
  const mark = m[2]!;
  const gap = m[3]?.length ?? 1;
  const number = mark.length > 1 ? Number.parseInt(mark, 10) : null;
  return { kind: mark.at(-1)!, number, width: m[1]!.length + mark.length + (gap > 4 ? 1 : gap), empty: m[3] === undefined };
}

function rule(line: string): boolean {
  const text = line.trim();
  if (!/^[-*_]/.test(text) || indentOf(line) > 3) return false;
  const marks = text.replace(/[ \t]/g, "");
  return marks.length > 2 && marks === marks[0]!.repeat(marks.length);
}

const heading = (line: string): RegExpExecArray | null => /^ {0,3}(#{1,6})(?=[ \t]|$)/.exec(line);
const quoted = (line: string): boolean => /^ {0,3}>/.test(line);

/** Whether a line ends the paragraph before it. */
function interrupts(line: string): boolean {
  if (quoted(line) || heading(line) || fenceOf(line) || rule(line)) return true;
  const marker = markerOf(line);
  return marker !== null && !marker.empty && (marker.number === null || marker.number === 1);
}

function cellsOf(line: string): string[] {
  const cells: string[] = [];
  let cell = "";
  const text = line.trim();
  for (let i = text.startsWith("|") ? 1 : 0; i < text.length; i++) {
    const c = text[i]!;
    if (c === "\\" && text[i + 1] === "|") cell += text[++i]!;
    else if (c !== "|") cell += c;
    else {
      cells.push(cell.trim());
      cell = "";
    }
  }
  if (cell.trim() !== "" || cells.length === 0) cells.push(cell.trim());
  return cells;
}

/** The columns of a table that begins with these two lines. */
function columnsOf(head: string, line: string | undefined): Align[] | null {
  if (line === undefined || !head.includes("|") || !/^[ \t|:-]+$/.test(line) || indentOf(line) > 3) return null;
  const cells = cellsOf(line);
  if (cells.length > mostColumns || !cells.every((c) => /^:?-+:?$/.test(c)) || cellsOf(head).length !== cells.length) return null;
  return cells.map((c) => {
    if (c.startsWith(":")) return c.endsWith(":") && c.length > 1 ? "center" : "left";
    return c.endsWith(":") ? "right" : undefined;
  });
}

/** One container's lines: the answer's, a quote's, or an item's. */
class Reader {
  at = 0;
  /** Where the newest block begins. */
  first = 0;
  /** A blank line stood between two blocks. */
  spaced = false;

  constructor(
    readonly lines: string[],
    readonly open: boolean,
    readonly depth: number,
  ) {}

  /** The next block, null behind the last one. */
  next(): Block | null {
    const from = this.at;
    while (this.at < this.lines.length && blank(this.lines[this.at]!)) this.at++;
    const line = this.lines[this.at];
    if (line === undefined) return null;
    if (from > 0 && this.at > from) this.spaced = true;
    this.first = this.at;
    return this.coded(line) ?? this.single(line) ?? this.nested(line) ?? this.table() ?? this.paragraph();
  }

  rest(): Block[] {
    const blocks: Block[] = [];
    for (let block = this.next(); block; block = this.next()) blocks.push(block);
    return blocks;
  }

  /** Whether the last line taken was the last of what is still being written. */
  private get ending(): boolean {
    return this.open && this.at >= this.lines.length;
  }

  private coded(line: string): Block | null {
    const text: string[] = [];
    const fence = fenceOf(line);
    if (fence) {
      let closed = false;
      for (this.at++; this.at < this.lines.length && !closed; this.at++) {
        const inner = this.lines[this.at]!;
        if (closes(inner, fence)) closed = true;
        else text.push(inner.slice(Math.min(fence.indent, indentOf(inner))));
      }
      return { type: "code", language: fence.language, text: text.join("\n"), open: !closed && this.ending };
    }
    if (indentOf(line) < 4) return null;
    const first = this.at;
    let end = first;
    for (let i = first; i < this.lines.length && (blank(this.lines[i]!) || indentOf(this.lines[i]!) > 3); i++) {
      if (!blank(this.lines[i]!)) end = i + 1;
    }
    for (const inner of this.lines.slice(first, end)) text.push(inner.slice(4));
    this.at = end;
    return { type: "code", language: "", text: text.join("\n"), open: this.ending };
  }

  private single(line: string): Block | null {
    const mark = heading(line);
    if (mark) {
      this.at++;
      let text = line.slice(mark[0].length).trim();
      let end = text.length;
      while (text[end - 1] === "#") end--;
      if (end === 0 || /[ \t]/.test(text[end - 1]!)) text = text.slice(0, end).trim();
      return { type: "heading", level: mark[1]!.length, leaf: { text, open: this.ending } };
    }
    if (!rule(line)) return null;
    this.at++;
    return { type: "rule" };
  }

  private nested(line: string): Block | null {
    if (this.depth >= deepest) return null;
    if (quoted(line)) return this.quote();
    const marker = markerOf(line);
    return marker && this.list(marker);
  }

  private quote(): Block {
    const inner: string[] = [];
    let fence: Fence | null = null;
    for (; this.at < this.lines.length; this.at++) {
      const line = this.lines[this.at]!;
      if (quoted(line)) {
        const text = untabbed(line.trimStart().slice(1).replace(/^ /, ""));
        if (fence) fence = closes(text, fence) ? null : fence;
        else fence = fenceOf(text);
        inner.push(text);
        continue;
      }
      const before = inner.at(-1)!;
      if (fence || blank(line) || blank(before) || interrupts(line) || heading(before) || closesAny(before) || rule(before)) break;
      inner.push(line.trimStart());
    }
    return { type: "quote", blocks: new Reader(inner, this.ending, this.depth + 1).rest() };
  }

  private list(first: Marker): Block {
    const items: Item[] = [];
    let loose = false;
    for (let marker: Marker | null = first; marker && marker.kind === first.kind; ) {
      const line = this.at;
      const inner = this.item(marker);
      let gap = 0;
      while (inner.length > 1 && blank(inner.at(-1)!)) gap += inner.pop() === "" ? 1 : 0;
      const task = /^\[([ xX])\](?=[ \t])/.exec(inner[0]!);
      if (task) inner[0] = inner[0]!.slice(task[0].length).trimStart();
      const reader = new Reader(inner, this.ending, this.depth + 1);
      items.push({ done: task ? task[1] !== " " : null, line, blocks: reader.rest() });
      const next: string | undefined = this.lines[this.at];
      marker = next === undefined ? null : markerOf(next);
      loose ||= reader.spaced || (gap > 0 && marker?.kind === first.kind);
    }
    return { type: "list", start: first.number, loose, items };
  }

  /** The lines of the item that begins here, without its mark and indentation. */
  private item(marker: Marker): string[] {
    let width = marker.width;
    const inner = [untabbed(this.lines[this.at]!.slice(width))];
    let fence = fenceOf(inner[0]!);
    for (this.at++; this.at < this.lines.length; this.at++) {
      const line = this.lines[this.at]!;
      const indent = indentOf(line);
      // bullets under a number are often indented by two, where the rules want three
      if (marker.number !== null && indent > 1 && indent < width && markerOf(line)?.number === null) width = indent;
      if (!blank(line) && indent < width) {
        const before = inner.at(-1)!;
        if (fence || blank(before) || interrupts(line) || markerOf(line) || heading(before) || closesAny(before)) break;
        inner.push(line.trimStart());
        continue;
      }
      const text = blank(line) ? "" : line.slice(width);
      if (fence) fence = closes(text, fence) ? null : fence;
      else fence = fenceOf(text);
      inner.push(text);
    }
    return inner;
  }

  private table(): Block | null {
    const line = this.at;
    const head = this.lines[line]!;
    let align = columnsOf(head, this.lines[this.at + 1]);
    // a header whose second line is yet to come would be shown as a paragraph for a moment
    if (!align && this.open && this.at === this.lines.length - 1 && head.trimStart().startsWith("|")) {
      align = cellsOf(head).slice(0, mostColumns).map(() => undefined);
    }
    if (!align) return null;
    const rows: Leaf[][] = [];
    const columns = align.length;
    const row = (line: string) => cellsOf(line).slice(0, columns).map((text) => ({ text, open: false }));
    for (this.at += 2; this.at < this.lines.length; this.at++) {
      const line = this.lines[this.at]!;
      if (blank(line) || interrupts(line)) break;
      rows.push(row(line));
    }
    const cells = row(head);
    const newest = (rows.at(-1) ?? cells).at(-1);
    if (newest) newest.open = this.ending;
    return { type: "table", line, align, head: cells, rows };
  }

  private paragraph(): Block {
    const text = [this.lines[this.at]!.trimStart()];
    for (this.at++; this.at < this.lines.length; this.at++) {
      const line = this.lines[this.at]!;
      const under = /^ {0,3}(?:(=)=*|--*)[ \t]*$/.exec(line);
      if (under) {
        this.at++;
        return { type: "heading", level: under[1] ? 1 : 2, leaf: { text: text.join("\n").trimEnd(), open: this.ending } };
      }
      if (blank(line) || interrupts(line) || columnsOf(line, this.lines[this.at + 1])) break;
      if (this.open && this.at === this.lines.length - 1 && line.trimStart().startsWith("|")) break;
      text.push(line.trimStart());
    }
    const open = this.ending;
    return { type: "paragraph", leaf: { text: open ? text.join("\n") : text.join("\n").trimEnd(), open } };
  }
}

const closesAny = (line: string): boolean => /^ {0,3}(?:```|~~~)/.test(line);

/** What of an answer that is still being written is shown: not the marks of a line of which nothing else has come. */
function settled(text: string): string {
  const from = text.lastIndexOf("\n") + 1;
  return /^[-+*=_~#|:>` \t]*(?:\d{1,9}[.)]?)?$/.test(text.slice(from)) ? text.slice(0, Math.max(0, from - 1)) : text;
}

/** The blocks of a text, and what of them stays as it is, whatever is added. */
interface Outline {
  blocks: Block[];
  /** So many blocks stay; the text behind them begins at from. */
  final: number;
  from: number;
  /** So many items or rows of the block behind them stay, too; the text behind those begins at inner. */
  kept: number;
  inner: number;
}

/** The lines that the items of a list, or the rows of a table, begin with. */
function partsOf(block: Block | undefined): number[] {
  if (block?.type === "list") return block.items.map((item) => item.line);
  return block?.type === "table" ? block.rows.map((_, i) => block.line + 2 + i) : [];
}

/** Reads a text. */
export function blocksOf(text: string, open: boolean): Outline {
  const source = open ? settled(text) : text;
  const raw = source.split("\n");
  const reader = new Reader(raw.map((line) => untabbed(line.endsWith("\r") ? line.slice(0, -1) : line)), open, 0);
  const blocks: Block[] = [];
  const starts: number[] = [];
  for (let start = 0, block = reader.next(); block; block = reader.next()) {
    blocks.push(block);
    starts.push(start);
    start = reader.at;
  }
  let final = Math.max(0, blocks.length - 1);
  // what the newest two lines begin may yet turn out to belong to the block before
  if (final > 0 && reader.first >= raw.length - 2) final--;
  const offset = (line: number): number => {
    let length = 0;
    for (let i = 0; i < line; i++) length += raw[i]!.length + 1;
    return length;
  };
  const parts = partsOf(blocks[final]);
  const kept = Math.max(0, parts.findLastIndex((line) => line < raw.length - 2));
  return { blocks, final, from: offset(starts[final] ?? 0), kept, inner: offset(parts[kept] ?? 0) };
}
