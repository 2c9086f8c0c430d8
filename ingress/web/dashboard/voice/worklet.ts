// The processors on the browser's audio thread: one captures the microphone, the other plays the
// agent's voice.
import { Resampler, energy, rate, toPCM } from "./pcm";
import { Playback } from "./playback";

declare abstract class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void;
declare const sampleRate: number;

const frame = 720; // number of samples in a message: 30 ms
const silence = new Float32Array(128);

/** Sends the microphone's audio to the page, at the service's rate. */
class Capture extends AudioWorkletProcessor {
  private readonly resampler = new Resampler(sampleRate, rate);
  private readonly filled = new Float32Array(frame);
  private length = 0;
  private on = true;

  constructor() {
    super();
    this.port.onmessage = () => {
      this.on = false;
    };
  }

  process(inputs: Float32Array[][]): boolean {
    // While the microphone is being switched, there is no input. Silence then keeps the number of
    // samples in step with time.
    for (const sample of this.resampler.push(inputs[0]?.[0] ?? silence)) {
      this.filled[this.length++] = sample;
      if (this.length === frame) this.send();
    }
    return this.on;
  }

  private send(): void {
    this.length = 0;
    const pcm = toPCM(this.filled);
    this.port.postMessage({ pcm, energy: energy(this.filled) }, [pcm.buffer]);
  }
}

type Command = { type: "play"; item: string; samples: Float32Array } | { type: "end"; item: string } | { type: "stop" } | { type: "close" };

const reportInterval = 10; // number of render quanta between two reports: 53 ms

/** Plays chunks of audio without gaps, and reports the number of played samples. */
class Speaker extends AudioWorkletProcessor {
  private readonly playback = new Playback();
  private turns = 0;
  private energy = 0;
  private samples = 0;
  private on = true;

  constructor() {
    super();
    this.port.onmessage = ({ data }: MessageEvent<Command>) => this.execute(data);
  }

  process(_: Float32Array[][], outputs: Float32Array[][]): boolean {
    const out = outputs[0]?.[0];
    if (!out) return this.on;
    this.playback.read(out);
    this.energy += energy(out);
    this.samples += out.length;
    if (++this.turns >= reportInterval) this.report();
    return this.on;
  }

  private execute(order: Command): void {
    switch (order.type) {
      case "play": return this.playback.push(order.item, order.samples);
      case "end": return this.playback.end(order.item);
      case "stop": return this.port.postMessage({ type: "stopped", played: this.playback.stop() });
      case "close": this.on = false;
    }
  }

  private report(): void {
    const now = this.playback.now();
    this.port.postMessage({ type: "playing", played: now, energy: this.energy, samples: this.samples });
    for (const played of this.playback.over()) this.port.postMessage({ type: "over", played });
    this.turns = this.energy = this.samples = 0;
  }
}

registerProcessor("parley-capture", Capture);
registerProcessor("parley-speaker", Speaker);
