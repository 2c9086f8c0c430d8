// Audio samples in the service's format: 16 bit, little-endian, one channel, 24,000 per second.

/** Samples per second, in both directions. */
export const rate = 24_000;

/** Converts a number of samples to milliseconds. */
export const millis = (samples: number): number => samples / (rate / 1000);

/** Converts samples between -1 and 1 to 16-bit integers. */
export function toPCM(samples: Float32Array): Int16Array {
  const out = new Int16Array(samples.length);
  for (let i = 0; i < samples.length; i++) out[i] = Math.round(Math.max(-1, Math.min(1, samples[i] ?? 0)) * 32_767);
  return out;
}

const maxArguments = 8192; // maximum number of arguments of one call

/** Encodes samples as base64, little-endian on every machine. */
export function encode(pcm: Int16Array): string {
  const bytes = new Uint8Array(pcm.length * 2);
  const view = new DataView(bytes.buffer);
  pcm.forEach((sample, i) => view.setInt16(i * 2, sample, true));
  let text = "";
  for (let at = 0; at < bytes.length; at += maxArguments) text += String.fromCharCode(...bytes.subarray(at, at + maxArguments));
  return btoa(text);
}

/** Decodes base64 into samples between -1 and 1. An incomplete last sample is dropped. */
export function decode(text: string): Float32Array<ArrayBuffer> {
  const raw = atob(text);
  const out = new Float32Array(raw.length >> 1);
  for (let i = 0; i < out.length; i++) {
    const sample = raw.charCodeAt(i * 2) | (raw.charCodeAt(i * 2 + 1) << 8);
    out[i] = (sample >= 32_768 ? sample - 65_536 : sample) / 32_768;
  }
  return out;
}

/** Returns the sum of the squares of samples, from which loudness is computed. */
export function energy(samples: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < samples.length; i++) sum += (samples[i] ?? 0) ** 2;
  return sum;
}

const minVolume = -60; // the volume in decibels, relative to the maximum, that counts as silence

/** Returns the loudness of samples from 0 to 1, on a logarithmic scale as the ear perceives it. */
export function loudness(sum: number, samples: number): number {
  if (samples === 0 || sum <= 0) return 0;
  const decibels = 10 * Math.log10(sum / samples);
  return Math.max(0, Math.min(1, 1 - decibels / minVolume));
}

const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));
const lobes = 12; // number of lobes of the filter on each side

/**
 * Converts samples from one rate to another, chunk by chunk. It is needed because some browsers
 * provide the audio of a microphone only at its own rate.
 */
export class Resampler {
  private readonly up: number;
  private readonly down: number;
  private readonly half: number; // number of source samples on each side that contribute to an output sample
  private readonly phases: Float32Array[] = [];
  private kept: Float32Array;
  private next = 0; // index of the next output sample, within a common period of both rates
  private dropped = 0; // number of source samples that are no longer kept

  constructor(from: number, to: number) {
    const common = gcd(from, to);
    this.up = to / common;
    this.down = from / common;
    const cutoff = Math.min(1, to / from) * 0.92;
    this.half = Math.ceil(lobes / cutoff);
    this.kept = new Float32Array(this.half); // the input starts with silence
    this.dropped = -this.half;
    for (let phase = 0; phase < this.up; phase++) this.phases.push(filter(phase / this.up, this.half, cutoff));
  }

  push(samples: Float32Array): Float32Array {
    if (this.up === this.down) return samples;
    const all = new Float32Array(this.kept.length + samples.length);
    all.set(this.kept);
    all.set(samples, this.kept.length);
    const out: number[] = [];
    for (;;) {
      const middle = Math.floor((this.next * this.down) / this.up) - this.dropped;
      if (middle + this.half >= all.length) break;
      const taps = this.phases[(this.next * this.down) % this.up] ?? new Float32Array();
      let sum = 0;
      for (let i = 0; i < taps.length; i++) sum += (taps[i] ?? 0) * (all[middle - this.half + 1 + i] ?? 0);
      out.push(sum);
      this.next++;
    }
    const first = Math.max(0, Math.floor((this.next * this.down) / this.up) - this.dropped - this.half);
    this.kept = all.slice(first);
    this.dropped += first;
    this.reduceCounters();
    return Float32Array.from(out);
  }

  /**
   * Reduces the counters by whole common periods of both rates, so that they stay small in long
   * conversations.
   */
  private reduceCounters(): void {
    const periods = Math.floor(this.next / this.up) - 1;
    if (periods <= 0) return;
    this.next -= periods * this.up;
    this.dropped -= periods * this.down;
  }
}

/**
 * Returns the weights of the source samples around an output sample. The argument offset is the
 * distance from the middle source sample to the output sample, in source samples.
 */
function filter(offset: number, half: number, cutoff: number): Float32Array {
  const taps = Float32Array.from({ length: half * 2 }, (_, i) => {
    const x = i + 1 - half - offset;
    const window = Math.abs(x) >= half ? 0 : 0.5 + 0.5 * Math.cos((Math.PI * x) / half);
    return window * cutoff * (x === 0 ? 1 : Math.sin(Math.PI * cutoff * x) / (Math.PI * cutoff * x));
  });
  const sum = taps.reduce((a, b) => a + b, 0);
  return taps.map((tap) => tap / sum);
}
