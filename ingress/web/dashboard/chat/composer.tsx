// The field for messages, and the button that stops a run.
import { useEffect, useRef, useState } from "preact/hooks";
import { inDemo } from "../api";
import { touch } from "../narrow";
import { useSession } from "../state";
import * as texts from "../texts/chat";
import { Words } from "../texts/chat";
import type { Attachment } from "../types";
import { Button } from "../ui/button";
import { Curl } from "../ui/curl";
import { FilePicker, useDrop } from "../ui/uploads";
import { Speak, type Voice } from "../voice/speak";
import { AttachedList, maxFiles, pastedFiles, useAttachments } from "./attachments";
import { DemoLimit } from "./demo";
import { readDraft, keepDraft } from "./kept";
import { messageBody, moment, type ChatSession } from "./session";
import { ofChat } from "./target";
import type { Turn } from "./turn";

// The maximum size of a message in bytes: the limit of a request body, less 1 KiB for the other
// fields.
const maxBodyBytes = 2 * 1024 * 1024 - 1024;
const maxDemoBodyBytes = 256 * 1024 - 1024;

/** Returns the size of a text in JSON, in bytes. */
function jsonBytes(text: string): number {
  return new TextEncoder().encode(JSON.stringify(text)).length;
}

/** The field for messages. Enter sends, Shift+Enter starts a new line. */
export function Composer({ session, slot, busy, voice, onSend, onSpeak }: {
  session: ChatSession; slot: string; busy: Turn | undefined; voice: Voice | undefined; onSend: (message: string, attachments: Attachment[]) => void; onSpeak: () => void;
}) {
  const [text, setText] = useDraft(slot);
  const area = useRef<HTMLTextAreaElement>(null);
  const attached = useAttachments(session.id);
  const stopAllowed = useStopAllowed(session);
  const maxBytes = inDemo() ? maxDemoBodyBytes : maxBodyBytes;
  const length = text.length * 6 > maxBytes ? jsonBytes(text) : 0; // no character takes more than 6 bytes, so a short text needs no exact count
  const ready = (text.trim() !== "" || attached.stored.length > 0) && length <= maxBytes && !busy && attached.ready;

  const send = () => {
    if (!ready) return;
    setText("");
    onSend(text.trim() === "" ? "" : text, attached.stored);
    attached.clear();
    if (touch.matches) area.current?.blur();
    else area.current?.focus();
  };
  const dropping = useDrop(!inDemo(), (files) => { // visitors of the demo must not attach files
    attached.add(files);
    area.current?.focus();
  });
  const paste = (e: ClipboardEvent) => {
    const files = inDemo() ? [] : pastedFiles(e.clipboardData);
    if (files.length === 0) return;
    e.preventDefault();
    attached.add(files);
  };
  const stop = (turn: Turn) => {
    area.current?.focus(); // otherwise the focus would be lost, because the stop button disappears
    return session.stop(turn);
  };
  const key = (e: KeyboardEvent) => {
    if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
    e.preventDefault();
    send();
  };

  return (
    <form onSubmit={(e) => { e.preventDefault(); send(); }}>
      <AttachedList list={attached.list} onRemove={(id) => { attached.remove(id); area.current?.focus(); }}
        onRetry={(id) => { attached.retry(id); area.current?.focus(); }} />
      <div class={"composer-box" + (dropping ? " dropping" : "")}>
        {!inDemo() && <FilePicker look="bare" icon="plus" label={Words.attachFiles} words={Words.filesToAttach} onFiles={attached.add} disabled={attached.list.length >= maxFiles} />}
        <label class="visually-hidden" for="chat-message">{Words.message}</label>
        <textarea ref={area} id="chat-message" rows={1} value={text} placeholder={dropping ? Words.dropFilesToAttach : Words.writeAMessage} aria-describedby="chat-hint"
          onInput={(e) => setText(e.currentTarget.value)} onKeyDown={key} onPaste={paste} />
        {voice && <Speak voice={voice} onSpeak={onSpeak} disabled={busy !== undefined} />}
        {busy && stopAllowed && !inDemo() // visitors of the demo must not cancel runs
          ? <Button icon="stop" label={Words.stopTheRun} disabled={busy.stopping} onClick={() => stop(busy)}><span class="button-words">{Words.stop}</span></Button>
          : <Button type="submit" look="primary" icon="send" label={Words.sendMessage} disabled={!ready}><span class="button-words">{Words.send}</span></Button>}
      </div>
      <div class="composer-below">
        {length > maxBytes
          ? <span id="chat-hint" class="fault small">{texts.messageIsBytesTooLong((length - maxBytes).toLocaleString("en"))}</span>
          : <span id="chat-hint" class="hint">{!attached.ready ? Words.removeFilesThatFailed : busy ? Words.youCanSendNext : Words.enterSendsShiftEnter}</span>}
        <DemoLimit />
        {busy?.runId && !inDemo()
          ? <Curl what={Words.stopTheRun} request={{ method: "POST", path: "/api/runs", params: { id: busy.runId, action: "cancel" } }} />
          : <Curl what={Words.sendThisMessage} request={{
            method: "POST", path: "/api/agents", params: ofChat(session.target), credential: inDemo() ? "demo" : "key", body: messageBody(session.id, text.trim() || (attached.stored.length > 0 ? "" : Words.whatCanYouDo), attached.stored),
          }} />}
      </div>
    </form>
  );
}

/**
 * Returns the draft that is stored under the name slot, and a function that changes the draft.
 * Drafts survive a reload and a new sign-in.
 */
function useDraft(slot: string): [string, (text: string) => void] {
  const name = `${useSession()?.caller.userId ?? ""}.${slot}`; // separates the drafts of people who share a browser
  const [text, setText] = useState(() => readDraft(name));
  useEffect(() => setText(readDraft(name)), [name]);
  const write = (now: string) => {
    keepDraft(name, now);
    setText(now);
  };
  return [text, write];
}

/**
 * Returns whether the stop button may act. For half a second after a message was sent, it may not,
 * so that the second click of a double click on Send does not stop the run.
 */
function useStopAllowed(session: ChatSession): boolean {
  const [, draw] = useState(0);
  const rest = session.sentAt + moment - Date.now();
  useEffect(() => {
    if (rest <= 0) return;
    const timer = setTimeout(() => draw((n) => n + 1), rest + 10);
    return () => clearTimeout(timer);
  }, [session, session.sentAt]);
  return rest <= 0;
}
