// The connection: a short-lived secret, and the socket that is opened with it.
import { ApiError, post, problemOf, reached } from "../api";
import { targetId, type Target } from "../chat/target";
import type { VoiceEvent } from "./spoken";

/** The request for a secret, as it is sent and as its command shows it. Such a secret is good for that session alone. */
export const secretRequest = (target: Target, session: string) => ({
  method: "POST" as const, path: "/v1/realtime/client_secrets", params: { session_id: session }, body: { session: { type: "realtime", model: targetId(target) } },
});

const most = 1 << 20; // bytes that may wait to be sent: the connection does not carry them any more

export interface LineEvents {
  told: (event: VoiceEvent) => void;
  closed: (code: number, reason: string) => void;
}

/** An open connection. */
export class Line {
  constructor(
    private readonly socket: WebSocket,
    private readonly on: LineEvents,
  ) {
    socket.onmessage = ({ data }: MessageEvent<unknown>) => {
      if (typeof data === "string") on.told(JSON.parse(data) as VoiceEvent);
    };
  }

  /** Waits until it is open; false when it was refused. */
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
    if (this.socket.bufferedAmount > most) {
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

function addressOf(target: Target, session: string): URL {
  const url = new URL("/v1/realtime", location.origin);
  url.search = new URLSearchParams({ model: targetId(target), session_id: session }).toString();
  return url;
}

/** Opens a connection to an agent in a session. It throws what the service says against it. */
export async function open(target: Target, session: string, on: LineEvents, signal: AbortSignal): Promise<Line> {
  const { path, body, params } = secretRequest(target, session);
  const { value } = await post<{ value: string }>(path, body, params, signal);
  const url = addressOf(target, session);
  const web = url.href;
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(url, ["realtime", `openai-insecure-api-key.${value}`]);
  const line = new Line(socket, on);
  const opened = await line.opened(signal);
  signal.throwIfAborted();
  if (!opened) throw await reason(web, value, signal);
  return line;
}

/** Browsers do not say why a socket was refused: the same request, as any other, tells. */
const reason = (url: string, secret: string, signal: AbortSignal): Promise<ApiError> =>
  reached(async () => {
    const response = await fetch(url, { headers: { authorization: `Bearer ${secret}` }, credentials: "omit", signal });
    if (response.status !== 426) return problemOf(response);
    return new ApiError(503, "not_opened", "Your organization may have too many voice connections open, or something on the way lets no WebSockets through.");
  }, signal);
