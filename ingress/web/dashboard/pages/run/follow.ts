// One run and its timeline, followed for as long as it goes on.
import { useCallback, useEffect, useState } from "preact/hooks";
import { address, credentials, get, identity } from "../../api";
import { events, type ServerEvent } from "../../../kit/sse";
import { useQuery, type Query } from "../../query";
import type { Run, Timeline } from "../../types";

const ends = new Set(["run.completed", "run.failed", "run.cancelled", "run.timed_out"]);
const gather = 120; // milliseconds in which events are answered by one reading
const pause = 5000; // milliseconds between readings where no stream is to be had

export interface Followed {
  run: Query<Run>;
  trace: Query<Timeline>;
  /** As much of the answer as has been told while it is being made. */
  text: string;
}

/** The text of a piece of the answer. */
function pieceOf(event: ServerEvent): string {
  try {
    const data: unknown = JSON.parse(event.data);
    return typeof data === "object" && data !== null && "text" in data && typeof data.text === "string" ? data.text : "";
  } catch {
    return "";
  }
}

export function useRun(id: string): Followed {
  const run = useQuery(`run ${id}`, (signal) => get<Run>("/api/runs", { id }, signal));
  const trace = useQuery(`timeline ${id}`, (signal) => get<Timeline>("/api/runs", { id, timeline: 1 }, signal));
  const [text, setText] = useState("");
  const open = run.data !== undefined && run.data.finishedAt === null;
  const reload = useCallback(() => {
    run.reload();
    trace.reload();
  }, []);
  useEffect(() => {
    if (!open) return;
    const stop = new AbortController();
    void follow(id, stop.signal, reload, setText);
    return () => stop.abort();
  }, [id, open]);
  return { run, trace, text };
}

/** Tells what a run's stream says: pieces of the answer as they come, and of everything else that it is time to read the run again. */
async function follow(id: string, signal: AbortSignal, reload: () => void, setText: (text: string) => void): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let told = "";
  let frame = 0;
  const changed = () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      if (!signal.aborted) reload();
    }, gather);
  };
  const draw = () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      if (!signal.aborted) setText(told);
    });
  };
  draw();
  signal.addEventListener("abort", () => clearTimeout(timer));
  try {
    const options = { headers: identity, credentials: credentials(), signal, resume: true, last: (e: ServerEvent) => ends.has(e.event) };
    for await (const event of events(address("/api/runs", { id, stream: 1 }), options)) {
      if (event.event === "message.delta") told += pieceOf(event);
      else if (event.event === "run.restarted") told = "";
      if (event.event !== "message.delta") changed();
      draw();
    }
  } catch {
    // no stream is to be had, such as for too many of them: it is asked for now and then instead
    while (!signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      if (!signal.aborted) reload();
    }
  }
}

export interface Asked {
  text: string | null;
}

/** What was asked: runs do not hold it, the messages of their session do. */
export function useAsked(run: Run | undefined, admin: boolean): Query<Asked> {
  return useQuery(run === undefined ? null : `asked ${run.id}`, async (signal) => (run === undefined ? { text: null } : asked(run, admin, signal)));
}

interface Session {
  id: string;
  agentId: string | null;
  templateId: string | null;
  principal: string;
}

async function asked(run: Run, admin: boolean, signal: AbortSignal): Promise<Asked> {
  const target = { id: run.sessionId, agentId: run.agentId, templateId: run.templateId };
  const principals = run.trigger.type === "chat" ? await principalsOf(run, signal) : ["system"];
  for (const principal of principals) {
    let cursor: string | null = null;
    for (let page = 0; page < 3; page++) { // a hundred turns each
      const found: { messages: { runId: string; role: string; content: string }[]; hasMore: boolean; nextCursor: string | null } =
        await get("/api/sessions", { ...target, principal: admin ? principal : undefined, cursor }, signal);
      const message = found.messages.find((m) => m.runId === run.id && m.role === "user");
      if (message) return { text: message.content };
      cursor = found.nextCursor;
      if (!found.hasMore) break;
    }
  }
  return { text: null };
}

/** Whose sessions of that name there are, among the newest: members are told of their own, admins of all. */
async function principalsOf(run: Run, signal: AbortSignal): Promise<string[]> {
  const newest = await get<{ data: Session[] }>("/api/sessions", { limit: 100 }, signal);
  return newest.data.filter((s) => s.id === run.sessionId && s.agentId === run.agentId && s.templateId === run.templateId).map((s) => s.principal);
}
