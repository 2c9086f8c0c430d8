// The chat with an agent or a template: the person's sessions, the messages, and the composer.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { inDemo } from "../api";
import { useLive } from "../live";
import { touch } from "../narrow";
import { plainText } from "../plaintext";
import { setQuery } from "../router";
import * as texts from "../texts/chat";
import { Words } from "../texts/chat";
import { SamplesNote, useSamplesState } from "../samples";
import { toolLabel } from "../toolnames";
import type { Attachment } from "../types";
import { Button, showError } from "../ui/button";
import { Problem, Loading } from "../ui/parts";
import type { Call } from "../voice/call";
import { VoicePanel } from "../voice/panel";
import type { Voice } from "../voice/speak";
import { useCall } from "../voice/use";
import { Composer } from "./composer";
import { demoSession, keepDemo } from "./kept";
import { useScroll, useWidth } from "./scroll";
import { ChatSession, moment } from "./session";
import { Sessions } from "./sessions";
import { freshName, targetId, type Target } from "./target";
import { foundNothing, newestBranch, shownText, underWay, waitsForClient, type Turn } from "./turn";
import { TurnView } from "./turnview";

/**
 * The minimum width of the page, in CSS pixels, at which the list of sessions fits next to the
 * messages.
 */
const roomForSessions = 760;

/** A chat with an agent or a template. The page's URL contains the session's id. */
export function Chat({ target, suggested = [], voice, searches = false }: {
  target: Target; suggested?: string[]; voice?: Voice;
  /**
   * Whether the agent searches all documents. The chat then offers the sample documents if the
   * organization has no documents.
   */
  searches?: boolean;
}) {
  const { id, begun, slot, choose } = useSessionId(target);
  const session = useSession(target, id, begun);
  const root = useRef<HTMLDivElement>(null);
  const wide = useWidth(root) >= roomForSessions;

  const demo = inDemo();
  const again = () => {
    choose(null);
    if (!touch.matches) document.getElementById("chat-message")?.focus();
  };

  return (
    <div ref={root} class={"chat" + (wide && !demo ? " wide" : "")}>
      {demo
        ? session.turns.length > 0 && <div class="row"><Button icon="plus" onClick={again}>{Words.newSession}</Button></div>
        : <Sessions target={target} open={id} begun={begun} wide={wide} session={session} onChoose={choose} onNew={again} />}
      <Said session={session} slot={slot} suggested={suggested} voice={voice} searches={searches && !demo} onBegin={() => choose(id)} />
    </div>
  );
}

/**
 * Returns the id of the session in the page's URL. If there is none, returns the id of a draft,
 * which becomes a session with its first message.
 */
function useSessionId(target: Target) {
  const named = new URLSearchParams(location.search).get("session");
  const [draft, setDraft] = useState(() => (inDemo() ? demoSession(targetId(target))?.sessionId : undefined) ?? freshName("chat"));
  const [own, setOwn] = useState<string | null>(null); // the id of the draft that became a session on this page; its messages are already here
  const choose = (id: string | null) => {
    if (inDemo()) {
      if (id === null) {
        keepDemo(targetId(target), null);
        setDraft(freshName("chat"));
      }
      return;
    }
    if (id === null) setDraft(freshName("chat"));
    if (id === draft) setOwn(id);
    setQuery({ session: id });
  };
  const id = inDemo() ? draft : named ?? draft;
  const slot = `${targetId(target)}.${inDemo() ? "demo" : named ?? "new"}`; // the name under which the unsent text is stored; a draft's id would change on each reload
  return { id, begun: named !== null && named !== own, slot, choose };
}

/** Returns a session. The component renders again whenever the session changes. */
function useSession(target: Target, id: string, begun: boolean): ChatSession {
  const session = useMemo(() => new ChatSession(target, id, begun && !inDemo()), [targetId(target), id]);
  const [, draw] = useState(0);
  useEffect(() => {
    const again = () => draw((n) => n + 1);
    session.addEventListener("change", again);
    session.open(begun).catch(showError);
    return () => {
      session.removeEventListener("change", again);
      session.close();
    };
  }, [session]);
  useLive("runs", () => void session.refresh().catch(() => {})); // after a failure, the next change causes another refresh
  return session;
}

function Said({ session, slot, suggested, voice, searches, onBegin }: {
  session: ChatSession; slot: string; suggested: string[]; voice: Voice | undefined; searches: boolean; onBegin: () => void;
}) {
  const scroll = useScroll(session);
  const [all, setAll] = useState(false);
  const branch = newestBranch(session.turns);
  const dropped = session.turns.length - branch.length;
  const turns = all ? session.turns : branch;
  const last = turns.at(-1);
  const busy = session.turns.find(underWay);
  const empty = turns.length === 0 && !session.loading && !session.error;
  const samples = useSamplesState(searches && (last ? foundNothing(last) : empty));

  const call = useCall(session);
  const [spokenWith, setSpokenWith] = useState<Call | null>(null);
  const speaking = spokenWith === call;
  useFirstRun(session, onBegin);

  const send = (message: string, attachments: Attachment[] = []) => {
    session.send(message, attachments);
    onBegin();
    scroll.toEnd();
  };
  const speak = () => {
    if (performance.now() - call.turnedAt < moment) return;
    setSpokenWith(call);
    void call.start().catch(showError);
    scroll.toEnd();
  };
  const endSpeaking = async () => {
    await call.end();
    setSpokenWith((now) => (now === call ? null : now));
    setTimeout(() => document.getElementById("chat-message")?.focus()); // after the message field is rendered
  };
  const toEnd = scroll.away && turns.length > 0 && <Button icon="down" onClick={scroll.toEnd}>{Words.jumpToNewestMessage}</Button>;

  return (
    <div class="chat-said">
      {session.error && <Problem error={session.error} retry={() => session.open(true).catch(showError)} />}
      {session.loading && turns.length === 0 && <Loading words={Words.loadingTheSession} />}
      {session.hasMore && (
        <div class="row">
          <Button onClick={() => scroll.keepInPlace(() => session.more())} disabled={session.loadingMore}>{session.loadingMore ? Words.loading : Words.showEarlierMessages}</Button>
        </div>
      )}
      {dropped > 0 && (
        <div class="row">
          <span class="quiet">{dropped === 1 ? Words.oneMessageWasReplaced : texts.messagesWereReplaced(dropped)}</span>
          <Button pressed={all} onClick={() => scroll.keepInPlace(async () => setAll(!all))}>{Words.showOtherBranches}</Button>
        </div>
      )}
      <div class="chat-turns" ref={scroll.content} role="log" aria-label={Words.messages} aria-live="off">
        {turns.map((turn) => <TurnView key={turn.name} turn={turn} session={session} onAsk={send} last={turn === last} />)}
        {searches && last && foundNothing(last) && (
          <SamplesNote key={last.name} state={samples} suggested={suggested.includes(last.message)} again={() => send(last.message, last.attachments)} />
        )}
      </div>
      <Announcement session={session} />
      {empty && !speaking && !samples.loading && ( // hidden while the samples load: the note about them would later move the questions
        <Suggestions messages={suggested} note={searches && <SamplesNote state={samples} />} onChoose={send} />
      )}
      <div class="composer" ref={scroll.foot}>
        {toEnd && <div class="composer-above">{toEnd}</div>}
        {speaking
          ? <VoicePanel call={call} onEnd={endSpeaking} />
          : <Composer session={session} slot={slot} busy={busy} voice={inDemo() ? undefined : voice} onSend={send} onSpeak={speak} />}
      </div>
    </div>
  );
}

/** Calls onBegin when a spoken message starts the session's first run. */
function useFirstRun(session: ChatSession, onBegin: () => void): void {
  const begin = useRef(onBegin);
  begin.current = onBegin;
  useEffect(() => {
    const accepted = () => {
      if (session.turns.at(-1)?.spoken) begin.current();
    };
    session.addEventListener("accepted", accepted);
    return () => session.removeEventListener("accepted", accepted);
  }, [session]);
}

/** Announces the state of the newest turn to screen readers. */
function Announcement({ session }: { session: ChatSession }) {
  const turn = session.turns.at(-1);

  const first = useRef(turn?.name);
  const over = turn?.status === "completed" ? turn.name : null;
  const [silent, setSilent] = useState<string | null>(null);
  useEffect(() => {
    if (over === null) return;
    const timer = setTimeout(() => setSilent(over), 8000); // after 8 s, the screen reader has announced the answer
    return () => clearTimeout(timer);
  }, [over]);

  const calls = turn?.toolCalls.filter((c) => c.status === "running").map((c) => toolLabel(c.name)).join(", ");
  let said = "";

  if (turn && turn.name !== first.current && turn.name !== silent) {
    if (turn.problem) said = "";
    else if (turn.spoken) said = spokenWords(turn);
    else if (turn.status === "requires_action") said = waitsForClient(turn) ? Words.agentWaitsForClient : Words.agentIsWaiting;
    else if (turn.status === "completed") said = texts.answerText(plainText(turn.text.slice(0, 1000)));
    else if (underWay(turn)) said = turn.cutOff === "lost" ? Words.connectionLostReconnecting : turn.cutOff === "resuming" ? Words.connectedAgainAnswer : calls ? texts.agentIsUsing(calls) : Words.agentIsAnswering;
    else said = Words.runEndedWithoutAnswer;
  }
  return <p class="visually-hidden" role="status">{said}</p>;
}

/**
 * Returns the announcement of a spoken turn. Each of its two messages is announced once, when it is
 * complete.
 */
export function spokenWords(turn: Turn): string {
  if (turn.status === "requires_action") return waitsForClient(turn) ? Words.agentWaitsForClient : Words.agentIsWaiting;
  if (turn.spoken?.phase === "over") {
    if (turn.playedText !== null) return Words.answerWasInterrupted;
    if (!turn.spoken.silent) return texts.agentSaidShownText(plainText(shownText(turn).slice(0, 1000)));
    if (turn.status === "completed") return texts.answerText(plainText(turn.text.slice(0, 1000)));
    return underWay(turn) ? Words.agentIsAnswering : Words.runEndedWithoutAnswer;
  }
  return turn.message === "" ? "" : texts.youSaidMessage(turn.message);
}

function Suggestions({ messages, note, onChoose }: { messages: string[]; note: ComponentChildren; onChoose: (message: string) => void }): ComponentChildren {
  const id = useId();
  return (
    <div class="chat-suggestions">
      <h2 id={id}>{messages.length > 0 ? Words.askSomethingOrStart : Words.askSomething}</h2>
      <p class="quiet">{texts.yourMessagesFormSession(!inDemo() && Words.eachAnswerIsRun)}</p>
      {note}
      {messages.length > 0 && (
        <ul aria-labelledby={id}>
          {messages.map((m) => <li key={m}><button type="button" onClick={() => onChoose(m)}>{m}</button></li>)}
        </ul>
      )}
    </div>
  );
}
