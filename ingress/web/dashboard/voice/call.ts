// A voice conversation with an agent: its microphone, loudspeaker and connection.
import { ApiError } from "../api";
import type { ChatSession } from "../chat/session";
import * as texts from "../texts/voice";
import { Words } from "../texts/voice";
import { VoiceConnection, open } from "./connection";
import { decode, encode, millis } from "./pcm";
import type { Played } from "./playback";
import { Loudspeaker, makeContext, Microphone, microphones, prepare } from "./sound";
import { markInterrupted, withLatency, withPlayed, type VoiceEvent } from "./spoken";
import { endTrouble, failureFor, lost, microphoneTrouble, noticeFor, pauses, refusal, type Trouble } from "./trouble";

export type CallStatus = "off" | "asking" | "connecting" | "on" | "again" | "ending" | "ended";

const stableAfter = 10_000; // milliseconds after which a connection counts as stable, so that the count of retries begins again
const maxEndWait = 5000; // maximum number of milliseconds for which the end of a call waits until the service has confirmed which part of the answer was played

/**
 * A voice conversation. It dispatches "change" when its state changes, and "level" when a volume
 * changes.
 */
export class Call extends EventTarget {
  status: CallStatus = "off";
  trouble: Trouble | null = null;
  /** A message that does not end the call. */
  notice: string | null = null;
  muted = false;
  /**
   * Whether the service recognizes speech on its own machine, which is far less reliable than a
   * cloud service.
   */
  offline = false;
  /** Whether the agent's voice is playing. */
  sounding = false;
  /**
   * The time of the last start or end, on the clock that events use. With it, the second click of a
   * double click is ignored.
   */
  turnedAt = -Infinity;
  /** The number of the current attempt to reconnect, up to pauses.length. */
  tries = 0;
  devices: MediaDeviceInfo[] = [];
  readonly levels = { microphone: 0, agent: 0 };

  private context: AudioContext | null = null;
  private readonly microphone: Microphone;
  private speaker: Loudspeaker | null = null;
  private connection: VoiceConnection | null = null;
  private stopping = new AbortController();
  private openedAt = 0;
  private lastError: { code: string | null; message: string } = { code: null, message: "" };
  private sent = 0; // number of samples sent on this connection
  private sentAt = 0; // when the last samples were sent
  private failure: string | null = null; // error of the last failed answer
  private silent = 0; // milliseconds of silence that end a question; the question includes them
  private spokenAt: number | null = null; // end of the question that has no answer yet
  private readonly cut = new Set<string>(); // interrupted answers, whose remaining audio is ignored
  private readonly unconfirmed = new Set<string>(); // interrupted answers whose played part the service has not confirmed yet
  private allConfirmed = (): void => {}; // called when unconfirmed becomes empty

  constructor(readonly session: ChatSession) {
    super();
    this.microphone = new Microphone({
      captured: (pcm) => this.send(pcm),
      loud: (level) => this.level({ microphone: level }),
      gone: () => void this.otherMicrophone(),
    });
  }

  /** The id of the microphone in use. */
  get device(): string | null {
    return this.microphone.device;
  }

  /**
   * Opens the microphone and the connection. Must be called in a click handler, because browsers
   * otherwise block audio.
   */
  async start(): Promise<void> {
    if (this.status !== "off" && this.status !== "ended") return;
    this.stopping = new AbortController();
    const { signal } = this.stopping;
    this.turnedAt = performance.now();
    this.set({ status: "asking", trouble: null, notice: null, tries: 0, muted: false });
    this.microphone.mute(false);

    if (!navigator.mediaDevices || typeof AudioWorkletNode === "undefined") return this.finish(microphoneTrouble(null, isSecureContext));
    try {
      this.context = makeContext();
      await Promise.all([this.microphone.open(this.context, null, prepare(this.context)), this.context.resume()]);
      signal.throwIfAborted();
    } catch (cause) {
      if (signal.aborted) this.silence();
      else this.finish(microphoneTrouble(cause, isSecureContext));
      return;
    }

    this.speaker = new Loudspeaker(this.context, {
      playing: (played, level) => this.playing(played, level),
      over: (played) => this.played(played, false),
      stopped: (played) => this.played(played, true),
    });

    navigator.mediaDevices.addEventListener("devicechange", this.look);
    this.look();
    this.set({ status: "connecting" });
    await this.connect();
  }

  /**
   * Ends the call. The microphone closes immediately, and the connection closes when the service
   * has confirmed which part of the answer was played.
   */
  async end(): Promise<void> {
    if (this.status === "off" || this.status === "ending" || this.status === "ended") return;
    const { signal } = this.stopping;

    this.microphone.close();
    if (this.status === "on") {
      this.set({ status: "ending", devices: [] });
      await this.confirmPlayed();
    }
    if (!signal.aborted) this.finish(null);
  }

  /**
   * Stops the audio, and waits until the service has confirmed which part of the answer was played.
   */
  private confirmPlayed(): Promise<void> {
    return new Promise((resolve) => {
      this.allConfirmed = resolve;
      setTimeout(resolve, maxEndWait);
      this.speaker?.stop();
    });
  }

  mute(on: boolean): void {
    this.microphone.mute(on);
    this.set({ muted: on });
  }

  /** Stops the agent's answer, in the same way as speech of the person. */
  stopAnswer(): void {
    this.connection?.send({ type: "response.cancel" });
    this.speaker?.stop();
  }

  /** Switches to another microphone. */
  async choose(device: string): Promise<void> {
    if (!this.context) return;
    try {
      await this.microphone.open(this.context, device);
      this.set({ notice: null });
    } catch (cause) {
      const { head, words } = microphoneTrouble(cause, true);
      this.set({ notice: `${head}. ${words}` });
    }
  }

  private readonly look = (): void => {
    microphones().then((devices) => this.set({ devices }), () => this.set({ devices: [] }));
  };

  /** Switches to another microphone after the current one was unplugged. */
  private async otherMicrophone(): Promise<void> {
    if (!this.context) return;
    try {
      await this.microphone.open(this.context, null);
      this.set({ notice: Words.microphoneWasDisconnectedAnother });
    } catch (cause) {
      this.finish(microphoneTrouble(cause, true));
    }
  }

  private async connect(): Promise<void> {
    const { signal } = this.stopping;
    this.sent = 0;
    this.lastError = { code: null, message: "" };

    const events = { received: (event: VoiceEvent) => this.take(event), closed: (code: number, reason: string) => this.closed(code, reason) };
    try {
      this.connection = await open(this.session.target, this.session.id, events, signal);
      this.openedAt = Date.now();
    } catch (cause) {
      if (signal.aborted) return;
      if (!(cause instanceof ApiError)) throw cause;
      const said = refusal(cause);
      if (!said.again || this.status === "connecting") return this.finish(said);
      return this.again(said);
    }
  }

  private closed(code: number, reason: string): void {
    this.connection = null;
    if (this.status === "ending") return this.finish(null);
    this.session.lost();
    this.readPlayed();
    this.speaker?.stop();
    const trouble = endTrouble(code, this.lastError.code, this.lastError.message || reason);
    if (trouble) return this.finish(trouble);
    if (Date.now() - this.openedAt > stableAfter) this.tries = 0;
    void this.again(lost);
  }

  /** Reconnects after a pause. If no attempt is left, ends the call with the error. */
  private async again(trouble: Trouble): Promise<void> {
    const pause = pauses[this.tries];
    if (pause === undefined) return this.finish(trouble.head === lost.head ? lost : trouble);
    const { signal } = this.stopping;
    this.set({ status: "again", tries: this.tries + 1, notice: null });
    await new Promise((resolve) => setTimeout(resolve, pause));
    if (!signal.aborted) await this.connect();
  }

  private finish(trouble: Trouble | null): void {
    this.stopping.abort();
    this.connection?.close();
    this.connection = null;
    this.silence();
    this.session.lost(trouble === null);
    this.readPlayed();
    this.turnedAt = performance.now();
    this.set({ status: "ended", trouble, sounding: false, devices: [] });
  }

  /**
   * Reads which part of each interrupted answer was played, for the answers that the service will
   * not confirm on this connection.
   */
  private readPlayed(): void {
    for (const item of this.unconfirmed) this.session.cut(item);
    this.unconfirmed.clear();
  }

  private silence(): void {
    navigator.mediaDevices?.removeEventListener("devicechange", this.look);
    this.microphone.close();
    this.speaker?.close();
    this.speaker = null;
    void this.context?.close();
    this.context = null;
    this.level({ microphone: 0, agent: 0 });
  }

  private send(pcm: Int16Array): void {
    if (this.status !== "on") return;
    this.sent += pcm.length;
    this.sentAt = performance.now();
    this.connection?.send({ type: "input_audio_buffer.append", audio: encode(pcm) });
  }

  private take(event: VoiceEvent): void {
    this.session.spoke(event);
    switch (event.type) {
      case "session.created":
      case "session.updated":
        if (this.status === "ending") return;

        this.silent = event.session?.audio?.input?.turn_detection?.silence_duration_ms ?? 0;
        this.offline = event.session?.audio?.input?.transcription?.model?.startsWith("offline/") ?? this.offline;
        return this.set({ status: "on", notice: null });
      case "input_audio_buffer.speech_started":
        this.spokenAt = null;
        return this.speaker?.stop();
      case "input_audio_buffer.speech_stopped":
        this.spokenAt = this.sentAt - Math.max(0, millis(this.sent) - (event.audio_end_ms ?? millis(this.sent))) - this.silent;
        return;
      case "response.output_audio.delta":
        return this.sound(event);
      case "response.output_audio.done":
        if (event.item_id !== undefined) this.speaker?.end(event.item_id);
        return;
      case "conversation.item.truncated":
        this.unconfirmed.delete(event.item_id ?? "");
        if (this.unconfirmed.size === 0) this.allConfirmed();
        return this.session.cut(event.item_id ?? "");
      case "response.created":
        if (this.notice === this.failure) this.set({ notice: null });
        return;
      case "response.done":
        return this.failed(failureFor(event));
      case "conversation.item.input_audio_transcription.failed":
        return this.set({ notice: event.error?.message ? texts.couldntTranscribeYourSpeech(event.error.message) : Words.couldntTranscribeSayAgain });
      case "error":
        this.lastError = { code: event.error?.code ?? null, message: event.error?.message ?? "" };
        return this.set({ notice: noticeFor(event.error ?? {}) ?? this.notice });
    }
  }

  private failed(failure: string | null): void {
    if (failure === null) return;
    this.failure = failure;
    this.set({ notice: failure });
  }

  private sound({ item_id: item, delta }: VoiceEvent): void {
    if (item === undefined || delta === undefined || this.cut.has(item)) return;
    if (this.status === "ending") return this.played({ item, samples: 0 }, true);
    this.speaker?.play(item, decode(delta));
  }

  private playing(played: Played | null, level: number): void {
    this.level({ agent: level });
    if ((played !== null) !== this.sounding) this.set({ sounding: played !== null });
    if (!played) return;
    this.session.turnsWith((turns) => withPlayed(turns, played.item, millis(played.samples)));
    if (this.spokenAt === null) return;
    const began = performance.now() - millis(played.samples) + millis(this.speaker?.underWay ?? 0);
    const took = Math.max(0, began - this.spokenAt);
    this.spokenAt = null;
    this.session.turnsWith((turns) => withLatency(turns, played.item, took));
  }

  /**
   * Handles an answer that was played to its end or was stopped. If it was stopped, sends the
   * played duration to the service.
   */
  private played(played: Played | null, stopped: boolean): void {
    this.set({ sounding: false });

    if (stopped && this.unconfirmed.size === 0 && (!played || this.cut.has(played.item))) this.allConfirmed();
    if (!played || this.cut.has(played.item)) return;
    if (!stopped) return this.session.turnsWith((turns) => withPlayed(turns, played.item, millis(played.samples)));
    this.cut.add(played.item);
    const playedMillis = Math.max(0, Math.floor(millis(played.samples - (this.speaker?.underWay ?? 0))));
    this.session.turnsWith((turns) => markInterrupted(withPlayed(turns, played.item, playedMillis), played.item));
    if (!this.connection) return this.session.cut(played.item);
    this.unconfirmed.add(played.item);
    this.connection.send({ type: "conversation.item.truncate", item_id: played.item, content_index: 0, audio_end_ms: playedMillis });
  }

  private level(levels: Partial<Call["levels"]>): void {
    Object.assign(this.levels, levels);
    this.dispatchEvent(new Event("level"));
  }

  private set(state: Partial<Pick<Call, "status" | "trouble" | "notice" | "muted" | "sounding" | "tries" | "devices">>): void {
    Object.assign(this, state);
    this.dispatchEvent(new Event("change"));
  }
}
