// The voice connection: a WebSocket that is opened with a short-lived secret.
import { ApiError, post, readProblem, reached } from "../api";
import { targetId, type Target } from "../chat/target";
import { Words } from "../texts/voice";
import type { VoiceEvent } from "./spoken";

/**
 * Returns the request for a secret that is valid only for this session. The page's curl command
 * shows the same request.
 */
export const secretRequest = (target: Target, session: string) => ({
  method: "POST" as const, path: "/v1/realtime/client_secrets", params: { session_id: session }, body: { session: { type: "realtime", model: targetId(target) } },
});

const maxUnsentBytes = 1 << 20; // maximum number of unsent bytes; with more, the connection counts as broken

export interface ConnectionEvents {
  received: (event: VoiceEvent) => void;
  closed: (code: number, reason: string) => void;
}

/** An open voice connection. */
export class VoiceConnection {
  constructor(
    private readonly socket: WebSocket,
    private readonly on: ConnectionEvents,
  ) {
    socket.onmessage = ({ data }: MessageEvent<unknown>) => {
      if (typeof data === "string") on.received(JSON.parse(data) as VoiceEvent);
    };
  }

  /** Waits until the connection is open. Returns false if the service has refused it. */
  opened(signal: AbortSignal): Promise<boolean> {
    const { socket, on } = this;
    return new Promise((resolve) => {
      socket.onopen = () => {
        socket.onclose = ({ code, reason }) => on.closed(code, reason);
        resolve(true);
      };
      socket.onclose = () => resolve(false);
      signal.addEventListener("abort", () => {
        this.close();
        resolve(false);
      });
    });
  }

  send(event: object): void {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    if (this.socket.bufferedAmount > maxUnsentBytes) {
      this.close();
      this.on.closed(1006, "");
      return;
    }
    this.socket.send(JSON.stringify(event));
  }

  close(): void {
    this.socket.onmessage = this.socket.onclose = null;
    this.socket.close(1000);
  }
}

function voiceAddress(target: Target, session: string): URL {
  const url = new URL("/v1/realtime", location.origin);
  url.search = new URLSearchParams({ model: targetId(target), session_id: session }).toString();
  return url;
}

/**
 * Opens a voice connection to an agent in a session. Throws an ApiError if the service refuses the
 * connection.
 */
export async function open(target: Target, session: string, on: ConnectionEvents, signal: AbortSignal): Promise<VoiceConnection> {
  const { path, body, params } = secretRequest(target, session);
  const { value } = await post<{ value: string }>(path, body, params, signal);
  const url = voiceAddress(target, session);
  const web = url.href;
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(url, ["realtime", `openai-insecure-api-key.${value}`]);
  const connection = new VoiceConnection(socket, on);
  const opened = await connection.opened(signal);
  signal.throwIfAborted();
  if (!opened) throw await reason(web, value, signal);
  return connection;
}

/**
 * Returns why the service has refused a connection. Browsers do not report the reason, so the same
 * request is sent over HTTP.
 */
const reason = (url: string, secret: string, signal: AbortSignal): Promise<ApiError> =>
  reached(async () => {
    const response = await fetch(url, { headers: { authorization: `Bearer ${secret}` }, credentials: "omit", signal });
    if (response.status !== 426) return readProblem(response);
    return new ApiError(503, "not_opened", Words.yourOrganizationMayHaveTooMany);
  }, signal);
