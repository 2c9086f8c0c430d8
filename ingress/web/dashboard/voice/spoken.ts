// Applies the events from a voice connection to the turns in a session.
import { ApiError, sentence } from "../api";
import { newTurn, type Spoken, type Turn } from "../chat/turn";
import { Words } from "../texts/voice";

/** The fields of a service event that this page uses. */
export interface VoiceEvent {
  type: string;
  item_id?: string;
  response_id?: string;
  delta?: string;
  transcript?: string;
  audio_end_ms?: number;
  response?: {
    id: string;
    status?: string;
    status_details?: { reason?: string; error?: { type?: string; code?: string; message?: string } } | null;
    metadata?: Record<string, string> | null;
  };
  session?: { audio?: { input?: { turn_detection?: { silence_duration_ms?: number } | null; transcription?: { model?: string } } } };
  error?: { type?: string; code?: string | null; message?: string; param?: string | null };
}

/** The text that replaces an answer of which no part was played. */
export const notPlayed = "…";

const newSpokenTurn = (item: string): Turn => ({
  ...newTurn("", null), name: item, spoken: { phase: "hearing", item, response: null, answer: null, said: "", latency: null, played: 0 },
});

type Change = (turn: Turn, spoken: Spoken) => Turn;

const change = (turns: Turn[], of: (spoken: Spoken) => boolean, by: Change): Turn[] =>
  turns.map((turn) => (turn.spoken && of(turn.spoken) ? by(turn, turn.spoken) : turn));

const phase = (turns: Turn[], of: (spoken: Spoken) => boolean, now: Spoken["phase"]): Turn[] =>
  change(turns, of, (turn, spoken) => ({ ...turn, spoken: { ...spoken, phase: now } }));

/** Returns the turns as they are after an event. Unknown events change nothing. */
export function afterVoice(turns: Turn[], event: VoiceEvent): Turn[] {
  const asked = (s: Spoken) => s.item === event.item_id;
  const answered = (s: Spoken) => s.response !== null && s.response === event.response_id;
  switch (event.type) {
    case "input_audio_buffer.speech_started":
      return event.item_id === undefined || turns.some((t) => t.spoken && asked(t.spoken)) ? turns : [...turns, newSpokenTurn(event.item_id)];
    case "input_audio_buffer.speech_stopped":
      return phase(turns, asked, "understanding");
    case "conversation.item.input_audio_transcription.completed":
      return setTranscript(turns, asked, (event.transcript ?? "").trim());
    case "conversation.item.input_audio_transcription.failed":
      return setTranscript(turns, asked, "");
    case "response.created":
      return startAnswer(turns, event);
    case "response.output_audio_transcript.delta":
    case "response.output_text.delta":
      return change(turns, answered, (turn, spoken) => ({
        ...turn, spoken: { ...spoken, answer: event.item_id ?? spoken.answer, said: spoken.said + (event.delta ?? ""), phase: spoken.phase === "over" ? "over" : "speaking" },
      }));
    case "response.done":
      return finishAnswer(turns, event);
    default:
      return turns;
  }
}

/**
 * Sets the transcript of a turn. If the transcript has no words, the turn is removed, because it
 * gets no answer.
 */
function setTranscript(turns: Turn[], asked: (spoken: Spoken) => boolean, words: string): Turn[] {
  if (words === "") return turns.filter((t) => !t.spoken || !asked(t.spoken) || t.spoken.response !== null);
  return change(turns, asked, (turn, spoken) => ({ ...turn, message: words, spoken: { ...spoken, phase: "thinking" } }));
}

/**
 * Starts an answer. It responds to all questions since the previous answer, so the turns of these
 * questions are merged.
 */
function startAnswer(turns: Turn[], { response }: VoiceEvent): Turn[] {
  const open = turns.filter((t) => t.spoken && t.spoken.response === null && t.message !== "");
  const last = open.at(-1);
  if (!response || !last?.spoken) return turns;
  const all: Turn = {
    ...last, message: open.map((t) => t.message).join("\n\n"), runId: runIdIn(response) ?? last.runId,
    spoken: { ...last.spoken, response: response.id, phase: "thinking" },
  };
  return turns.filter((t) => t === last || !open.includes(t)).map((t) => (t === last ? all : t));
}

const runIdIn = (response: NonNullable<VoiceEvent["response"]>): string | null => response.metadata?.["run_id"] ?? null;

function finishAnswer(turns: Turn[], { response }: VoiceEvent): Turn[] {
  if (!response) return turns;
  return change(turns, (s) => s.response === response.id, (turn, spoken) => {
    const over: Turn = { ...turn, runId: runIdIn(response) ?? turn.runId, spoken: { ...spoken, phase: "over" } };
    if (response.status === "cancelled") return { ...over, playedText: over.playedText ?? (spoken.said.trim() || notPlayed) };
    if (response.status === "failed" && over.runId !== null) return { ...over, spoken: { ...spoken, phase: "over", silent: spoken.played === 0 } };
    if (response.status === "completed" || over.runId !== null) return over; // the event stream of the run delivers the rest
    return { ...over, problem: newRefusal(response) };
  });
}

/** The HTTP statuses that correspond to the error codes of refused turns. */
const statuses: Record<string, number> = {
  rate_limited: 429, rate_limit_exceeded: 429, budget_exceeded: 429, overloaded: 503, unavailable: 503, permission_denied: 403, caller_not_allowed: 403, not_found: 404,
};

function newRefusal(response: NonNullable<VoiceEvent["response"]>): ApiError {
  const { code = "unknown", message } = response.status_details?.error ?? {};
  return new ApiError(statuses[code] ?? 400, code, message === undefined ? Words.yourMessageWasNotAccepted : sentence(message));
}

/**
 * Returns the turns as they are after the connection was lost or the person ended it. Turns without
 * words are removed, and turns without a run get an error.
 */
export function afterLoss(turns: Turn[], ended = false): Turn[] {
  return turns.filter((t) => !t.spoken || t.runId !== null || t.problem !== null || t.message !== "").map((t) => {
    if (!t.spoken || t.spoken.phase === "over") return t;
    const lost: Turn = { ...t, spoken: { ...t.spoken, phase: "over", silent: t.spoken.played === 0 } };
    return t.runId !== null ? lost : { ...lost, problem: ended ? unanswered() : cutOff() };
  });
}

const cutOff = () => new ApiError(0, "connection_lost", Words.connectionWasLost);
const unanswered = () => new ApiError(0, "speaking_ended", Words.conversationEndedBeforeAgent);

/** Returns the turns after the played duration of an answer was set. */
export const withPlayed = (turns: Turn[], answer: string, played: number): Turn[] =>
  change(turns, (s) => s.answer === answer, (turn, spoken) => (played > spoken.played ? { ...turn, spoken: { ...spoken, played, silent: false } } : turn));

/** Returns the turns after the time until the first sound of an answer was set. */
export const withLatency = (turns: Turn[], answer: string, latency: number): Turn[] =>
  change(turns, (s) => s.answer === answer && s.latency === null, (turn, spoken) => ({ ...turn, spoken: { ...spoken, latency } }));

/** Returns the turns as they are after an answer was interrupted. */
export const markInterrupted = (turns: Turn[], answer: string): Turn[] =>
  change(turns, (s) => s.answer === answer, (turn, spoken) => ({ ...turn, playedText: turn.playedText ?? (spoken.said.trim() || notPlayed) }));
