// The controls of a voice conversation: its state, its volume levels and its buttons.
import { useEffect, useRef } from "preact/hooks";
import * as texts from "../texts/voice";
import { Words } from "../texts/voice";
import { Button } from "../ui/button";
import { Curl } from "../ui/curl";
import { moment } from "../chat/session";
import { SettingsLink } from "../chat/trouble";
import { waitsForClient, type Turn } from "../chat/turn";
import type { Call } from "./call";
import { secretRequest } from "./connection";
import { pauses } from "./trouble";

/** The call's controls. The key M mutes while the focus is inside. */
export function VoicePanel({ call, onEnd }: { call: Call; onEnd: () => void }) {
  const panel = useRef<HTMLElement>(null);
  const turn = call.session.turns.findLast((t) => t.spoken);
  const words = describeState(call, turn);
  const decides = call.status === "on" && turn?.status === "requires_action" && !waitsForClient(turn);
  useEffect(() => panel.current?.querySelector("button")?.focus(), []);
  const key = (e: KeyboardEvent) => {
    const writing = e.target instanceof HTMLSelectElement || e.ctrlKey || e.metaKey || e.altKey;
    if (writing || e.repeat || e.key.toLowerCase() !== "m" || call.status === "ended") return;
    e.preventDefault();
    call.mute(!call.muted);
  };
  const early = (e: Event) => {
    if (e.timeStamp - call.turnedAt < moment) e.stopPropagation();
  };
  return (
    <section ref={panel} class="voice" aria-label={Words.speaking} tabIndex={-1} onKeyDown={key} onClickCapture={early}>
      {call.trouble
        ? <Troubled call={call} onEnd={onEnd} />
        : (
          <>
            <div class="voice-head">
              <span class={"status " + (decides ? "warn" : statusTone(call))}>{words}</span>
              <Latency turns={call.session.turns} />
            </div>
            <div class="voice-levels">
              <Level call={call} of="microphone" label={Words.microphone} />
              <Level call={call} of="agent" label={Words.agent} />
            </div>
            <div class="voice-buttons">
              <Button icon={call.muted ? "muted" : "voice"} pressed={call.muted} keys="m" onClick={() => call.mute(!call.muted)}>{texts.muteM()}</Button>
              <Button look="danger" icon="close" label={Words.endSpeaking} onClick={onEnd}>{Words.end}</Button>
              <Device call={call} />
              {call.sounding && <Button icon="stop" label={Words.stopTheAnswer} onClick={() => { panel.current?.querySelector("button")?.focus(); call.stopAnswer(); }}>{Words.stop}</Button>}
              <Curl what={Words.createSecretForSpeaking} request={secretRequest(call.session.target, call.session.id)} />
            </div>
            {decides && <p class="voice-notice">{Words.agentWantsToUse}</p>}
            {call.offline && <p class="hint">{texts.offlineSpeechRecognitionExpect()}</p>}
            {call.notice && <p class="voice-notice" role="alert">{call.notice}</p>}
          </>
        )}
      <p class="visually-hidden" role="status">{announcement(call)}</p>
    </section>
  );
}

function Troubled({ call, onEnd }: { call: Call; onEnd: () => void }) {
  const { head, words, again, calm, settings } = call.trouble ?? { head: "", words: "", again: false };
  const { target } = call.session;
  return (
    <div class={calm ? "note" : "problem"} role="alert">
      <p><strong>{head}</strong></p>
      <p>{words} {settings && "agentId" in target && <SettingsLink agentId={target.agentId} part={settings} />}</p>
      <div class="actions">
        {again && <Button onClick={() => call.start()}>{calm ? Words.speakAgain : Words.tryAgain}</Button>}
        <Button look={again ? "bare" : "plain"} onClick={onEnd}>{Words.continueByText}</Button>
      </div>
    </div>
  );
}

/** Describes the state of a call in a few words. */
export function describeState(call: Pick<Call, "status" | "tries" | "sounding" | "muted">, turn: Pick<Turn, "spoken" | "status" | "requiredAction"> | undefined): string {
  switch (call.status) {
    case "asking": return Words.waitingForMicrophone;
    case "connecting": return Words.connecting;
    case "again": return texts.connectionLostReconnectingTries(call.tries, pauses.length);
    case "ending": return Words.ending;
    case "off": case "ended": return Words.ended;
  }
  const phase = turn?.spoken?.phase;
  if (phase === "hearing") return Words.youAreSpeaking;
  if (call.sounding) return Words.agentIsSpeaking;
  if (phase === "understanding") return Words.transcribing;
  if (phase === "thinking") return Words.thinking;
  if (turn?.status === "requires_action") return waitsForClient(turn) ? Words.waitingForTheClient : Words.waitingForYourDecision;
  return call.muted ? Words.muted : Words.listening;
}

const statusTone = (call: Call): string => (call.status === "again" ? "warn" : call.status !== "on" ? "busy" : call.muted ? "" : "good");

/**
 * Returns the announcement for screen readers. It does not say who is speaking, because that is
 * audible.
 */
function announcement(call: Call): string {
  switch (call.status) {
    case "asking": return Words.waitingForTheMicrophone;
    case "again": return texts.connectionLostReconnectingOf(call.tries, pauses.length);
    case "on": return call.muted ? Words.youAreMuted : Words.youCanSpeak;
    default: return "";
  }
}

function Latency({ turns }: { turns: Turn[] }) {
  const took = turns.findLast((t) => t.spoken && t.spoken.latency !== null)?.spoken?.latency;
  if (took === null || took === undefined) return null;
  return <span class="quiet small number">{texts.lastAnswerStarted((took / 1000).toFixed(1))}</span>;
}

const drawInterval = 250; // milliseconds between two drawings for people who prefer reduced motion

/**
 * Shows the volume of the person or of the agent. It is drawn directly, because rendering the page
 * for each change would be too slow.
 */
function Level({ call, of, label }: { call: Call; of: keyof Call["levels"]; label: string }) {
  const meter = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const still = matchMedia("(prefers-reduced-motion: reduce)");
    let drawn = 0;
    const draw = () => {
      const now = performance.now();
      const level = call.levels[of];
      if (still.matches && now - drawn < drawInterval && level > 0) return;
      drawn = now;
      meter.current?.style.setProperty("--level", level.toFixed(2));
      meter.current?.setAttribute("aria-valuenow", String(Math.round(level * 100)));
    };
    draw();
    call.addEventListener("level", draw);
    return () => call.removeEventListener("level", draw);
  }, [call]);
  return (
    <div class="voice-level">
      <span class="small quiet" aria-hidden="true">{label}</span>
      <div ref={meter} class="voice-meter" role="meter" aria-label={texts.labelLevel(label)} aria-valuemin={0} aria-valuemax={100} aria-valuenow={0}><i /></div>
    </div>
  );
}

function Device({ call }: { call: Call }) {
  if (call.devices.length < 2) return null;
  return (
    <select class="input" aria-label={Words.microphone} value={call.device ?? ""} onChange={(e) => void call.choose(e.currentTarget.value)}>
      {call.devices.map((d, i) => <option key={d.deviceId} value={d.deviceId} selected={d.deviceId === call.device}>{d.label || texts.microphoneN(i + 1)}</option>)}
    </select>
  );
}
