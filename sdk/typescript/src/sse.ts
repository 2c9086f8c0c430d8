/** A server-sent event. Its name is "message" if the stream does not name the event. */
export interface Frame {
  readonly id: string;
  readonly event: string;
  readonly data: string;
}

/**
 * Parses the text of an event stream, in chunks of any size, into complete events, as the HTML
 * standard specifies. An event without data is not returned, but the events after it have its id.
 */
export class FrameParser {
  #id: string;
  #event = "";
  #data: string[] = [];
  #line = ""; // the beginning of a line that is not complete yet
  #begun = false; // whether a chunk has arrived; the first one may begin with a byte order mark
  #carriage = false; // whether the previous chunk ended in CR; an LF at the start of this chunk then belongs to the same line end

  /** The argument is the id of the last event before the stream. Events without an id have it. */
  constructor(id = "") {
    this.#id = id;
  }

  /** Returns the events that this chunk completes. The rest is kept for the next chunk. */
  push(chunk: string): Frame[] {
    const frames: Frame[] = [];
    if (chunk === "") return frames;
    const extra = this.#carriage ? "\n" : this.#begun ? null : "\uFEFF"; // the character at the start of this chunk that belongs to no line
    const text = extra !== null && chunk.startsWith(extra) ? chunk.slice(1) : chunk;
    this.#begun = true;
    this.#carriage = chunk.endsWith("\r");

    let start = 0;
    for (const end of text.matchAll(/\r\n|\n|\r/g)) {
      const frame = this.#take(this.#line + text.slice(start, end.index));
      this.#line = "";
      start = end.index + end[0].length;
      if (frame) frames.push(frame);
    }
    this.#line += text.slice(start);
    return frames;
  }

  /** Takes a complete line, and returns the event that it completes. */
  #take(line: string): Frame | undefined {
    if (line === "") return this.#end();
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    return undefined; // comments and unknown fields are ignored
  }

  #end(): Frame | undefined {
    const data = this.#data;
    const frame = { id: this.#id, event: this.#event || "message", data: data.join("\n") };
    this.#event = "";
    this.#data = [];
    return data.length > 0 ? frame : undefined;
  }
}
