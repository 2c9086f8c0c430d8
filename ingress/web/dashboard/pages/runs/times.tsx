// The queue time and run time of runs.
import { useEffect, useState } from "preact/hooks";
import type { RunSummary } from "../../types";
import { duration } from "../../ui/parts";

export const ended = (run: RunSummary): boolean => run.finishedAt !== null;

/** Returns the milliseconds between two times of the API. */
export const between = (from: string, to: string): number => Math.max(0, Date.parse(to) - Date.parse(from));

/** Renders the component every second while on is true, to update running times. */
export function useTick(on: boolean): void {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!on) return;
    const timer = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, [on]);
}

/**
 * Shows the duration between two times. If the second time is null, shows the duration until now.
 */
function Elapsed({ from, to }: { from: string | null; to: string | null }) {
  useTick(from !== null && to === null);
  if (from === null) return <span class="quiet">–</span>;
  if (to !== null) return <>{duration(between(from, to))}</>;
  const passed = Math.max(0, Date.now() - Date.parse(from));
  return <span class="passing">{duration(Math.floor(passed / 1000) * 1000)}</span>;
}

/** Shows the time that the run waited for a worker. */
export const QueueTime = ({ run }: { run: RunSummary }) => <Elapsed from={run.createdAt} to={run.startedAt ?? run.finishedAt} />;

/** Shows the time from the first start of a run to its end, including waits for a person. */
export const RunTime = ({ run }: { run: RunSummary }) => <Elapsed from={run.startedAt} to={run.startedAt === null ? null : run.finishedAt} />;
