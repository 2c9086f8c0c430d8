import { runPromise, type RunPromise } from "./run.js";
import { RunStream } from "./stream.js";
import { random, type Runs } from "./runs.js";
import type { Call, RequestOptions, Transport } from "./transport.js";
import type { ChatMessage } from "./types.js";

/** A message to exactly one agent or template. */
export type ChatParams = ({ agentId: string; templateId?: undefined } | { templateId: string; agentId?: undefined }) & {
  /** What the person says. */
  message: ChatMessage["message"];
  /** The session that the message belongs to; a new one unless given. The run's `sessionId` names it. */
  sessionId?: ChatMessage["sessionId"] | undefined;
  /** Names this message: sent again with the same key it gives the same run. Made for each call unless given. */
  idempotencyKey?: string | undefined;
};

/** Talks with agents and templates. */
export interface Chat {
  /** Sends a message and gives its run once that has ended, requires an action, or, with `wait: false`, was accepted. */
  (params: ChatParams & { wait?: boolean | undefined }, options?: RequestOptions): RunPromise;
  /** Sends a message when reading begins, and gives the run's events as they happen. */
  stream(params: ChatParams, options?: RequestOptions): RunStream;
}

/** Makes the part of a client that chats. Visitors may not read runs: theirs are waited for and resumed by the message itself. */
export function chatOf(transport: Transport, runs: Runs, visitor: boolean): Chat {
  const chat = ({ wait, ...params }: ChatParams & { wait?: boolean | undefined }, options: RequestOptions = {}): RunPromise => {
    const call = callOf(params);
    return runPromise(() => runs.submit(call, wait ?? true, visitor, options));
  };
  const stream = (params: ChatParams, options?: RequestOptions): RunStream => {
    const call = callOf(params, true);
    const opening = (runId: string | undefined): Call => (runId === undefined || visitor ? call : runs.streamCall(runId));
    return new RunStream(transport, opening, options);
  };
  return Object.assign(chat, { stream });
}

function callOf({ agentId, templateId, sessionId, message, idempotencyKey }: ChatParams, stream?: true): Call {
  const body: ChatMessage = { sessionId: sessionId ?? random(), message, ...(stream && { stream }) };
  return {
    method: "POST",
    path: "/api/agents",
    query: { action: "chat", id: agentId, template: templateId },
    headers: { "Idempotency-Key": idempotencyKey ?? random() },
    body,
  };
}
