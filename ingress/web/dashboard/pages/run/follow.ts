// One run and its timeline, followed for as long as it goes on.
import { useCallback, useEffect, useState } from "preact/hooks";
import { address, credentials, get, identity } from "../../api";
import { events, type ServerEvent } from "../../../kit/sse";
import { useQuery, type Query } from "../../query";
import type { Run, RunStatus, Timeline } from "../../types";

const ends = new Set(["run.completed", "run.failed", "run.cancelled", "run.timed_out"]);
const gather = 120; // milliseconds in which events are answered by one reading
const pause = 5000; // milliseconds between readings where no stream is to be had

/** What a run that tells this stands at. */
const standing: Record<string, RunStatus> = {
  "run.created": "queued", "run.started": "running", "run.restarted": "running", "run.requires_action": "requires_action",
};

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
  const trace = useQuery(run.data === undefined ? null : `timeline ${id}`, (signal) => get<Timeline>("/api/runs", { id, timeline: 1 }, signal));
  const [text, setText] = useState("");
  const open = run.data !== undefined && run.data.finishedAt === null;
  const reload = useCallback(() => {
    run.reload();
    trace.reload();
  }, []);
  useEffect(() => {
    if (!open) return;
    const stop = new AbortController();
    void follow(id, run.data?.status, stop.signal, reload, setText);
    return () => stop.abort();
  }, [id, open]);
  return { run, trace, text };
}

/** Tells what a run's stream says: pieces of the answer as they come, and of everything else that it is time to read the run again. */
async function follow(id: string, known: RunStatus | undefined, signal: AbortSignal, reload: () => void, setText: (text: string) => void): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let told = "";
  let frame = 0;
  let stands = known;
  const changed = () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      if (!signal.aborted && stands !== known) reload(); // what the stream begins with is known but for what happened meanwhile
      known = undefined;
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
      stands = standing[event.event] ?? stands;
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
