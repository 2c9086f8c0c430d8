import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { inDemo } from "../api";
import { Button } from "../ui/button";
import { Curl } from "../ui/copy";
import { bodyOf, type ChatSession } from "./session";
import { DemoLimit } from "./demo";
import { ofChat } from "./target";
import type { Turn } from "./turn";

const most = 32_000; // characters of a message

/** Where messages are written. Enter sends; with Shift it begins a new line. */
export function Composer({ session, busy, onSend, children }: {
  session: ChatSession; busy: Turn | undefined; onSend: (message: string) => void; children?: ComponentChildren;
}) {
  const [text, setText] = useState("");
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => setText(""), [session]);
  const length = [...text].length;
  const ready = text.trim() !== "" && length <= most && !busy;
  const send = () => {
    if (!ready) return;
    onSend(text);
    setText("");
    area.current?.focus();
  };
  const key = (e: KeyboardEvent) => {
    if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
    e.preventDefault();
    send();
  };
  return (
    <form class="composer" onSubmit={(e) => { e.preventDefault(); send(); }}>
      {children && <div class="composer-above">{children}</div>}
      <div class="composer-box">
        <label class="visually-hidden" for="chat-message">Message</label>
        <textarea ref={area} id="chat-message" rows={1} value={text} placeholder="Write a message" aria-describedby="chat-hint"
          onInput={(e) => setText(e.currentTarget.value)} onKeyDown={key} />
        {busy && mayStop(busy)
          ? <Button icon="stop" label="Stop the run" onClick={() => session.stop(busy)}>Stop</Button>
          : <Button type="submit" look="primary" icon="send" label="Send message" disabled={!ready}>Send</Button>}
      </div>
      <div class="composer-below">
        {length > most
          ? <span id="chat-hint" class="fault small">The message is {length - most} characters too long.</span>
          : <span id="chat-hint" class="hint">{busy ? "The next message can be sent when this one is answered." : "Enter sends, Shift and Enter begins a new line."}</span>}
        <DemoLimit />
        <Curl what="Send this message" request={{
          method: "POST", path: "/api/agents", params: ofChat(session.target), credential: inDemo() ? "demo" : "key", body: bodyOf(session.id, text.trim() || "What can you do?"),
        }} />
      </div>
    </form>
  );
}

/** Visitors of the demo may not end runs; what is not accepted yet anybody takes back. */
const mayStop = (turn: Turn): boolean => !inDemo() || turn.runId === null;
