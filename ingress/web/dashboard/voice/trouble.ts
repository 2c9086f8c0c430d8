// Explains why a voice conversation failed or ended.
import { ApiError } from "../api";
import * as texts from "../texts/voice";
import { Words } from "../texts/voice";
import type { VoiceEvent } from "./spoken";

export interface Trouble {
  head: string;
  words: string;
  /** Whether a retry may help. */
  again: boolean;
  /** Whether the conversation ended normally. */
  calm?: boolean;
  /** The part of the agent's settings where the problem can be resolved. */
  settings?: string;
}

/** Explains why the microphone could not be opened. */
export function microphoneTrouble(cause: unknown, secure: boolean): Trouble {
  const name = cause instanceof DOMException ? cause.name : "";
  if (!secure) return { head: Words.microphoneBlockedOnThisInsecure, words: Words.openThisPageOver, again: false };
  switch (name) {
    case "NotAllowedError":
    case "SecurityError":
      return { head: Words.microphoneBlockedByBrowser, words: Words.allowMicrophoneInBrowsers, again: true };
    case "NotFoundError":
    case "OverconstrainedError":
      return { head: Words.noMicrophoneFound, words: Words.connectMicrophoneOrSwitch, again: true };
    case "NotReadableError":
    case "AbortError":
      return { head: Words.microphoneUnavailable, words: Words.anotherProgramMayBeUsing, again: true };
    default:
      return { head: Words.couldntOpenMicrophone, words: cause instanceof Error && cause.message !== "" ? cause.message : Words.browserGaveNoReason, again: true };
  }
}

/** Explains why the service refused a connection. */
export function refusal(error: ApiError): Trouble {
  switch (error.code) {
    case "voice_not_enabled":
      return { head: Words.voiceIsOffForThisAgent, words: Words.switchItOnInAgents, again: false, settings: "tools" };
    case "caller_not_allowed":
      return { head: Words.agentIsntOpenToPeople, words: Words.allowPeopleInAgents, again: false, settings: "callers" };
    case "rate_limited":
    case "rate_limit_exceeded":
    case "too_many_streams":
      return { head: Words.tooManyConnections, words: `${error.detail} ${error.retryAfter === null ? Words.tryAgainInMoment : texts.tryAgainInS(error.retryAfter)}`, again: true };
    case "unreachable":
      return { head: Words.cantReachService, words: Words.checkConnectionAndTry, again: true };
    case "overloaded":
    case "unavailable":
      return { head: Words.serviceBusy, words: Words.tryAgainInMoment, again: true };
    default:
      return { head: Words.couldntOpenVoiceConnection, words: error.detail, again: error.status === 0 || error.status === 429 || error.status >= 500 };
  }
}

const unavailable: Trouble = {
  head: Words.speechIsUnavailable,
  words: Words.noVoiceWorkerRole
    + Words.operatorCanFindReason,
  again: true,
};

/**
 * Explains the end of a connection, from the service's last error and the close code. Returns null
 * if reconnecting may help.
 */
export function endTrouble(code: number, said: string | null, message: string): Trouble | null {
  switch (said) {
    case "session_expired": return { head: Words.maximumConversationTimeReached, words: Words.conversationIsSavedSpeak, again: true, calm: true };
    case "session_idle": return { head: Words.connectionClosedAfterLong, words: Words.speakAgainWhenYou, again: true, calm: true };
    case "voice_unavailable": return unavailable;
    case "client_too_slow": case "client_unresponsive": return { head: Words.connectionTooSlow, words: Words.continueByTextOrTry, again: true };
    case "rate_limit_exceeded": return { head: Words.tooManyRequests, words: message, again: true };
    case "unauthorized": case "invalid_api_key": case "credential_revoked": return { head: Words.youAreSignedOut, words: Words.signInAgain, again: false };
  }
  if (code === 1013) return unavailable;
  if (code === 1008 || code === 1009 || code === 1003) return { head: Words.serviceClosedConnection, words: message || Words.serviceGaveNoReason, again: true };
  return null;
}

/** The pauses before attempts to reconnect, in milliseconds. */
export const pauses = [500, 2000, 5000] as const;

export const lost: Trouble = { head: Words.connectionLost, words: Words.reconnectingFailedConversation, again: true };

/**
 * Returns the message for an error that does not end the connection, or null if no message is
 * needed.
 */
export function noticeFor(error: { code?: string | null; message?: string }): string | null {
  switch (error.code) {
    case "unknown_voice": return Words.agentsVoiceIsUnknown;
    case "response_cancel_not_active": case "conversation_already_has_active_response": return null;
    case "session_expired": case "session_idle": case "service_restarting": case "voice_unavailable": return null; // the end of the connection reports this error
    default: return error.message ?? null;
  }
}

/**
 * Explains why an answer was not spoken, or not to its end. Returns null if the message was
 * refused, because its turn shows that error.
 */
export function failureFor({ response }: VoiceEvent): string | null {
  if (response?.status !== "failed" || !response.metadata?.["run_id"]) return null;
  return response.status_details?.error?.message || Words.answerCouldNotBeSpoken;
}
