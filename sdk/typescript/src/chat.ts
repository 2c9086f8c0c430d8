import { ParleyError } from "./errors.js";
import { paramsOf } from "./given.js";
import { runPromise, type RunPromise } from "./run.js";
import { RunStream } from "./stream.js";
import { random, type Runs } from "./runs.js";
import type { Call, RequestOptions, Transport } from "./transport.js";
import type { ChatMessage } from "./types.js";

/** A message to exactly one agent or template. */
export type ChatParams = ({ agentId: string; templateId?: undefined } | { templateId: string; agentId?: undefined }) & {
  /** What the person says. */
  message: ChatMessage["message"];
  /** The session that the message belongs to; one of its own, which its key names, unless given. The run's `sessionId` names it. */
  sessionId?: ChatMessage["sessionId"] | undefined;
  /**
   * Names this message: sent again with the same key it gives the same run. Made for each call unless given; without a `sessionId` it
   * has 124 characters at most.
   */
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
  const chat = (params: ChatParams & { wait?: boolean | undefined }, options: RequestOptions = {}): RunPromise =>
    runPromise(async () => {
      const { call, key } = messageOf(params);
      return runs.submit(call, key, params.wait ?? true, visitor, options);
    });
  const stream = (params: ChatParams, options?: RequestOptions): RunStream => {
    const { call } = messageOf(params, true);
    const opening = (runId: string | undefined): Call => (runId === undefined || visitor ? call : runs.streamCall(runId));
    return new RunStream(transport, opening, options);
  };
  return Object.assign(chat, { stream });
}

function messageOf(params: ChatParams, stream?: true): { call: Call; key: string } {
  const { agentId, templateId, sessionId, message, idempotencyKey } = paramsOf(params, "{ agentId, message } or { templateId, message }");
  if (!agentId === !templateId) throw new ParleyError("give agentId or templateId");
  const key = idempotencyKey ?? random();
  const body: ChatMessage = { sessionId: sessionId ?? sessionOf(key), message, ...(stream && { stream }) };
  const query = { action: "chat", id: agentId, template: templateId };
  return { call: { method: "POST", path: "/api/agents", query, headers: { "Idempotency-Key": key }, body }, key };
}

// A session is a part of the message: with another one, the same key would be another request's.
function sessionOf(key: string): string {
  if ([...key].length > 124) throw new ParleyError("an idempotencyKey of more than 124 characters needs a sessionId");
  return `key-${key}`;
}
