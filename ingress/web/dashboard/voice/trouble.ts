// Explains in words why speaking failed or ended.
import { ApiError } from "../api";
import type { VoiceEvent } from "./spoken";

export interface Trouble {
  head: string;
  words: string;
  /** Whether a retry may help. */
  again: boolean;
  /** Whether the conversation ended normally. */
  calm?: boolean;
  /** The part of the agent's settings that resolves the problem. */
  settings?: string;
}

/** Explains why the microphone could not be opened. */
export function microphoneTrouble(cause: unknown, secure: boolean): Trouble {
  const name = cause instanceof DOMException ? cause.name : "";
  if (!secure) return { head: "Microphone blocked on this insecure page", words: "Open this page over https, or as http://localhost on this machine.", again: false };
  switch (name) {
    case "NotAllowedError":
    case "SecurityError":
      return { head: "Microphone blocked by the browser", words: "Allow the microphone in the browser’s address bar, and for the browser in your system’s settings. Then try again.", again: true };
    case "NotFoundError":
    case "OverconstrainedError":
      return { head: "No microphone found", words: "Connect a microphone or switch it on, then try again.", again: true };
    case "NotReadableError":
    case "AbortError":
      return { head: "Microphone unavailable", words: "Another program may be using it, or it was unplugged. Try again when it is free.", again: true };
    default:
      return { head: "Couldn’t open the microphone", words: cause instanceof Error && cause.message !== "" ? cause.message : "The browser gave no reason. Try again.", again: true };
  }
}

/** Explains why the service refused a connection. */
export function refusal(error: ApiError): Trouble {
  switch (error.code) {
    case "voice_not_enabled":
      return { head: "Voice is off for this agent", words: "Switch it on in the agent’s settings, under Tools.", again: false, settings: "tools" };
    case "caller_not_allowed":
      return { head: "People may not chat with this agent", words: "Allow People in the agent’s settings, under “Who may call it”.", again: false, settings: "callers" };
    case "rate_limited":
    case "rate_limit_exceeded":
    case "too_many_streams":
      return { head: "Too many connections", words: `${error.detail} ${error.retryAfter === null ? "Try again in a moment." : `Try again in ${error.retryAfter} s.`}`, again: true };
    case "unreachable":
      return { head: "Can’t reach the service", words: "Check the connection and try again.", again: true };
    case "overloaded":
    case "unavailable":
      return { head: "Service busy", words: "Try again in a moment.", again: true };
    default:
      return { head: "Couldn’t open a voice connection", words: error.detail, again: error.status === 0 || error.status === 429 || error.status >= 500 };
  }
}

const unavailable: Trouble = {
  head: "Speech is unavailable",
  words: "No voice worker (role voice) is available: none is running, TRANSCRIPTION_MODEL and SPEECH_MODEL are off, or all are busy. "
    + "The operator can find the reason with parley doctor. Continue by text, or try again in a moment.",
  again: true,
};

/**
 * Explains the end of a connection, from the service's last error and the close code. Returns null
 * if reconnecting may help.
 */
export function endTrouble(code: number, said: string | null, message: string): Trouble | null {
  switch (said) {
    case "session_expired": return { head: "Maximum conversation time reached", words: "The conversation is saved. Speak again, and the agent remembers it.", again: true, calm: true };
    case "session_idle": return { head: "Connection closed after a long silence", words: "Speak again when you like.", again: true, calm: true };
    case "voice_unavailable": return unavailable;
    case "client_too_slow": case "client_unresponsive": return { head: "Connection too slow for speech", words: "Continue by text, or try again.", again: true };
    case "rate_limit_exceeded": return { head: "Too many requests", words: message, again: true };
    case "unauthorized": case "invalid_api_key": case "credential_revoked": return { head: "You are signed out", words: "Sign in again to speak.", again: false };
  }
  if (code === 1013) return unavailable;
  if (code === 1008 || code === 1009 || code === 1003) return { head: "The service closed the connection", words: message || "The service gave no reason. Try again.", again: true };
  return null;
}

/** Milliseconds before each reconnection attempt. */
export const pauses = [500, 2000, 5000] as const;

export const lost: Trouble = { head: "Connection lost", words: "Reconnecting failed. The conversation is saved. Continue by text, or try again.", again: true };

/**
 * Returns the message for an error that does not end the connection, or null if no message is
 * needed.
 */
export function noticeOf(error: { code?: string | null; message?: string }): string | null {
  switch (error.code) {
    case "unknown_voice": return "The agent’s voice is unknown to the speech service, so the default voice is used. Change it in the agent’s settings, under Tools.";
    case "response_cancel_not_active": case "conversation_already_has_active_response": return null;
    case "session_expired": case "session_idle": case "service_restarting": case "voice_unavailable": return null; // the end of the connection reports it
    default: return error.message ?? null;
  }
}

/**
 * Explains why an answer was not spoken, or not to its end. Returns null for a refused message,
 * because its turn shows the error.
 */
export function failureOf({ response }: VoiceEvent): string | null {
  if (response?.status !== "failed" || !response.metadata?.["run_id"]) return null;
  return response.status_details?.error?.message || "The answer could not be spoken.";
}
