// Why one cannot speak, or not any more, in words for people.
import { ApiError } from "../api";
import type { VoiceEvent } from "./spoken";

export interface Trouble {
  head: string;
  words: string;
  /** Trying again may help. */
  again: boolean;
  /** It is as it should be. */
  calm?: boolean;
}

/** What kept the microphone from being opened. */
export function microphoneTrouble(cause: unknown, secure: boolean): Trouble {
  const name = cause instanceof DOMException ? cause.name : "";
  if (!secure) return { head: "Browsers give microphones to safe pages only", words: "Open this page over https, or on this machine as http://localhost.", again: false };
  switch (name) {
    case "NotAllowedError":
    case "SecurityError":
      return { head: "The browser does not let this page hear you", words: "Allow the microphone beside the address of the page, and in your system’s settings for the browser. Then try again.", again: true };
    case "NotFoundError":
    case "OverconstrainedError":
      return { head: "There is no microphone", words: "Connect one, or switch it on, and try again.", again: true };
    case "NotReadableError":
    case "AbortError":
      return { head: "The microphone cannot be used", words: "Another program may hold it, or it was unplugged. Try again once it is free.", again: true };
    default:
      return { head: "The microphone could not be opened", words: cause instanceof Error && cause.message !== "" ? cause.message : "The browser did not say why.", again: true };
  }
}

/** What the service said instead of opening a connection. */
export function refusal(error: ApiError): Trouble {
  switch (error.code) {
    case "voice_not_enabled":
      return { head: "Nobody may speak with this agent", words: "Its voice was switched off. Switch it on under Settings, Tools.", again: false };
    case "caller_not_allowed":
      return { head: "This agent does not talk with people", words: "Allow people under Settings, Who may call it.", again: false };
    case "rate_limited":
    case "rate_limit_exceeded":
    case "too_many_streams":
      return { head: "There are too many connections just now", words: `${error.detail} ${error.retryAfter === null ? "Try again in a moment." : `Try again in ${error.retryAfter} s.`}`, again: true };
    case "unreachable":
      return { head: "The service cannot be reached", words: "Check the connection and try again.", again: true };
    case "overloaded":
    case "unavailable":
      return { head: "The service is busy", words: "Try again in a moment.", again: true };
    default:
      return { head: "The service did not open a connection", words: error.detail, again: error.status === 0 || error.status === 429 || error.status >= 500 };
  }
}

const unavailable: Trouble = {
  head: "Nobody can listen just now",
  words: "No part of the service for speech (role voice) has a place: none runs, TRANSCRIPTION_MODEL and SPEECH_MODEL are off, or all are busy. "
    + "Whoever runs it is told which by parley doctor. You can go on by text; if they are busy, try again in a moment.",
  again: true,
};

/** What ended a connection: the service's last word before it, and how it was closed. */
export function endTrouble(code: number, said: string | null, message: string): Trouble | null {
  switch (said) {
    case "session_expired": return { head: "The longest time for one conversation is over", words: "What was said is kept: begin again, and the agent remembers it.", again: true, calm: true };
    case "session_idle": return { head: "Nothing was said for a while", words: "So the connection was closed. Begin again when you like.", again: true, calm: true };
    case "voice_unavailable": return unavailable;
    case "client_too_slow": case "client_unresponsive": return { head: "The connection is too slow to speak over", words: "You can go on by text, or try again.", again: true };
    case "rate_limit_exceeded": return { head: "There were too many requests", words: message, again: true };
    case "unauthorized": case "invalid_api_key": case "credential_revoked": return { head: "You are not signed in any more", words: "Sign in again, then speak.", again: false };
  }
  if (code === 1013) return unavailable;
  if (code === 1008 || code === 1009 || code === 1003) return { head: "The service closed the connection", words: message || "It did not say why.", again: true };
  return null;
}

/** Milliseconds before each further try. */
export const pauses = [500, 2000, 5000] as const;

export const lost: Trouble = { head: "The connection is lost", words: "It could not be taken up again. What was said is kept: you can go on by text, or try again.", again: true };

/** What is to be told of an error that does not end the connection, if anything. */
export function noticeOf(error: { code?: string | null; message?: string }): string | null {
  switch (error.code) {
    case "unknown_voice": return "The agent’s voice is not known here; it speaks with the usual one. Its name is set under Settings, Tools.";
    case "response_cancel_not_active": case "conversation_already_has_active_response": return null;
    case "session_expired": case "session_idle": case "service_restarting": case "voice_unavailable": return null; // the end says it
    default: return error.message ?? null;
  }
}

/** Why an answer was not said, or not to its end. Of one that was not accepted its turn tells. */
export function failureOf({ response }: VoiceEvent): string | null {
  if (response?.status !== "failed" || !response.metadata?.["run_id"]) return null;
  return response.status_details?.error?.message || "The answer could not be said.";
}
