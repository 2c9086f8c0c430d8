// The queue of audio to play. It runs on the audio thread and counts the samples that were played.

/** The number of played samples of an answer. */
export interface Played {
  item: string;
  samples: number;
}

interface Piece {
  item: string;
  samples: Float32Array;
}

const minQueued = 1920; // number of samples before playback starts: 80 ms, so that a late chunk causes no gap
const fadeLength = 120; // number of samples of a fade-out: 5 ms

export class Playback {
  private pieces: Piece[] = [];
  private ended = new Set<string>();
  private offset = 0; // number of samples of the first chunk that were played
  private flowing = false;
  private rest = new Float32Array(); // the fade-out of a stopped answer
  private item: string | null = null; // the answer that is playing or was played last
  private readonly counts = new Map<string, number>();

  /** Returns the number of queued samples. */
  get waiting(): number {
    return this.pieces.reduce((n, p) => n + p.samples.length, -this.offset);
  }

  push(item: string, samples: Float32Array): void {
    if (samples.length > 0) this.pieces.push({ item, samples });
  }

  /** Marks an answer as complete: no further chunks of it follow. */
  end(item: string): void {
    this.ended.add(item);
  }

  /**
   * Fills the buffer out with the next samples, followed by silence. Returns the number of samples
   * that belong to an answer.
   */
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

  /** Returns the played part of the current answer. */
  now(): Played | null {
    return this.item === null ? null : this.of(this.item);
  }

  /** Returns the answers that have been played to their end since the last call. */
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

  /** Stops the playback immediately. Returns the played part of the current answer. */
  stop(): Played | null {
    const [first] = this.pieces;
    if (this.flowing && first) {
      this.rest = first.samples.slice(this.offset, this.offset + fadeLength);
      this.rest.forEach((sample, i) => (this.rest[i] = sample * (1 - (i + 1) / fadeLength)));
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
    return first !== undefined && (this.waiting >= minQueued || this.ended.has(first.item));
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
