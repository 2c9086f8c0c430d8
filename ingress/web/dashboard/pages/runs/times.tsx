// How long runs waited and worked.
import { useEffect, useState } from "preact/hooks";
import type { RunSummary } from "../../types";
import { duration } from "../../ui/parts";

export const ended = (run: RunSummary): boolean => run.finishedAt !== null;

/** Milliseconds between two times of the service. */
export const between = (from: string, to: string): number => Math.max(0, Date.parse(to) - Date.parse(from));

/** Rendered anew each second while on, for times that pass. */
export function useTick(on: boolean): void {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!on) return;
    const timer = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, [on]);
}

/** The time between two moments, or until now as long as there is no second one. */
function Elapsed({ from, to }: { from: string | null; to: string | null }) {
  useTick(from !== null && to === null);
  if (from === null) return <span class="quiet">–</span>;
  if (to !== null) return <>{duration(between(from, to))}</>;
  const passed = Math.max(0, Date.now() - Date.parse(from));
  return <span class="passing">{duration(Math.floor(passed / 1000) * 1000)}</span>;
}

/** How long the run waited for a worker. */
export const QueueTime = ({ run }: { run: RunSummary }) => <Elapsed from={run.createdAt} to={run.startedAt ?? run.finishedAt} />;

/** How long it took from its first start to its end, waits for a person among it. */
export const RunTime = ({ run }: { run: RunSummary }) => <Elapsed from={run.startedAt} to={run.startedAt === null ? null : run.finishedAt} />;
