import { h, render } from "preact";
import { ApiError } from "./api";
import { newTurn, shownText, buildTurns, underWay, type Turn } from "./chat/turn";
import { TurnView } from "./chat/turnview";
import { spokenWords } from "./chat/chat";
import { ChatSession } from "./chat/session";
import { equal, ok, type Test } from "../kit/check";
import type { Message } from "./types";
import { Call } from "./voice/call";
import type { VoiceConnection } from "./voice/connection";
import { decode, encode, energy, loudness, millis, rate, Resampler, toPCM } from "./voice/pcm";
import { describeState, VoicePanel } from "./voice/panel";
import { Playback, type Played } from "./voice/playback";
import type { Loudspeaker } from "./voice/sound";
import { afterLoss, afterVoice, markInterrupted, withLatency, withPlayed, type VoiceEvent } from "./voice/spoken";
import { endTrouble, failureFor, microphoneTrouble, noticeFor, refusal } from "./voice/trouble";

const started = (item: string): VoiceEvent => ({ type: "input_audio_buffer.speech_started", item_id: item });
const transcript = (item: string, words: string): VoiceEvent => ({ type: "conversation.item.input_audio_transcription.completed", item_id: item, transcript: words });
const created = (id: string, run?: string): VoiceEvent => ({ type: "response.created", response: { id, status: "in_progress", metadata: run === undefined ? null : { run_id: run } } });
const words = (id: string, item: string, delta: string): VoiceEvent => ({ type: "response.output_audio_transcript.delta", response_id: id, item_id: item, delta });
const done = (id: string, status: string, more: object = {}): VoiceEvent => ({ type: "response.done", response: { id, status, metadata: { run_id: "run_1" }, ...more } });

const all = (events: VoiceEvent[], from: Turn[] = []): Turn[] => events.reduce(afterVoice, from);
const asked = [started("u1"), { type: "input_audio_buffer.speech_stopped", item_id: "u1" }, transcript("u1", " What is it? ")];
const answerEvents = [...asked, created("r1", "run_1"), words("r1", "a1", "It is "), words("r1", "a1", "a lamp.")];

/** Returns the samples of a tone. */
const tone = (hertz: number, samples: number, of: number): Float32Array => Float32Array.from({ length: samples }, (_, i) => 0.5 * Math.sin((2 * Math.PI * hertz * i) / of));

/** Returns the output of a resampler that gets a tone in chunks of different sizes. */
function resample(hertz: number, from: number): Float32Array {
  const resampler = new Resampler(from, rate);
  const source = tone(hertz, from, from); // a tone of one second
  const out: number[] = [];
  for (let at = 0, size = 1; at < source.length; at += size, size = (size * 7) % 301 || 128) out.push(...resampler.push(source.subarray(at, at + size)));
  return Float32Array.from(out);
}

/**
 * Returns a connected call and the events that it has sent. When the call stops its loudspeaker,
 * the loudspeaker reports the argument stops as the part that was played.
 */
function newCall(session: ChatSession, stops: Played | null) {
  const call = new Call(session);
  const sent: { type: string; audio_end_ms?: number }[] = [];
  let closed = false;
  call["connection"] = { send: (event: { type: string }) => { if (!closed) sent.push(event); }, close: () => { closed = true; } } as unknown as VoiceConnection;
  call["speaker"] = { underWay: 0, stop: () => queueMicrotask(() => call["played"](stops, true)), play: () => {}, close: () => {} } as unknown as Loudspeaker;
  call.status = "on";
  return { call, sent, receive: (...events: VoiceEvent[]) => { for (const event of events) call["take"](event); }, isClosed: () => closed };
}

/**
 * A session without a service. It records the ids of the answers that are passed to the method cut.
 * It does not read which parts of these answers were played.
 */
class FakeSession extends ChatSession {
  readonly cuts: string[] = [];
  constructor() {
    super({ agentId: "ag_1" }, "s");
  }

  override cut(answer: string): void {
    this.cuts.push(answer);
  }

  override spoke(event: VoiceEvent): void {
    this.turnsWith((turns) => afterVoice(turns, event));
  }
}

const soon = () => new Promise((resolve) => setTimeout(resolve, 20));

const ones = (n: number): Float32Array => new Float32Array(n).fill(1);

/**
 * Takes samples from the playback queue as the audio thread does. Returns how many of the samples
 * are not silent.
 */
function countAudible(playback: Playback, samples: number): number {
  let audible = 0;
  for (let n = 0; n < samples; n += 128) {
    const out = new Float32Array(128);
    playback.read(out);
    audible += out.filter((s) => s !== 0).length;
  }
  return audible;
}

export const tests: Test[] = [
  {
    name: "samples survive encoding and decoding",
    run: () => {
      const samples = Float32Array.from({ length: 20_001 }, (_, i) => Math.sin(i));
      const back = decode(encode(toPCM(samples)));
      equal(back.length, samples.length);
      ok(back.every((s, i) => Math.abs(s - (samples[i] ?? 9)) < 1e-4), "each sample is unchanged");
      equal(encode(Int16Array.of(1, -2, 256)), "AQD+/wAB", "little-endian");
      equal([...toPCM(Float32Array.of(2, -2, 0))], [32_767, -32_767, 0], "samples that are too loud are clipped");
      equal([[...decode("AAAA")], decode("").length, millis(720)], [[0], 0, 30], "half a sample is ignored");
    },
  },
  {
    name: "loudness is from 0 to 1",
    run: () => {
      equal([loudness(0, 100), loudness(100, 100), loudness(5, 0)], [0, 1, 0]);
      const quiet = tone(440, 720, rate).map((s) => s / 100);
      const loud = tone(440, 720, rate);
      const [a, b] = [loudness(energy(quiet), 720), loudness(energy(loud), 720)];
      ok(a > 0.1 && a < 0.4 && b > 0.8, `${a} and ${b}`);
    },
  },
  {
    name: "a microphone's rate is converted to the service's",
    run: () => {
      for (const from of [48_000, 44_100, 16_000, 24_000]) {
        const out = resample(440, from);
        ok(Math.abs(out.length - rate) < 64, `${from}: ${out.length} samples for a second`);
        const crossings = out.reduce((n, s, i) => n + ((out[i - 1] ?? 0) < 0 && s >= 0 ? 1 : 0), 0);
        ok(Math.abs(crossings - 440) <= 2, `${from}: ${crossings} periods`);
        const loud = Math.sqrt(energy(out.subarray(2000, 22_000)) / 20_000);
        ok(Math.abs(loud - 0.5 / Math.SQRT2) < 0.01, `${from}: the same loudness,  ${loud}`);
      }
      const high = resample(15_000, 48_000);
      ok(Math.sqrt(energy(high) / high.length) < 0.01, "frequencies above the rate's limit are removed, without aliasing");
    },
  },
  {
    name: "a resampler stays exact for hours",
    run: () => {
      const resampler = new Resampler(44_100, rate);
      let made = 0;
      for (let i = 0; i < 2000; i++) made += resampler.push(new Float32Array(441)).length;
      ok(Math.abs(made - 20 * rate) < 64, `${made} of 20 s`);
    },
  },
  {
    name: "chunks are played in order and counted",
    run: () => {
      const playback = new Playback();
      playback.push("a", ones(1000));
      equal([countAudible(playback, 256), playback.now()], [0, null], "too few samples to begin");
      playback.push("a", ones(1000));
      equal([countAudible(playback, 1280), playback.now()], [1280, { item: "a", samples: 1280 }]);
      playback.push("a", ones(300));
      playback.end("a");
      equal([countAudible(playback, 1280), playback.over()], [1020, [{ item: "a", samples: 2300 }]], "without a gap, to the end");
      equal([playback.now(), playback.over()], [null, []]);
    },
  },
  {
    name: "a short answer starts when it is complete",
    run: () => {
      const playback = new Playback();
      playback.push("a", ones(100));
      playback.end("a");
      equal([countAudible(playback, 128), playback.over()], [100, [{ item: "a", samples: 100 }]]);
      playback.end("b");
      equal(playback.over(), [{ item: "b", samples: 0 }], "an answer without audio is over immediately");
    },
  },
  {
    name: "a stopped answer falls silent immediately",
    run: () => {
      const playback = new Playback();
      equal(playback.stop(), null, "nothing was played");
      playback.push("a", ones(5000));
      equal(playback.stop(), { item: "a", samples: 0 }, "nothing was played yet");
      equal(countAudible(playback, 1280), 0);
      playback.push("b", ones(5000));
      countAudible(playback, 2560);
      equal(playback.stop(), { item: "b", samples: 2560 });
      const out = new Float32Array(128);
      playback.read(out);
      ok((out[0] ?? 0) > 0.9 && (out[60] ?? 1) < 0.6 && out[127] === 0, "it fades within 5 ms");
      equal([countAudible(playback, 1280), playback.now()], [0, null]);
      playback.push("c", ones(2000));
      equal([countAudible(playback, 128), playback.now()], [128, { item: "c", samples: 128 }], "the next answer is played");
    },
  },
  {
    name: "speech becomes a turn",
    run: () => {
      const hearing = all(asked.slice(0, 1));
      equal([hearing.length, hearing[0]?.message, hearing[0]?.spoken?.phase], [1, "", "hearing"]);
      equal(all(asked.slice(0, 1), hearing).length, 1, "once");
      const [turn] = all(answerEvents);
      equal([turn?.message, turn?.runId, turn?.spoken?.phase, turn?.spoken?.answer], ["What is it?", "run_1", "speaking", "a1"]);
      equal([turn && shownText(turn), turn && underWay(turn)], ["It is a lamp.", true], "the text spoken so far is shown");
      const [over] = all([...answerEvents, done("r1", "completed")]);
      equal([over?.spoken?.phase, over && shownText({ ...over, text: "It is a lamp [1]." }), over?.playedText], ["over", "It is a lamp [1].", null], "then the run's answer is shown");
    },
  },
  {
    name: "noise does not become a turn",
    run: () => {
      equal(all([started("u1"), transcript("u1", " ")]), []);
      equal(all([started("u1"), { type: "conversation.item.input_audio_transcription.failed", item_id: "u1" }]), []);
      const before = all(answerEvents);
      equal(all([started("u2"), transcript("u2", "")], before), before, "no other turn is removed");
    },
  },
  {
    name: "several utterances are answered together",
    run: () => {
      const turns = all([started("u1"), transcript("u1", "One."), started("u2"), transcript("u2", "Two."), created("r1", "run_1")]);
      equal(turns.map((t) => [t.message, t.name, t.runId]), [["One.\n\nTwo.", "u2", "run_1"]]);
      equal(all([created("r9")]), [], "a response without a question is not a turn");
    },
  },
  {
    name: "an interrupted answer is marked",
    run: () => {
      const [cancelled] = all([...answerEvents, done("r1", "cancelled", { status_details: { reason: "turn_detected" } })]);
      equal([cancelled?.playedText, cancelled && shownText({ ...cancelled, text: "It is a lamp, and more." })], ["It is a lamp.", "It is a lamp."]);
      const [unplayed] = all([...asked, created("r1", "run_1"), done("r1", "cancelled")]);
      equal(unplayed?.playedText, "…");
      const [late] = markInterrupted(all([...answerEvents, done("r1", "completed")]), "a1");
      equal(late?.playedText, "It is a lamp.", "even if all audio was sent");
      equal(markInterrupted(all(answerEvents), "a2")[0]?.playedText, null, "no other answer is marked");
    },
  },
  {
    name: "the played part of each answer is counted",
    run: () => {
      const turns = withLatency(withPlayed(withPlayed(all(answerEvents), "a1", 900), "a1", 400), "a1", 250);
      equal([turns[0]?.spoken?.played, withLatency(turns, "a1", 999)[0]?.spoken?.latency], [900, 250], "the maximum played, and the first latency");
      equal(withPlayed(turns, "a1", 900)[0], turns[0], "a known value changes nothing");
    },
  },
  {
    name: "a refused message shows the reason",
    run: () => {
      const refused = done("r1", "failed", { metadata: {}, status_details: { error: { type: "rate_limit_error", code: "rate_limit_exceeded", message: "Later." } } });
      const [turn] = all([...asked, created("r1"), refused]);
      equal([turn?.problem?.status, turn?.problem?.code, turn?.problem?.detail], [429, "rate_limit_exceeded", "Later."]);
      equal(all([...answerEvents, done("r1", "failed")])[0]?.problem, null, "a failed run shows its own error");
    },
  },
  {
    name: "a lost connection keeps the turns that have a run or words",
    run: () => {
      const turns = afterLoss(all([...answerEvents, started("u2"), transcript("u2", "And then?"), started("u3")]));
      equal(turns.map((t) => [t.message, t.spoken?.phase, t.problem?.code ?? null]), [["What is it?", "over", null], ["And then?", "over", "connection_lost"]]);
      equal(afterLoss(turns).map((t) => t.problem?.code ?? null), [null, "connection_lost"]);
      const typed = [newTurn("typed", "k")];
      equal(afterLoss(typed), typed, "typed messages stay");
    },
  },
  {
    name: "ending waits until the played part is known",
    run: async () => {
      const session = new FakeSession();
      const { call, sent, receive, isClosed } = newCall(session, { item: "a1", samples: 24_000 });
      receive(...answerEvents);
      const ended = call.end();
      await soon();
      equal([call.status, isClosed(), sent], ["ending", false, [{ type: "conversation.item.truncate", item_id: "a1", content_index: 0, audio_end_ms: 1000 }]]);
      receive({ type: "response.output_audio.delta", item_id: "a2", delta: "AAAA" });
      equal(sent[1]?.audio_end_ms, 0, "a new answer is not played");
      receive({ type: "conversation.item.truncated", item_id: "a2" }, { type: "conversation.item.truncated", item_id: "a1" });
      await ended;
      equal([call.status, isClosed(), session.cuts], ["ended", true, ["a2", "a1"]]);
    },
  },
  {
    name: "ending does not wait forever, and does not wait without need",
    run: async () => {
      const session = new FakeSession();
      const late = newCall(session, { item: "a1", samples: 24_000 });
      late.receive(...answerEvents);
      const began = performance.now();
      await late.call.end();
      ok(performance.now() - began >= 900, "a second");
      equal([late.isClosed(), session.cuts], [true, ["a1"]], "then the played part is read");
      const quiet = newCall(new FakeSession(), null);
      const ended = quiet.call.end();
      await soon();
      equal([quiet.isClosed(), quiet.sent], [true, []]);
      await ended;
    },
  },
  {
    name: "an answer without speech is marked as not spoken",
    run: () => {
      const thinking = [...asked, created("r1", "run_1")];
      const [left] = afterLoss(all(thinking), true);
      if (!left) throw new Error("the turn is gone");
      equal([left.problem, left.spoken?.silent, left.playedText, spokenWords(left)], [null, true, null, "The agent is answering."]);
      const answered = { ...left, status: "completed" as const, text: "It is a lamp." };
      equal(spokenWords(answered), "Answer: It is a lamp.");
      const box = document.createElement("div");
      render(h(TurnView, { turn: answered, session: new FakeSession(), onAsk: () => {}, last: true }), box);
      ok(/It is a lamp\..*This answer was not spoken\./.test(box.textContent ?? ""), box.textContent ?? "");
      render(null, box);
      equal(all([...thinking, done("r1", "failed")])[0]?.spoken?.silent, true, "an answer that could not be spoken is marked, too");
      equal(withPlayed(all([...answerEvents, done("r1", "failed")]), "a1", 20)[0]?.spoken?.silent, false, "an answer that was partly played is not marked");
      equal(afterLoss(all(asked), true)[0]?.problem?.code, "speaking_ended", "an unanswered message shows that the conversation ended");
    },
  },
  {
    name: "an answer that cannot be spoken shows the reason",
    run: () => {
      const fails = done("r1", "failed", { status_details: { error: { type: "server_error", code: "unavailable", message: "SPEECH_MODEL is off" } } });
      const { call, receive } = newCall(new FakeSession(), null);
      receive(...asked, created("r1", "run_1"), fails);
      equal(call.notice, "SPEECH_MODEL is off");
      receive(started("u2"), transcript("u2", "Again?"), created("r2", "run_2"));
      equal(call.notice, null, "until the next one");
      equal([failureFor(done("r1", "completed")), failureFor(done("r1", "failed", { metadata: {} }))], [null, null], "the turn of a refused message shows the error");
    },
  },
  {
    name: "interrupted messages are marked in the history",
    run: () => {
      const message = (role: Message["role"], content: string, more: Partial<Message> = {}): Message => ({ id: role, role, content, runId: "run_1", previousRunId: null, status: "cancelled", createdAt: "2026-11-21T09:00:00.000Z", ...more });
      const [turn] = buildTurns([message("user", "a"), message("assistant", "It is", { interrupted: true })], new Map());
      equal([turn?.playedText, turn && shownText(turn)], ["It is", "It is"]);
      const box = document.createElement("div");
      if (turn) render(h(TurnView, { turn, session: new ChatSession({ agentId: "ag_1" }, "s"), onAsk: () => {}, last: true }), box);
      ok(/It is.*Interrupted/.test(box.textContent ?? "") && !/cancelled/.test(box.textContent ?? ""), box.textContent ?? "");
      render(null, box);
    },
  },
  {
    name: "a spoken turn shows its state",
    run: () => {
      const box = document.createElement("div");
      const session = new ChatSession({ agentId: "ag_1" }, "s");
      const show = (events: VoiceEvent[]): string => {
        const [turn] = all(events);
        if (turn) render(h(TurnView, { turn, session, onAsk: () => {}, last: true }), box);
        return box.textContent ?? "";
      };
      equal(show(asked.slice(0, 2)), "being spoken", "nothing is answered yet");
      ok(/What is it\?.*Thinking/.test(show([...asked, created("r1", "run_1")])), box.textContent ?? "");
      ok(/It is a lamp\./.test(show(answerEvents)), box.textContent ?? "");
      render(null, box);
    },
  },
  {
    name: "the call's state is described in a few words",
    run: () => {
      const call = { status: "on" as const, tries: 0, sounding: false, muted: false };
      const [hearing] = all(asked.slice(0, 1));
      const [thinking] = all(asked);
      equal(
        [describeState(call, undefined), describeState(call, hearing), describeState(call, thinking), describeState({ ...call, sounding: true }, thinking), describeState({ ...call, muted: true }, undefined)],
        ["Listening", "You are speaking", "Thinking", "The agent is speaking", "Muted"],
      );
      equal(describeState({ ...call, status: "again", tries: 2 }, hearing), "Connection lost, reconnecting (2/3)");
      equal(thinking && describeState(call, { ...thinking, status: "requires_action", spoken: thinking.spoken && { ...thinking.spoken, phase: "over" } }), "Waiting for your decision");
      const requiredAction = { kind: "client_tools" as const, expiresAt: "" };
      equal(thinking && describeState(call, { ...thinking, status: "requires_action", requiredAction, spoken: thinking.spoken && { ...thinking.spoken, phase: "over" } }), "Waiting for the client");
      equal([describeState({ ...call, status: "connecting" }, undefined), describeState({ ...call, status: "ending" }, thinking)], ["Connecting", "Ending"]);
    },
  },
  {
    name: "the panel says that recognition is offline, and that a decision is pending",
    run: async () => {
      const box = document.createElement("div");
      const session = new FakeSession();
      const { call, receive } = newCall(session, null);
      const says = (model: string): string => {
        receive({ type: "session.created", session: { audio: { input: { transcription: { model } } } } });
        render(h(VoicePanel, { call, onEnd: () => {} }), box);
        return box.textContent ?? "";
      };
      ok(/recognized offline/.test(says("offline/pocketsphinx")), box.textContent ?? "");
      ok(!/recognized offline|decision/.test(says("openai/gpt-4o-mini-transcribe")), box.textContent ?? "");
      const [turn] = all([...answerEvents, done("r1", "incomplete")]);
      if (turn) session.turns = [{ ...turn, status: "requires_action" }];
      ok(/Waiting for your decision.*needs your decision/.test(says("openai/x")), box.textContent ?? "");
      await soon();
      render(null, box);
    },
  },
  {
    name: "the second click of a double click does not reach the panel",
    run: async () => {
      const box = document.createElement("div");
      const { call } = newCall(new FakeSession(), null);
      let ended = 0;
      render(h(VoicePanel, { call, onEnd: () => { ended++; } }), box);
      const press = () => box.querySelector<HTMLElement>("[aria-label='End speaking']")?.click();
      call.turnedAt = performance.now();
      press();
      equal(ended, 0, "the call has only just begun");
      call.turnedAt -= 600;
      press();
      equal(ended, 1);
      await soon();
      render(null, box);
    },
  },
  {
    name: "people see the reason that speaking failed",
    run: () => {
      const of = (name: string) => microphoneTrouble(new DOMException("", name), true).head;
      equal([of("NotAllowedError"), of("NotFoundError"), of("NotReadableError")], ["Microphone blocked by the browser", "No microphone found", "Microphone unavailable"]);
      ok(/https/.test(microphoneTrouble(null, false).words) && !microphoneTrouble(null, false).again, "an insecure URL");
      equal(refusal(new ApiError(429, "rate_limit_exceeded", "Too many.", [], "", 5)).words, "Too many. Try again in 5 s.");
      ok(!refusal(new ApiError(400, "voice_not_enabled", "x")).again && refusal(new ApiError(500, "internal", "x")).again, "only temporary errors are retried");
    },
  },
  {
    name: "ends are explained, and losses lead to a reconnection",
    run: () => {
      equal([endTrouble(1006, null, ""), endTrouble(1012, null, ""), endTrouble(1000, null, "")], [null, null, null], "these connections are reopened");
      equal([endTrouble(1013, null, "")?.again, endTrouble(1000, "voice_unavailable", "")?.again], [true, true]);
      equal([endTrouble(1000, "session_idle", "")?.calm, endTrouble(1000, "session_expired", "")?.calm, endTrouble(1008, null, "No.")?.words], [true, true, "No."]);
      for (const missing of ["role voice", "TRANSCRIPTION_MODEL", "SPEECH_MODEL", "parley doctor", "by text"]) ok(endTrouble(1013, null, "")?.words.includes(missing) ?? false, missing);
      equal(["client_too_slow", "credential_revoked"].map((code) => endTrouble(1008, code, "protocol words")?.words.includes("protocol")), [false, false]);
      equal(["service_restarting", "session_idle", "voice_unavailable"].map((code) => noticeFor({ code, message: "connect again with the same session_id" })), [null, null, null]);
      equal([noticeFor({ code: "response_cancel_not_active", message: "x" }), noticeFor({ code: "other", message: "x" })], [null, "x"]);
    },
  },
];
