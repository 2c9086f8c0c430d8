// The inline structure of Markdown: emphasis, code, links, citations. The result is a flat list of
// pieces that open and close spans. It is not a tree, so that no text can cause deep recursion in
// code that reads it.

type Tag = "em" | "strong" | "del" | "link" | "image";
export interface Span {
  tag: Tag;
  /** The URL of a link or an image; null while the URL is still being written. */
  address: string | null;
}
export interface Piece {
  kind: "text" | "code" | "break" | "cite";
  text: string;
  /** The number of spans that end before the text. */
  closes: number;
  /** The spans that begin after the text, the innermost first. */
  opens: Span[];
}

interface Run {
  piece: Piece;
  mark: string;
  count: number;
  length: number;
  canOpen: boolean;
  canClose: boolean;
  at: number;
  before: Run | null;
  after: Run | null;
}
interface Bracket {
  index: number;
  image: boolean;
  from: number;
  run: Run | null;
}

const maxAddress = 2048;
const entities: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00A0" };
const special = /[\\`*_~[\]!&\n]/g;
const punctuation = /^[\p{P}\p{S}]/u;

const isSpace = (c: string): boolean => c === "" || /^\s/.test(c);

class Reader {
  private at = 0;
  private readonly pieces: Piece[] = [];
  private readonly brackets: Bracket[] = [];
  private newest: Run | null = null;
  private counted = 0;
  /** The positions of runs of backticks in descending order, by length of the run. */
  private ticks: Map<number, number[]> | null = null;

  constructor(
    private readonly text: string,
    private readonly open: boolean,
  ) {}

  read(): Piece[] {
    while (this.at < this.text.length) {
      special.lastIndex = this.at;
      const next = special.exec(this.text)?.index ?? this.text.length;
      if (next > this.at) this.put("text", this.text.slice(this.at, next));
      this.at = next;
      if (next < this.text.length) this.step(this.text[next]!);
    }
    this.unfinished();
    this.pair(null);
    return this.pieces;
  }

  private put(kind: Piece["kind"], text: string): Piece {
    const piece: Piece = { kind, text, closes: 0, opens: [] };
    this.pieces.push(piece);
    return piece;
  }

  private step(c: string): void {
    if (c === "\\") this.escape();
    else if (c === "`") this.code();
    else if (c === "\n") this.lineBreak();
    else if (c === "&") this.entity();
    else if (c === "[") this.bracket(false);
    else if (c === "!") {
      if (this.text[this.at + 1] === "[") this.bracket(true);
      else this.literal(1);
    } else if (c === "]") this.close();
    else this.run(c);
  }

  private literal(length: number): void {
    this.put("text", this.text.slice(this.at, this.at + length));
    this.at += length;
  }

  private escape(): void {
    const next = this.text[this.at + 1] ?? "";
    if (next === "\n") {
      this.put("break", "");
      this.at += 2;
    } else if (/^[!-/:-@[-`{-~]$/.test(next)) {
      this.put("text", next);
      this.at += 2;
    } else if (next === "" && this.open) this.at++;
    else this.literal(1);
  }

  private lineBreak(): void {
    const last = this.pieces.at(-1);
    this.at++;
    if (last?.kind !== "text") {
      this.put("text", "\n");
      return;
    }
    const kept = last.text.trimEnd();
    if (last.text.length - kept.length > 1 && last.text.endsWith("  ")) this.put("break", "");
    else this.put("text", "\n");
    last.text = kept;
  }

  private entity(): void {
    const m = /^&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(\w{2,4}));/.exec(this.text.slice(this.at, this.at + 12));
    const code = m?.[1] !== undefined ? Number.parseInt(m[1], 10) : Number.parseInt(m?.[2] ?? "", 16);
    const named = m?.[3] !== undefined && Object.hasOwn(entities, m[3]) ? entities[m[3]] : undefined;
    const text = named ?? (code > 31 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : undefined);
    if (!m || text === undefined) {
      this.literal(1);
      return;
    }
    this.put("text", text);
    this.at += m[0].length;
  }

  private runLength(c: string): number {
    let end = this.at;
    while (this.text[end] === c) end++;
    return end - this.at;
  }

  private code(): void {
    const length = this.runLength("`");
    const from = this.at + length;
    this.ticks ??= findTicks(this.text);
    const ends = this.ticks.get(length) ?? []; // the first backtick after a backslash is escaped, so it does not count
    while (ends.length > 0 && ends.at(-1)! < from) ends.pop();
    let end = ends.at(-1);
    if (end === undefined) {
      if (!this.open) {
        this.literal(length);
        return;
      }
      end = this.text.length; // the end of the code span is not written yet
    }
    let text = this.text.slice(from, end).replace(/\n/g, " ");
    if (text.startsWith(" ") && text.endsWith(" ") && text.trim() !== "") text = text.slice(1, -1);
    if (text !== "") this.put("code", text);
    this.at = Math.min(end + length, this.text.length);
  }

  private run(mark: string): void {
    const length = this.runLength(mark);
    const before = this.at === 0 ? "" : charBefore(this.text, this.at);
    const after = this.at + length < this.text.length ? String.fromCodePoint(this.text.codePointAt(this.at + length)!) : "";

    if (mark === "~" && length !== 2) {
      this.literal(length);
      return;

    }
    const piece = this.put("text", mark.repeat(length));
    this.at += length;
    const left = !isSpace(after) && (!punctuation.test(after) || isSpace(before) || punctuation.test(before));
    const right = !isSpace(before) && (!punctuation.test(before) || isSpace(after) || punctuation.test(after));
    const canOpen = left && (mark !== "_" || !right || punctuation.test(before));
    const canClose = right && (mark !== "_" || !left || punctuation.test(after));
    if (!canOpen && !canClose) return;
    const run: Run = { piece, mark, count: length, length, canOpen, canClose, at: this.counted++, before: this.newest, after: null };
    if (this.newest) this.newest.after = run;
    this.newest = run;
  }

  private bracket(image: boolean): void {
    this.literal(image ? 2 : 1);
    this.brackets.push({ index: this.pieces.length - 1, image, from: this.at, run: this.newest });
  }

  private close(): void {
    const bracket = this.brackets.pop();
    if (!bracket) {
      this.literal(1);
      return;
    }
    const target = this.text[this.at + 1] === "(" ? addressAt(this.text, this.at + 2, this.open) : null;
    const begin = this.pieces[bracket.index]!;
    if (target) {
      begin.text = "";

      begin.opens.push({ tag: bracket.image ? "image" : "link", address: target.address });
      this.put("text", "").closes = 1;
      this.at = target.end;
      this.pair(bracket.run);
      this.brackets.length = 0; // a link cannot contain another link
      return;
    }
    const inner = this.text.slice(bracket.from, Math.min(this.at, bracket.from + 6));
    if (/^\d{1,5}$/.test(inner) && bracket.from + inner.length === this.at) {
      this.pieces.length = bracket.index + 1;
      begin.text = bracket.image ? "!" : "";
      this.put("cite", inner);
      this.at++;
      return;
    }
    this.literal(1);
  }

  /** Completes or removes the markup that an unfinished text has begun. */
  private unfinished(): void {
    if (!this.open) return;
    for (const bracket of this.brackets) {
      if (this.text.length - bracket.from > 500) continue; // the text between the brackets is too long for a link
      const digits = /^\d{0,5}$/.test(this.text.slice(bracket.from));
      if (digits) this.pieces.length = bracket.index + 1;
      this.pieces[bracket.index]!.text = "";
      if (digits) break;
    }
  }

  /** Turns the delimiter runs after the run bottom into spans, and removes these delimiter runs. */
  private pair(bottom: Run | null): void {
    const floor: Record<string, number> = {};
    let closer = this.newest;
    while (closer && closer.before !== bottom) closer = closer.before;
    if (this.newest === bottom) closer = null;
    while (closer) {
      if (!closer.canClose) {
        closer = closer.after;
        continue;
      }
      const key = closer.mark + (closer.canOpen ? 1 : 0) + (closer.length % 3);
      const opener = findOpener(closer, bottom, floor[key] ?? -1);
      if (opener) {
        closer = this.join(opener, closer);
        continue;

      }
      floor[key] = closer.at;
      const next: Run | null = closer.after;
      if (!closer.canOpen) this.drop(closer);
      closer = next;
    }
    if (this.open && bottom === null) this.end();
    this.newest = bottom;
    if (bottom) bottom.after = null;
  }

  /**
   * Pairs an opening and a closing delimiter run, and returns the closing run with which pairing
   * continues.
   */
  private join(opener: Run, closer: Run): Run | null {
    const marks = opener.count > 1 && closer.count > 1 ? 2 : 1;
    opener.piece.opens.push(newSpan(opener.mark, marks));
    closer.piece.closes++;
    opener.after = closer;
    closer.before = opener;
    for (const run of [opener, closer]) {
      run.count -= marks;
      run.piece.text = run.piece.text.slice(marks);
      if (run.count === 0) this.drop(run);
    }
    return closer.count > 0 ? closer : closer.after;
  }

  private drop(run: Run): void {
    if (run.before) run.before.after = run.after;
    if (run.after) run.after.before = run.before;
    else this.newest = run.before;
  }

  /** Closes the spans that are open at the end of an unfinished text. */
  private end(): void {
    let first = this.newest;
    while (first?.before) first = first.before;
    let closes = 0;
    for (let run = first; run; run = run.after) {
      if (!run.canOpen) continue;
      const spans: Span[] = [];
      for (let left = Math.min(run.count, 8); left > 0; left -= left > 1 ? 2 : 1) spans.push(newSpan(run.mark, left > 1 ? 2 : 1));
      closes += spans.length;
      run.piece.opens.push(...spans);
      run.piece.text = "";
    }
    this.put("text", "").closes = closes;
  }
}

function charBefore(text: string, at: number): string {
  const low = text.charCodeAt(at - 1);
  return low >= 0xdc00 && low <= 0xdfff && at > 1 ? text.slice(at - 2, at) : text[at - 1]!;
}

/**
 * Returns the positions of the runs of backticks, by the length of the run. The positions are in
 * descending order.
 */
function findTicks(text: string): Map<number, number[]> {
  const positions = new Map<number, number[]>();
  for (const m of text.matchAll(/`+/g)) {
    const list = positions.get(m[0].length) ?? [];
    list.push(m.index);
    positions.set(m[0].length, list);
  }
  for (const list of positions.values()) list.reverse();
  return positions;
}

function newSpan(mark: string, marks: number): Span {
  return { tag: mark === "~" ? "del" : marks > 1 ? "strong" : "em", address: null };
}

function findOpener(closer: Run, bottom: Run | null, floor: number): Run | null {
  for (let run = closer.before; run && run !== bottom && run.at >= floor; run = run.before) {
    if (run.mark !== closer.mark || !run.canOpen) continue;
    const odd = (run.canClose || closer.canOpen) && (run.length + closer.length) % 3 === 0 && run.length % 3 !== 0;
    if (!odd) return run;
  }
  return null;
}

// The part of a link after its text: a URL, with or without angle brackets, and an optional title,
// which is not shown. Alternatives start with different characters, so that no text is read more
// than twice.
const addressPart = /(?:<((?:[^<>\n\\]|\\.)*)>|((?:[^\s()<\\]|\\.|\((?:[^\s()\\]|\\.)*\))*))/.source;
const titlePart = /(?:"(?:[^"\\]|\\[^])*"|'(?:[^'\\]|\\[^])*')/.source;
const linkEnd = new RegExp(`^[ \\n]{0,3}${addressPart}(?:[ \\n]{1,3}${titlePart})?[ \\n]{0,3}\\)`);

/**
 * Returns the URL of a link and the position of the link's end. For an unfinished link, the URL is
 * null and the end is the end of the text.
 */
function addressAt(text: string, from: number, open: boolean): { address: string | null; end: number } | null {
  const part = text.slice(from, from + maxAddress + 1024);
  const m = linkEnd.exec(part);
  const address = m?.[1] ?? m?.[2];
  if (m && address !== undefined && address.length <= maxAddress) {
    return { address: address.replace(/\\([!-/:-@[-`{-~])/g, "$1").replace(/&amp;/g, "&"), end: from + m[0].length };
  }
  const unfinished =
    open && from + part.length === text.length && /^\s*<?[^\s()<>]*(?:\([^\s()<>]*)?(?:\s+["'][^"']*["']?)?$/.test(part);
  return unfinished ? { address: null, end: text.length } : null;
}

/**
 * Parses the pieces of a text. If open is true, the text is still being written, and unfinished
 * markup is treated as complete.
 */
export function inline(text: string, open = false): Piece[] {
  if (!open) return new Reader(text, false).read();
  let end = text.length;
  while (end > 0 && "*_~".includes(text[end - 1]!)) end--; // these characters may still become part of a marker
  return new Reader(text.slice(0, end).trimEnd(), true).read();
}
