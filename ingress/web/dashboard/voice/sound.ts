// The microphone and the loudspeaker, and their processors on the audio thread.
import { loudness, rate } from "./pcm";
import type { Played } from "./playback";

/**
 * Returns the URL of the audio thread's script. The page's security policy allows no inline script.
 */
const worklet = (): string => document.getElementById("app")?.dataset["worklet"] ?? "";

/** Called with the audio of the microphone. */
export interface MicrophoneEvents {
  captured: (pcm: Int16Array) => void;
  /** Called with the volume from 0 to 1, about 20 times per second. */
  loud: (level: number) => void;
  /** Called when the microphone was disconnected. */
  gone: () => void;
}

const newConstraints = (device: string | null): MediaStreamConstraints => ({
  audio: { ...(device !== null && { deviceId: { exact: device } }), echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 },
});

export class Microphone {
  private stream: MediaStream | null = null;
  private source: MediaStreamAudioSourceNode | null = null;
  private own: AudioContext | null = null; // the microphone's audio context; used if the browser cannot record at the service's rate
  private node: AudioWorkletNode | null = null;
  private muted = false;

  constructor(private readonly events: MicrophoneEvents) {}

  /** The id of the microphone in use. */
  get device(): string | null {
    return this.stream?.getAudioTracks()[0]?.getSettings().deviceId ?? null;
  }

  /**
   * Opens a microphone, and attaches it when the promise ready is fulfilled. The value null opens
   * the default microphone.
   */
  async open(context: AudioContext, device: string | null, ready?: Promise<void>): Promise<void> {
    ready?.catch(() => {}); // the await below reports its error
    const stream = await navigator.mediaDevices.getUserMedia(newConstraints(device));
    this.release();
    this.stream = stream;
    for (const track of stream.getAudioTracks()) {
      track.enabled = !this.muted;
      track.onended = () => this.events.gone();
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
      this.events.captured(data.pcm);
      this.events.loud(this.muted ? 0 : loudness(data.energy, data.pcm.length));
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

/** Called with reports about the playback. */
export interface PlaybackEvents {
  playing: (played: Played | null, level: number) => void;
  over: (played: Played) => void;
  /** Called after stop has stopped the playback. */
  stopped: (played: Played | null) => void;
}

type Report = { type: "playing"; played: Played | null; energy: number; samples: number } | { type: "over"; played: Played } | { type: "stopped"; played: Played | null };

export class Loudspeaker {
  private readonly node: AudioWorkletNode;

  constructor(
    private readonly context: AudioContext,
    events: PlaybackEvents,
  ) {
    this.node = new AudioWorkletNode(context, "parley-speaker", { numberOfInputs: 0, outputChannelCount: [1] });
    this.node.port.onmessage = ({ data }: MessageEvent<Report>) => {
      if (data.type === "playing") events.playing(data.played, loudness(data.energy, data.samples));
      else if (data.type === "over") events.over(data.played);
      else events.stopped(data.played);
    };
    this.node.connect(context.destination);
  }

  /** Returns the number of samples that the device has buffered but not played. */
  get underWay(): number {
    const seconds = this.context.outputLatency;
    return Number.isFinite(seconds) ? Math.round(seconds * rate) : 0; // some browsers do not report the latency
  }

  play(item: string, samples: Float32Array<ArrayBuffer>): void {
    this.node.port.postMessage({ type: "play", item, samples }, [samples.buffer]);
  }

  /** Marks an answer as complete: no further audio of it follows. */
  end(item: string): void {
    this.node.port.postMessage({ type: "end", item });
  }

  /** Stops the playback, and then passes the played part to the callback stopped. */
  stop(): void {
    this.node.port.postMessage({ type: "stop" });
  }

  close(): void {
    this.node.port.postMessage({ type: "close" });
    this.node.disconnect();
  }
}

/**
 * Returns the audio context for the microphone and the loudspeaker, at the service's rate. It must
 * be created in a click handler, because browsers otherwise mute it.
 */
export const makeContext = (): AudioContext => new AudioContext({ sampleRate: rate, latencyHint: "interactive" });

/** Loads the script of the audio thread. */
export const prepare = (context: AudioContext): Promise<void> => context.audioWorklet.addModule(worklet());

/** Returns the available microphones. Browsers report their names only after access was granted. */
export async function microphones(): Promise<MediaDeviceInfo[]> {
  const devices = await navigator.mediaDevices.enumerateDevices();
  return devices.filter((d) => d.kind === "audioinput" && d.deviceId !== "");
}

