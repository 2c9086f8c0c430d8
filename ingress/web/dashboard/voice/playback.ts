// What is to be heard, in the order in which it came. It runs on the audio thread, and counts what was truly played.

/** How much of which answer was played. */
export interface Played {
  item: string;
  samples: number;
}

interface Piece {
  item: string;
  samples: Float32Array;
}

const enough = 1920; // samples to begin with: 80 ms, so that a late piece makes no gap
const fading = 120; // samples: 5 ms

export class Playback {
  private pieces: Piece[] = [];
  private ended = new Set<string>();
  private offset = 0; // in the first piece
  private flowing = false;
  private rest = new Float32Array(); // what still sounds of an answer that was stopped
  private item: string | null = null; // that sounds, or did last
  private readonly counts = new Map<string, number>();

  /** Samples that wait. */
  get waiting(): number {
    return this.pieces.reduce((n, p) => n + p.samples.length, -this.offset);
  }

  push(item: string, samples: Float32Array): void {
    if (samples.length > 0) this.pieces.push({ item, samples });
  }

  /** Says that no more comes of an answer. */
  end(item: string): void {
    this.ended.add(item);
  }

  /** Fills out with what is next, and silence behind it. Gives how many samples were of an answer. */
  read(out: Float32Array): number {
    out.fill(0);
    this.fade(out);
    if (!this.flowing && !this.ready()) return 0;
    this.flowing = true;
    let at = 0;
    while (at < out.length) {
      const [first] = this.pieces;
      if (!first) {
        this.flowing = false;
        break;
      }
      const some = first.samples.subarray(this.offset, this.offset + out.length - at);
      out.set(some, at);
      at += some.length;
      this.count(first.item, some.length);
      this.offset += some.length;
      if (this.offset < first.samples.length) break;
      this.pieces.shift();
      this.offset = 0;
    }
    return at;
  }

  /** What of the answer that sounds was played. */
  now(): Played | null {
    return this.item === null ? null : this.of(this.item);
  }

  /** The answers that were played to their end since this was asked last. */
  over(): Played[] {
    const done: Played[] = [];
    for (const item of this.ended) {
      if (this.pieces.some((p) => p.item === item)) continue;
      this.ended.delete(item);
      done.push(this.of(item));
      this.counts.delete(item);
      if (this.item === item) this.item = null;
    }
    return done;
  }

  /** Falls silent at once, and says how far it had come. */
  stop(): Played | null {
    const [first] = this.pieces;
    if (this.flowing && first) {
      this.rest = first.samples.slice(this.offset, this.offset + fading);
      this.rest.forEach((sample, i) => (this.rest[i] = sample * (1 - (i + 1) / fading)));
    }
    const item = this.item ?? first?.item;
    const was = item === undefined ? null : this.of(item);
    this.pieces = [];
    this.ended.clear();
    this.offset = 0;
    this.flowing = false;
    this.item = null;
    this.counts.clear();
    return was;
  }

  private of(item: string): Played {
    return { item, samples: this.counts.get(item) ?? 0 };
  }

  private ready(): boolean {
    const [first] = this.pieces;
    return first !== undefined && (this.waiting >= enough || this.ended.has(first.item));
  }

  private count(item: string, samples: number): void {
    this.item = item;
    this.counts.set(item, samples + (this.counts.get(item) ?? 0));
  }

  private fade(out: Float32Array): void {
    if (this.rest.length === 0) return;
    out.set(this.rest.subarray(0, out.length));
    this.rest = this.rest.slice(out.length);
  }
}
