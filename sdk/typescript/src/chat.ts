import { ParleyError } from "./errors.js";
import { checkParams } from "./given.js";
import { jsonSchemaOf, parsed, type AnySchema, type DataOf, type Parsed } from "./output.js";
import { runPromise, type RunPromise } from "./run.js";
import { RunStream } from "./stream.js";
import { random, type Runs } from "./runs.js";
import type { Call, RequestOptions, Transport } from "./transport.js";
import type { ChatMessage } from "./types.js";

/** A message to an agent or a template. */
export type ChatParams = ({ agentId: string; templateId?: undefined } | { templateId: string; agentId?: undefined }) & {
  /** The text of the message. It may be omitted if there are attachments. */
  message?: ChatMessage["message"] | undefined;
  /** Images and documents of the message. */
  attachments?: ChatMessage["attachments"] | undefined;
  /**
   * The session of the message. By default each message has its own session, derived from its key.
   * See the run's `sessionId`.
   */
  sessionId?: ChatMessage["sessionId"] | undefined;
  /** Tools that this program executes itself; see `runs.submitToolResults` and `runs.runTools`. */
  tools?: ChatMessage["tools"] | undefined;
  /** The JSON Schema of the answer. The default is the agent's `outputSchema`. */
  output?: ChatMessage["output"] | undefined;
  /**
   * Identifies this message: repeating it with the same key returns the same run. The default is a
   * new key per call. Without a `sessionId`, the key may have at most 124 characters.
   */
  idempotencyKey?: string | undefined;
} & Omit<ChatMessage, "sessionId" | "message" | "stream">;

/** Chats with agents and templates. */
export interface Chat {
  /**
   * Sends a message and returns its run, once the run has finished or requires an action. With
   * `wait: false` it returns as soon as the run is accepted.
   */
  (params: ChatParams & { wait?: boolean | undefined }, options?: RequestOptions): RunPromise;
  /**
   * Returns the events of a message's run as they happen. The message is sent when reading starts.
   */
  stream(params: ChatParams, options?: RequestOptions): RunStream;
  /**
   * Sends a message and returns the answer as data that matches a schema. It rejects with a
   * `RunFailedError` if the run does not complete.
   */
  parse<S extends AnySchema>(params: Omit<ChatParams, "output"> & { schema: S }, options?: RequestOptions): Promise<Parsed<DataOf<S>>>;
}

/**
 * Returns the `chat` of a client. Visitors may not read runs. To wait for a run or to resume its
 * stream, they send the message again with the same key.
 */
export function newChat(transport: Transport, runs: Runs, visitor: boolean): Chat {
  const chat = (params: ChatParams & { wait?: boolean | undefined }, options: RequestOptions = {}): RunPromise =>
    runPromise(async () => {
      const { call, key } = messageCall(params);
      return runs.submit(call, key, params.wait ?? true, visitor, options);
    });
  const stream = (params: ChatParams, options?: RequestOptions): RunStream => {
    const { call } = messageCall(params, true);
    const request = (runId: string | undefined): Call => (runId === undefined || visitor ? call : runs.streamCall(runId));
    return new RunStream(transport, request, options);
  };
  const parse = async <S extends AnySchema>(
    params: Omit<ChatParams, "output"> & { schema: S }, options?: RequestOptions,
  ): Promise<Parsed<DataOf<S>>> => {
    const { schema, ...rest } = checkParams(params, "{ agentId, message, schema }");
    return parsed(await chat({ ...rest, output: { schema: jsonSchemaOf(schema) } } as ChatParams, options), schema);
  };
  return Object.assign(chat, { stream, parse });
}

function messageCall(params: ChatParams & { wait?: boolean | undefined }, stream?: true): { call: Call; key: string } {
  const { agentId, templateId, sessionId, message, idempotencyKey, wait: _, ...further } = checkParams(
    params,
    "{ agentId, message } or { templateId, message }",
  );
  if (!agentId === !templateId) throw new ParleyError("pass exactly one of agentId and templateId");
  const key = idempotencyKey ?? random();
  const body: ChatMessage = { sessionId: sessionId ?? deriveSession(key), message, ...further, ...(stream && { stream }) };
  const query = { action: "chat", id: agentId, template: templateId };
  return { call: { method: "POST", path: "/api/agents", query, headers: { "Idempotency-Key": key }, body }, key };
}

// The session id is derived from the key. A retry with the same key but another session would be
// rejected as a conflict.
function deriveSession(key: string): string {
  if ([...key].length > 124) throw new ParleyError("sessionId is required with an idempotencyKey of more than 124 characters");
  return `key-${key}`;
}
