// The microphone and the loudspeaker, each with its part on the browser's audio thread.
import { loudness, rate } from "./pcm";
import type { Played } from "./playback";

/** The script of the audio thread: it is loaded by its own address, for the page's policy allows no other. */
const worklet = (): string => document.getElementById("app")?.dataset["worklet"] ?? "";

/** What one hears with, and is heard by. */
export interface Ears {
  heard: (pcm: Int16Array) => void;
  /** How loud it is, from 0 to 1, about 20 times a second. */
  loud: (level: number) => void;
  /** The microphone is gone. */
  gone: () => void;
}

const wanted = (device: string | null): MediaStreamConstraints => ({
  audio: { ...(device !== null && { deviceId: { exact: device } }), echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 },
});

export class Microphone {
  private stream: MediaStream | null = null;
  private source: MediaStreamAudioSourceNode | null = null;
  private own: AudioContext | null = null; // where the browser cannot hear at the service's rate
  private node: AudioWorkletNode | null = null;
  private muted = false;

  constructor(private readonly ears: Ears) {}

  /** The device that is heard. */
  get device(): string | null {
    return this.stream?.getAudioTracks()[0]?.getSettings().deviceId ?? null;
  }

  /** Asks for the microphone, or for another one than before, while the audio thread gets ready. */
  async open(context: AudioContext, device: string | null, ready?: Promise<void>): Promise<void> {
    ready?.catch(() => {}); // it is asked again below
    const stream = await navigator.mediaDevices.getUserMedia(wanted(device));
    this.release();
    this.stream = stream;
    for (const track of stream.getAudioTracks()) {
      track.enabled = !this.muted;
      track.onended = () => this.ears.gone();
    }
    await ready;
    await this.attach(context, stream);
  }

  mute(on: boolean): void {
    this.muted = on;
    for (const track of this.stream?.getAudioTracks() ?? []) track.enabled = !on;
  }

  close(): void {
    this.release();
    this.node?.port.postMessage("close");
    this.node?.disconnect();
    this.node = null;
    void this.own?.close();
    this.own = null;
  }

  private async attach(context: AudioContext, stream: MediaStream): Promise<void> {
    try {
      this.source = (this.own ?? context).createMediaStreamSource(stream);
    } catch {
      this.own = new AudioContext(); // at the microphone's own rate
      await this.own.audioWorklet.addModule(worklet());
      this.source = this.own.createMediaStreamSource(stream);
    }
    this.node ??= this.listener(this.own ?? context);
    this.source.connect(this.node);
  }

  private listener(context: AudioContext): AudioWorkletNode {
    const node = new AudioWorkletNode(context, "parley-capture", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
    node.port.onmessage = ({ data }: MessageEvent<{ pcm: Int16Array; energy: number }>) => {
      this.ears.heard(data.pcm);
      this.ears.loud(this.muted ? 0 : loudness(data.energy, data.pcm.length));
    };
    return node;
  }

  private release(): void {
    for (const track of this.stream?.getTracks() ?? []) {
      track.onended = null;
      track.stop();
    }
    this.source?.disconnect();
    this.stream = this.source = null;
  }
}

/** What is told of what sounds. */
export interface Sounding {
  playing: (played: Played | null, level: number) => void;
  over: (played: Played) => void;
  /** It fell silent because it was told to. */
  stopped: (played: Played | null) => void;
}

type Report = { type: "playing"; played: Played | null; energy: number; samples: number } | { type: "over"; played: Played } | { type: "stopped"; played: Played | null };

export class Loudspeaker {
  private readonly node: AudioWorkletNode;

  constructor(
    private readonly context: AudioContext,
    sounding: Sounding,
  ) {
    this.node = new AudioWorkletNode(context, "parley-speaker", { numberOfInputs: 0, outputChannelCount: [1] });
    this.node.port.onmessage = ({ data }: MessageEvent<Report>) => {
      if (data.type === "playing") sounding.playing(data.played, loudness(data.energy, data.samples));
      else if (data.type === "over") sounding.over(data.played);
      else sounding.stopped(data.played);
    };
    this.node.connect(context.destination);
  }

  /** Samples that the device has, and nobody has heard yet. */
  get underWay(): number {
    const seconds = this.context.outputLatency;
    return Number.isFinite(seconds) ? Math.round(seconds * rate) : 0; // some browsers do not know
  }

  play(item: string, samples: Float32Array<ArrayBuffer>): void {
    this.node.port.postMessage({ type: "play", item, samples }, [samples.buffer]);
  }

  /** Says that no more comes of an answer. */
  end(item: string): void {
    this.node.port.postMessage({ type: "end", item });
  }

  /** Falls silent; stopped is told how far it had come. */
  stop(): void {
    this.node.port.postMessage({ type: "stop" });
  }

  close(): void {
    this.node.port.postMessage({ type: "close" });
    this.node.disconnect();
  }
}

/** The context that both are in, at the service's rate. It is made in the click that asked for it: later, browsers keep it silent. */
export const makeContext = (): AudioContext => new AudioContext({ sampleRate: rate, latencyHint: "interactive" });

/** Loads the script of the audio thread. */
export const prepare = (context: AudioContext): Promise<void> => context.audioWorklet.addModule(worklet());

/** The microphones there are, by name, once one may be used. */
export async function microphones(): Promise<MediaDeviceInfo[]> {
  const devices = await navigator.mediaDevices.enumerateDevices();
  return devices.filter((d) => d.kind === "audioinput" && d.deviceId !== "");
}

