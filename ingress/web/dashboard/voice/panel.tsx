// The controls of a voice conversation: its state, its volume levels and its buttons.
import { useEffect, useRef } from "preact/hooks";
import { Button } from "../ui/button";
import { Curl } from "../ui/curl";
import { moment } from "../chat/session";
import { SettingsLink } from "../chat/trouble";
import type { Turn } from "../chat/turn";
import type { Call } from "./call";
import { secretRequest } from "./line";
import { pauses } from "./trouble";

/** The call's controls. The key M mutes while the focus is inside. */
export function VoicePanel({ call, onEnd }: { call: Call; onEnd: () => void }) {
  const panel = useRef<HTMLElement>(null);
  const turn = call.session.turns.findLast((t) => t.spoken);
  const words = stateOf(call, turn);
  const decides = call.status === "on" && turn?.status === "requires_action";
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
    <section ref={panel} class="voice" aria-label="Speaking" tabIndex={-1} onKeyDown={key} onClickCapture={early}>
      {call.trouble
        ? <Troubled call={call} onEnd={onEnd} />
        : (
          <>
            <div class="voice-head">
              <span class={"status " + (decides ? "warn" : toneOf(call))}>{words}</span>
              <Latency turns={call.session.turns} />
            </div>
            <div class="voice-levels">
              <Level call={call} of="microphone" label="Microphone" />
              <Level call={call} of="agent" label="Agent" />
            </div>
            <div class="voice-buttons">
              <Button icon={call.muted ? "muted" : "voice"} pressed={call.muted} keys="m" onClick={() => call.mute(!call.muted)}>Mute<kbd aria-hidden="true">M</kbd></Button>
              <Button look="danger" icon="close" label="End speaking" onClick={onEnd}>End</Button>
              <Device call={call} />
              {call.sounding && <Button icon="stop" label="Stop the answer" onClick={() => { panel.current?.querySelector("button")?.focus(); call.hush(); }}>Stop</Button>}
              <Curl what="Create a secret for speaking" request={secretRequest(call.session.target, call.session.id)} />
            </div>
            {decides && <p class="voice-notice">The agent wants to use a tool and needs your decision. Approve or reject it above, then continue.</p>}
            {call.offline && <p class="hint">Offline speech recognition: expect wrong words, and English only. For better recognition, the operator sets <code>TRANSCRIPTION_MODEL</code>. You can always continue by text.</p>}
            {call.notice && <p class="voice-notice" role="alert">{call.notice}</p>}
          </>
        )}
      <p class="visually-hidden" role="status">{aloudOf(call)}</p>
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
        {again && <Button onClick={() => call.start()}>{calm ? "Speak again" : "Try again"}</Button>}
        <Button look={again ? "bare" : "plain"} onClick={onEnd}>Continue by text</Button>
      </div>
    </div>
  );
}

/** Describes the state of a call in a few words. */
export function stateOf(call: Pick<Call, "status" | "tries" | "sounding" | "muted">, turn: Pick<Turn, "spoken" | "status"> | undefined): string {
  switch (call.status) {
    case "asking": return "Waiting for the microphone";
    case "connecting": return "Connecting";
    case "again": return `Connection lost, reconnecting (${call.tries}/${pauses.length})`;
    case "ending": return "Ending";
    case "off": case "ended": return "Ended";
  }
  const phase = turn?.spoken?.phase;
  if (phase === "hearing") return "You are speaking";
  if (call.sounding) return "The agent is speaking";
  if (phase === "understanding") return "Transcribing";
  if (phase === "thinking") return "Thinking";
  if (turn?.status === "requires_action") return "Waiting for your decision";
  return call.muted ? "Muted" : "Listening";
}

const toneOf = (call: Call): string => (call.status === "again" ? "warn" : call.status !== "on" ? "busy" : call.muted ? "" : "good");

/**
 * Returns the announcement for screen readers. It does not say who is speaking, because that is
 * audible.
 */
function aloudOf(call: Call): string {
  switch (call.status) {
    case "asking": return "Waiting for the microphone.";
    case "again": return `Connection lost. Reconnecting, ${call.tries} of ${pauses.length}.`;
    case "on": return call.muted ? "You are muted." : "You can speak.";
    default: return "";
  }
}

function Latency({ turns }: { turns: Turn[] }) {
  const took = turns.findLast((t) => t.spoken && t.spoken.latency !== null)?.spoken?.latency;
  if (took === null || took === undefined) return null;
  return <span class="quiet small number">Last answer started after {(took / 1000).toFixed(1)} s</span>;
}

const calm = 250; // milliseconds between two drawings for people who prefer reduced motion

/**
 * The volume of one side. It is drawn independently of the page's rendering, which would be too
 * slow.
 */
function Level({ call, of, label }: { call: Call; of: keyof Call["levels"]; label: string }) {
  const meter = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const still = matchMedia("(prefers-reduced-motion: reduce)");
    let drawn = 0;
    const draw = () => {
      const now = performance.now();
      const level = call.levels[of];
      if (still.matches && now - drawn < calm && level > 0) return;
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
      <div ref={meter} class="voice-meter" role="meter" aria-label={`${label} level`} aria-valuemin={0} aria-valuemax={100} aria-valuenow={0}><i /></div>
    </div>
  );
}

function Device({ call }: { call: Call }) {
  if (call.devices.length < 2) return null;
  return (
    <select class="input" aria-label="Microphone" value={call.device ?? ""} onChange={(e) => void call.choose(e.currentTarget.value)}>
      {call.devices.map((d, i) => <option key={d.deviceId} value={d.deviceId} selected={d.deviceId === call.device}>{d.label || `Microphone ${i + 1}`}</option>)}
    </select>
  );
}
