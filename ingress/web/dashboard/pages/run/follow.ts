// A run and its timeline, kept up to date until the run finishes.
import { useCallback, useEffect, useState } from "preact/hooks";
import { address, credentials, get, identity } from "../../api";
import { events, type ServerEvent } from "../../../kit/sse";
import { useQuery, type Query } from "../../query";
import type { Run, RunStatus, Timeline } from "../../types";

const ends = new Set(["run.completed", "run.failed", "run.cancelled", "run.timed_out"]);
const reloadDelay = 120; // milliseconds during which several events cause only one reload
const pause = 5000; // milliseconds between reloads without a stream

/** The run's status after an event. */
const statusAfter: Record<string, RunStatus> = {
  "run.created": "queued", "run.started": "running", "run.restarted": "running", "run.requires_action": "requires_action",
};

export interface Followed {
  run: Query<Run>;
  trace: Query<Timeline>;
  /** The answer so far, while it is being written. */
  text: string;
}

/** Returns the text of a message.delta event. */
function readDelta(event: ServerEvent): string {
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

/**
 * Follows a run's stream. Passes the text so far to setText, and calls reload when another event
 * may have changed the run.
 */
async function follow(id: string, known: RunStatus | undefined, signal: AbortSignal, reload: () => void, setText: (text: string) => void): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let answer = "";
  let frame = 0;
  let status = known;
  const changed = () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      if (!signal.aborted && status !== known) reload(); // the first events of the stream repeat the status that the page knows
      known = undefined;
    }, reloadDelay);
  };
  const draw = () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      if (!signal.aborted) setText(answer);
    });
  };
  draw();
  signal.addEventListener("abort", () => clearTimeout(timer));
  try {
    const options = { headers: identity, credentials: credentials(), signal, resume: true, last: (e: ServerEvent) => ends.has(e.event) };
    for await (const event of events(address("/api/runs", { id, stream: 1 }), options)) {
      if (event.event === "message.delta") answer += readDelta(event);
      else if (event.event === "run.restarted") answer = "";
      status = statusAfter[event.event] ?? status;
      if (event.event !== "message.delta") changed();
      draw();
    }
  } catch {
    // There is no stream, for example because too many are open. Reload periodically instead.
    while (!signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      if (!signal.aborted) reload();
    }
  }
}
