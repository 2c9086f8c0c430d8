/** A server-sent event as it came. */
export interface Frame {
  readonly id: string;
  readonly event: string;
  readonly data: string;
}

/** Takes the text of a stream of server-sent events piece by piece, however it was cut, and gives the events that are whole. */
export class FrameParser {
  #rest = "";
  #carriage = false; // the piece before ended in a carriage return: a line feed behind it belongs to the same line's end
  #id = "";
  #event = "";
  #data: string[] = [];

  /** Gives the events that end in this piece. What is not whole yet waits for the next one. */
  *push(piece: string): Generator<Frame> {
    const text = this.#rest + (this.#carriage && piece.startsWith("\n") ? piece.slice(1) : piece);
    this.#carriage = piece.endsWith("\r");
    this.#rest = text;
    if (!/[\r\n]/.test(piece)) return; // a long line is searched once, not with every piece
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
    return undefined; // comments and fields that nobody knows are passed over
  }

  #end(): Frame | undefined {
    const frame = { id: this.#id, event: this.#event, data: this.#data.join("\n") };
    this.#event = "";
    this.#data = [];
    return frame.data === "" ? undefined : frame;
  }
}
