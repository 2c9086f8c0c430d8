// The list of the person's sessions with an agent or a template.
import { useEffect, useRef, useState } from "preact/hooks";
import { del, get } from "../api";
import { useList } from "../query";
import { useNarrow } from "../narrow";
import { useSession } from "../state";
import * as texts from "../texts/chat";
import { Words } from "../texts/chat";
import type { SessionEntry, SessionMessages } from "../types";
import { Button } from "../ui/button";
import { Curl } from "../ui/curl";
import { Dialog } from "../ui/dialog";
import { useHeadButtons } from "../ui/head";
import { More, Problem, Time } from "../ui/parts";
import type { ChatSession } from "./session";
import { ofSession, targetId, type Target } from "./target";
import { messageTitle } from "./turn";

interface Props {
  target: Target;
  open: string;
  begun: boolean;
  wide: boolean;
  session: ChatSession;
  onChoose: (id: string | null) => void;
  onNew: () => void;
}

export function Sessions({ target, open, begun, wide, session, onChoose, onNew }: Props) {
  const [unfolded, unfold] = useState(false);
  const fresh = useRef<HTMLDivElement>(null);
  const user = useSession()?.caller.userId ?? "";
  const list = useList<SessionEntry>("/api/sessions", { principal: user, limit: 50 });
  const mine = list.data?.filter((s) => (s.agentId ?? s.templateId) === targetId(target)) ?? [];
  useEffect(() => {
    session.addEventListener("accepted", list.reload);
    return () => session.removeEventListener("accepted", list.reload);
  }, [session]);
  const erase = async (id: string) => {
    await del("/api/sessions", { id, ...ofSession(target) });
    return () => { // called after the dialog has closed, because the button that had the focus disappears with the session's entry
      list.reload();
      if (id === open) onNew();
      else fresh.current?.querySelector("button")?.focus();
    };
  };
  const choose = (id: string) => {
    unfold(false);
    onChoose(id);
  };
  const shown = wide || unfolded;
  const howMany = mine.length === 0 ? "" : ` (${mine.length}${list.hasMore ? "+" : ""})`;
  const narrow = useNarrow();
  const buttons = (
    <div class="row between" ref={fresh}>
      <Button icon="plus" label={narrow ? Words.newSession : undefined} onClick={() => { unfold(false); onNew(); }}>{!narrow && Words.newSession}</Button>
      {!wide && <Button look="bare" icon={unfolded ? "up" : "down"} expanded={unfolded} onClick={() => unfold(!unfolded)}>{texts.sessionsHowMany(howMany)}</Button>}
    </div>
  );
  useHeadButtons(narrow ? buttons : null);
  return (
    <aside class="chat-sessions" aria-label={Words.yourSessions}>
      {!narrow && buttons}
      {shown && list.error && <Problem error={list.error} retry={list.reload} />}
      {shown && mine.length > 0 && (
        <ul>
          {mine.map((s) => (
            <Entry key={s.id} entry={s} target={target} own={s.id === session.id} asked={s.id === session.id ? lastTitle(session) : undefined} open={s.id === open && (begun || session.turns.length > 0)} onOpen={() => choose(s.id)} onErase={() => erase(s.id)} />
          ))}
        </ul>
      )}
      {shown && list.data && mine.length === 0 && !list.hasMore && <p class="hint">{Words.yourSessionsAppearHere}</p>}
      {shown && <More list={list} />}
      {shown && mine.length > 0 && <Curl what={Words.listSessions} request={{ method: "GET", path: "/api/sessions", params: { principal: user } }} />}
    </aside>
  );
}

/** Returns the last question of the open session, or undefined if there is none. */
function lastTitle({ turns }: ChatSession): string | undefined {
  const last = turns.findLast((t) => t.runId !== null);
  return last && messageTitle(last.message, last.attachments);
}

/** The last question of each session. The key is the session's id and its number of runs. */
const previews = new Map<string, string>();

/** Reports whether an element has been visible. */
function useSeen(element: { current: Element | null }): boolean {
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    if (!element.current) return;
    const watch = new IntersectionObserver((entries) => {
      if (!entries.some((e) => e.isIntersecting)) return;
      watch.disconnect();
      setSeen(true);
    });
    watch.observe(element.current);
    return () => watch.disconnect();
  }, []);
  return seen;
}

/**
 * Returns the last question in a session, an empty string if the question cannot be read, and null
 * until it has loaded. The question is loaded when the entry becomes visible.
 */
function usePreview(entry: SessionEntry, target: Target, seen: boolean): string | null {
  const name = `${targetId(target)} ${entry.id} ${entry.runs}`;
  const [words, setWords] = useState<string | null>(previews.get(name) ?? null);
  useEffect(() => {
    if (previews.has(name)) return setWords(previews.get(name) ?? null);
    if (!seen) return;
    const stop = new AbortController();
    get<SessionMessages>("/api/sessions", { id: entry.id, ...ofSession(target), limit: 1 }, stop.signal).then((s) => {
      const last = s.messages.find((m) => m.role === "user");
      const asked = last ? messageTitle(last.content, last.attachments) : "";
      if (asked !== "") previews.set(name, asked);
      setWords(asked);
    }, () => {
      if (!stop.signal.aborted) setWords(""); // without the question, the list shows the session's time
    });
    return () => stop.abort();
  }, [name, seen]);
  return words;
}

function Entry({ entry, target, own, asked, open, onOpen, onErase }: {
  entry: SessionEntry; target: Target; /** the page shows this session */ own: boolean; /** the last question, if the page knows it */ asked: string | undefined;
  open: boolean; onOpen: () => void; onErase: () => Promise<() => void>;
}) {
  const line = useRef<HTMLLIElement>(null);
  const [asking, setAsking] = useState(false);
  const read = usePreview(entry, target, useSeen(line) && !own); // the page itself shows the open session's messages
  const words = asked ?? read;
  const title = words || Words.session;
  return (
    <li ref={line} class={open ? "open" : undefined}>
      <button type="button" class="session-open" aria-current={open ? "true" : undefined} onClick={onOpen}>
        <span class="session-title">{words === null ? "\u00a0" : title}</span>
        <span class="quiet small number"><Time at={entry.createdAt} /> · {texts.runs(entry.runs)}</span>
      </button>
      <Button look="remove" icon="trash" label={texts.eraseSessionTitle(title.slice(0, 60))} onClick={() => setAsking(true)} />
      {asking && <Erase entry={entry} target={target} onClose={() => setAsking(false)} onErase={() => onErase().then((after) => {
        setAsking(false);
        setTimeout(after, 60); // waits until the dialog has returned the focus
      })} />}
    </li>
  );
}

function Erase({ entry, target, onClose, onErase }: { entry: SessionEntry; target: Target; onClose: () => void; onErase: () => Promise<void> }) {
  return (
    <Dialog title={Words.eraseThisSession} onClose={onClose} foot={
      <>
        <Curl what={Words.eraseThisSessionText} request={{ method: "DELETE", path: "/api/sessions", params: { id: entry.id, ...ofSession(target) } }} />
        <Button onClick={onClose}>{Words.goBack}</Button>
        <Button look="danger" onClick={onErase}>{Words.erase}</Button>
      </>
    }>
      {Words.itsMessagesAreDeleted}
    </Dialog>
  );
}
