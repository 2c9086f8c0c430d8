// The block structure of Markdown: headings, lists, quotes, tables, code. The time per line is
// bounded, so that a hostile text takes no longer than a harmless text of the same length.

export interface Leaf {
  text: string;
  /** Whether the text is the beginning of an answer that is still being written. */
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
  /** Whether the task is done; set only for an item of a task list. */
  done: boolean | null;
  /** The number of the line on which the item starts. */
  line: number;
  blocks: Block[];
}

/** The maximum nesting depth of quotes and lists. Deeper ones become plain text. */
const maxDepth = 12;
const maxColumns = 100;

const indentWidth = (line: string): number => line.length - line.trimStart().length;
const blank = (line: string): boolean => line.trim() === "";

/** Expands the tabs before a line's text to spaces, because the parser counts columns in spaces. */
function expandTabs(line: string): string {
  const width = indentWidth(line);
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

function parseFence(line: string): Fence | null {
  const m = /^( {0,3})(`{3,}|~{3,})(.*)$/.exec(line);
  if (!m || (m[2]!.startsWith("`") && m[3]!.includes("`"))) return null;
  return { mark: m[2]!, indent: m[1]!.length, language: m[3]!.trim().split(/\s/, 1)[0]! };
}

function closes(line: string, fence: Fence): boolean {
  const text = line.trim();
  return indentWidth(line) < 4 && text.length >= fence.mark.length && text === fence.mark[0]!.repeat(text.length);
}

interface Marker {
  kind: string;
  number: number | null;
  /** The column at which the item's text starts. */
  width: number;
  empty: boolean;
}

function parseMarker(line: string): Marker | null {
  const m = /^( {0,3})([-+*]|\d{1,9}[.)])(?:([ \t]+)(?=[^ \t])|[ \t]*$)/.exec(line);
  if (!m || rule(line)) return null;
  const mark = m[2]!;
  const gap = m[3]?.length ?? 1;
  const number = mark.length > 1 ? Number.parseInt(mark, 10) : null;
  return { kind: mark.at(-1)!, number, width: m[1]!.length + mark.length + (gap > 4 ? 1 : gap), empty: m[3] === undefined };
}

function rule(line: string): boolean {
  const text = line.trim();
  if (!/^[-*_]/.test(text) || indentWidth(line) > 3) return false;
  const marks = text.replace(/[ \t]/g, "");
  return marks.length > 2 && marks === marks[0]!.repeat(marks.length);
}

const heading = (line: string): RegExpExecArray | null => /^ {0,3}(#{1,6})(?=[ \t]|$)/.exec(line);
const isQuote = (line: string): boolean => /^ {0,3}>/.test(line);

/** Whether a line ends the preceding paragraph. */
function interrupts(line: string): boolean {
  if (isQuote(line) || heading(line) || parseFence(line) || rule(line)) return true;
  const marker = parseMarker(line);
  return marker !== null && !marker.empty && (marker.number === null || marker.number === 1);
}

function splitCells(line: string): string[] {
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

/**
 * Returns the columns of a table that starts with these two lines, or null if no table starts
 * there.
 */
function parseColumns(head: string, line: string | undefined): Align[] | null {
  if (line === undefined || !head.includes("|") || !/^[ \t|:-]+$/.test(line) || indentWidth(line) > 3) return null;
  const cells = splitCells(line);
  if (cells.length > maxColumns || !cells.every((c) => /^:?-+:?$/.test(c)) || splitCells(head).length !== cells.length) return null;
  return cells.map((c) => {
    if (c.startsWith(":")) return c.endsWith(":") && c.length > 1 ? "center" : "left";
    return c.endsWith(":") ? "right" : undefined;
  });
}

/** Reads the lines of one container: the answer, a quote, or a list item. */
class Reader {
  at = 0;
  /** The first line of the newest block. */
  first = 0;
  /** Whether a blank line separates two blocks. */
  spaced = false;

  constructor(
    readonly lines: string[],
    readonly open: boolean,
    readonly depth: number,
  ) {}

  /** Returns the next block, or null after the last one. */
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

  /** Whether the last line read is the last line of an unfinished text. */
  private get ending(): boolean {
    return this.open && this.at >= this.lines.length;
  }

  private coded(line: string): Block | null {
    const text: string[] = [];
    const fence = parseFence(line);
    if (fence) {
      let closed = false;
      for (this.at++; this.at < this.lines.length && !closed; this.at++) {
        const inner = this.lines[this.at]!;
        if (closes(inner, fence)) closed = true;
        else text.push(inner.slice(Math.min(fence.indent, indentWidth(inner))));
      }
      return { type: "code", language: fence.language, text: text.join("\n"), open: !closed && this.ending };
    }
    if (indentWidth(line) < 4) return null;
    const first = this.at;
    let end = first;
    for (let i = first; i < this.lines.length && (blank(this.lines[i]!) || indentWidth(this.lines[i]!) > 3); i++) {
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
    if (this.depth >= maxDepth) return null;
    if (isQuote(line)) return this.quote();
    const marker = parseMarker(line);
    return marker && this.list(marker);
  }

  private quote(): Block {
    const inner: string[] = [];
    let fence: Fence | null = null;
    for (; this.at < this.lines.length; this.at++) {
      const line = this.lines[this.at]!;
      if (isQuote(line)) {
        const text = expandTabs(line.trimStart().slice(1).replace(/^ /, ""));
        if (fence) fence = closes(text, fence) ? null : fence;
        else fence = parseFence(text);
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
      marker = next === undefined ? null : parseMarker(next);
      loose ||= reader.spaced || (gap > 0 && marker?.kind === first.kind);
    }
    return { type: "list", start: first.number, loose, items };
  }

  /** Returns the lines of the item that starts here, without its marker and indentation. */
  private item(marker: Marker): string[] {
    let width = marker.width;
    const inner = [expandTabs(this.lines[this.at]!.slice(width))];
    let fence = parseFence(inner[0]!);
    for (this.at++; this.at < this.lines.length; this.at++) {
      const line = this.lines[this.at]!;
      const indent = indentWidth(line);
      // Models often indent bullets under a number by two spaces, although the rules require three.
      if (marker.number !== null && indent > 1 && indent < width && parseMarker(line)?.number === null) width = indent;
      if (!blank(line) && indent < width) {
        const before = inner.at(-1)!;
        if (fence || blank(before) || interrupts(line) || parseMarker(line) || heading(before) || closesAny(before)) break;
        inner.push(line.trimStart());
        continue;
      }
      const text = blank(line) ? "" : line.slice(width);
      if (fence) fence = closes(text, fence) ? null : fence;
      else fence = parseFence(text);
      inner.push(text);
    }
    return inner;
  }

  private table(): Block | null {
    const line = this.at;
    const head = this.lines[line]!;
    let align = parseColumns(head, this.lines[this.at + 1]);
    // While the second line of a table's header has not arrived, the header would appear as a
    // paragraph for a moment.
    if (!align && this.open && this.at === this.lines.length - 1 && head.trimStart().startsWith("|")) {
      align = splitCells(head).slice(0, maxColumns).map(() => undefined);
    }
    if (!align) return null;
    const rows: Leaf[][] = [];
    const columns = align.length;
    const row = (line: string) => splitCells(line).slice(0, columns).map((text) => ({ text, open: false }));
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
      if (blank(line) || interrupts(line) || parseColumns(line, this.lines[this.at + 1])) break;
      if (this.open && this.at === this.lines.length - 1 && line.trimStart().startsWith("|")) break;
      text.push(line.trimStart());
    }

    const open = this.ending;
    return { type: "paragraph", leaf: { text: open ? text.join("\n") : text.join("\n").trimEnd(), open } };
  }
}

const closesAny = (line: string): boolean => /^ {0,3}(?:```|~~~)/.test(line);

/**
 * Returns the part of an unfinished text that can be shown. It omits the last line if that contains
 * only markers.
 */
function stablePart(text: string): string {
  const from = text.lastIndexOf("\n") + 1;
  return /^[-+*=_~#|:>` \t]*(?:\d{1,9}[.)]?)?$/.test(text.slice(from)) ? text.slice(0, Math.max(0, from - 1)) : text;
}

/** The blocks of a text, and the part of them that later text cannot change. */
interface Outline {
  blocks: Block[];
  /** The number of final blocks. The field from is the offset of the remaining text. */
  final: number;
  from: number;
  /**
   * The number of final items or rows of the next block. The field inner is the offset of the text
   * after them.
   */
  kept: number;
  inner: number;
}

/** Returns the first lines of a list's items or a table's rows. */
function partLines(block: Block | undefined): number[] {
  if (block?.type === "list") return block.items.map((item) => item.line);
  return block?.type === "table" ? block.rows.map((_, i) => block.line + 2 + i) : [];
}

/** Parses a text. If open is true, the text is still being written. */
export function parseBlocks(text: string, open: boolean): Outline {
  const source = open ? stablePart(text) : text;
  const raw = source.split("\n");
  const reader = new Reader(raw.map((line) => expandTabs(line.endsWith("\r") ? line.slice(0, -1) : line)), open, 0);
  const blocks: Block[] = [];
  const starts: number[] = [];
  for (let start = 0, block = reader.next(); block; block = reader.next()) {
    blocks.push(block);
    starts.push(start);
    start = reader.at;
  }
  let final = Math.max(0, blocks.length - 1);
  // the last two lines may still turn out to belong to the previous block
  if (final > 0 && reader.first >= raw.length - 2) final--;

  const offset = (line: number): number => {
    let length = 0;
    for (let i = 0; i < line; i++) length += raw[i]!.length + 1;
    return length;
  };

  const parts = partLines(blocks[final]);
  const kept = Math.max(0, parts.findLastIndex((line) => line < raw.length - 2));
  return { blocks, final, from: offset(starts[final] ?? 0), kept, inner: offset(parts[kept] ?? 0) };
}
