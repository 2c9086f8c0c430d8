// Where messages are written, and what is being answered is stopped.
import { useEffect, useRef, useState } from "preact/hooks";
import { inDemo } from "../api";
import { useSession } from "../state";
import { Button } from "../ui/button";
import { Curl } from "../ui/curl";
import { Speak, type Voice } from "../voice/speak";
import { DemoLimit } from "./demo";
import { draftOf, keepDraft } from "./kept";
import { bodyOf, moment, type ChatSession } from "./session";
import { ofChat } from "./target";
import type { Turn } from "./turn";

// How many bytes a body with a message may have, less those around the message.
const bodyMost = 2 * 1024 * 1024 - 1024;
const demoMost = 256 * 1024 - 1024;

/** How many bytes a text has in a body. */
function bytesOf(text: string): number {
  return new TextEncoder().encode(JSON.stringify(text)).length;
}

/** Where messages are written. Enter sends; with Shift it begins a new line. */
export function Composer({ session, slot, busy, voice, onSend, onSpeak }: {
  session: ChatSession; slot: string; busy: Turn | undefined; voice: Voice | undefined; onSend: (message: string) => void; onSpeak: () => void;
}) {
  const [text, setText] = useDraft(slot);
  const area = useRef<HTMLTextAreaElement>(null);
  const settled = useSettled(session);
  const most = inDemo() ? demoMost : bodyMost;
  const length = text.length * 6 > most ? bytesOf(text) : 0; // no character takes more than 6 bytes
  const ready = text.trim() !== "" && length <= most && !busy;
  const send = () => {
    if (!ready) return;
    setText("");
    onSend(text);
    area.current?.focus();
  };
  const stop = (turn: Turn) => {
    area.current?.focus(); // the button goes
    return session.stop(turn);
  };
  const key = (e: KeyboardEvent) => {
    if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
    e.preventDefault();
    send();
  };
  return (
    <form onSubmit={(e) => { e.preventDefault(); send(); }}>
      <div class="composer-box">
        <label class="visually-hidden" for="chat-message">Message</label>
        <textarea ref={area} id="chat-message" rows={1} value={text} placeholder="Write a message" aria-describedby="chat-hint"
          onInput={(e) => setText(e.currentTarget.value)} onKeyDown={key} />
        {voice && <Speak voice={voice} onSpeak={onSpeak} disabled={busy !== undefined} />}
        {busy && settled && !inDemo() // visitors of the demo may not end runs
          ? <Button icon="stop" label="Stop the run" disabled={busy.stopping} onClick={() => stop(busy)}>Stop</Button>
          : <Button type="submit" look="primary" icon="send" label="Send message" disabled={!ready}>Send</Button>}
      </div>
      <div class="composer-below">
        {length > most
          ? <span id="chat-hint" class="fault small">The message is {(length - most).toLocaleString("en")} bytes too long.</span>
          : <span id="chat-hint" class="hint">{busy ? "The next message can be sent when this one is answered." : "Enter sends, Shift and Enter begins a new line."}</span>}
        <DemoLimit />
        {busy?.runId && !inDemo()
          ? <Curl what="Stop the run" request={{ method: "POST", path: "/api/runs", params: { id: busy.runId, action: "cancel" } }} />
          : <Curl what="Send this message" request={{
            method: "POST", path: "/api/agents", params: ofChat(session.target), credential: inDemo() ? "demo" : "key", body: bodyOf(session.id, text.trim() || "What can you do?"),
          }} />}
      </div>
    </form>
  );
}

/** What is written, kept under a name: it is still there after a reload, and after signing in again. */
function useDraft(slot: string): [string, (text: string) => void] {
  const name = `${useSession()?.caller.userId ?? ""}.${slot}`; // nobody finds what another wrote
  const [text, setText] = useState(() => draftOf(name));
  useEffect(() => setText(draftOf(name)), [name]);
  const write = (now: string) => {
    keepDraft(name, now);
    setText(now);
  };
  return [text, write];
}

/** Whether the newest message was sent a moment ago, so that a click is meant for what stands there now. */
function useSettled(session: ChatSession): boolean {
  const [, draw] = useState(0);
  const rest = session.sentAt + moment - Date.now();
  useEffect(() => {
    if (rest <= 0) return;
    const timer = setTimeout(() => draw((n) => n + 1), rest + 10);
    return () => clearTimeout(timer);
  }, [session, session.sentAt]);
  return rest <= 0;
}
