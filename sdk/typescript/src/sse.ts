/** A server-sent event as received. */
export interface Frame {
  readonly id: string;
  readonly event: string;
  readonly data: string;
}

/** Parses the text of an event stream, in chunks of any size, into complete events. */
export class FrameParser {
  #rest = "";
  #carriage = false; // whether the previous chunk ended in CR; an LF at the start of this chunk then belongs to the same line end
  #id = "";
  #event = "";
  #data: string[] = [];

  /** Yields the events that this chunk completes. The rest is kept for the next chunk. */
  *push(piece: string): Generator<Frame> {
    const text = this.#rest + (this.#carriage && piece.startsWith("\n") ? piece.slice(1) : piece);
    this.#carriage = piece.endsWith("\r");
    this.#rest = text;
    if (!/[\r\n]/.test(piece)) return; // without a line end in this chunk, no line is complete, and earlier chunks need no second search
    let start = 0;
    for (const end of text.matchAll(/\r\n|\n|\r/g)) {
      const frame = this.#line(text.slice(start, end.index));
      start = end.index + end[0].length;
      if (frame) yield frame;
    }
    this.#rest = text.slice(start);
  }

  #line(line: string): Frame | undefined {
    if (line === "") return this.#end();
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "id") this.#id = value;
    else if (name === "event") this.#event = value;
    else if (name === "data") this.#data.push(value);
    return undefined; // comments and unknown fields are ignored
  }

  #end(): Frame | undefined {
    const frame = { id: this.#id, event: this.#event, data: this.#data.join("\n") };
    this.#event = "";
    this.#data = [];
    return frame.data === "" ? undefined : frame;
  }
}
