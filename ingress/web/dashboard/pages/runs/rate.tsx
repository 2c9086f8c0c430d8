// A small plot of the runs per hour or day.
import { useState } from "preact/hooks";
import { get, type Params } from "../../api";
import { useNarrow } from "../../narrow";
import { useQuery } from "../../query";
import * as texts from "../../texts/runs";
import { Words } from "../../texts/runs";
import { periods, wordFor } from "../../texts/values";
import type { Usage } from "../../types";
import { Loaded } from "../../ui/parts";
import { Bars } from "../org/chart";
import { useCounted } from "../org/counted";
import type { Filter } from "./filters";

const day = 86_400_000;
const maxDays = 90;

const hours = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
const dates = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

/** Returns the number of days to count: those since the filter's start, or one. */
function daysSince(from: string): number {
  const start = Date.parse(from);
  return Number.isNaN(start) ? 1 : Math.min(maxDays, Math.max(1, Math.ceil((Date.now() - start) / day)));
}

/**
 * Shows the plot. On a narrow screen the plot is loaded on demand, because the list is more
 * important there.
 */
export function Plot({ filter }: { filter: Filter }) {
  const narrow = useNarrow();
  const [open, setOpen] = useState(false);
  if (!narrow) return <Rate filter={filter} />;
  return (
    <details class="fold" onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{Words.plotOfRuns}</summary>
      {open && <Rate filter={filter} />}
    </details>
  );
}

/**
 * Shows the runs per hour or day that match the filter's agent, automation and time. The service
 * cannot count by the other filters, so they have no effect.
 */
function Rate({ filter }: { filter: Filter }) {
  const params: Params = { days: daysSince(filter.from), agentId: filter.agent, automationId: filter.automation };
  const usage = useQuery(`rate ${JSON.stringify(params)}`, (signal) => get<Usage>("/api/usage", params, signal));
  useCounted(usage.reload);
  const others = filter.status !== "" || filter.waitsFor !== "" || filter.trigger !== "" || filter.session !== "" || filter.words !== "";
  return (
    <div class="run-rate">
      <Loaded query={usage} room="11.5rem">{(u) => {
        const format = u.interval === "hour" ? hours : dates;
        const points = u.data.filter((p) => !(Date.parse(p.startsAt) >= Date.parse(filter.to)));
        return (
          <Bars title={texts.runsPerInterval(wordFor(periods, u.interval))} unit={others ? Words.utcSomeFiltersDontApply : Words.utc} empty={Words.noRunsInThisTime}
            points={points.map((p) => ({ label: format.format(new Date(p.startsAt)), parts: [
              { name: "completed", value: p.completed },
              { name: "failed", value: p.failed + p.timedOut },
              { name: "other", value: Math.max(0, p.runs - p.completed - p.failed - p.timedOut) },
            ] }))} />
        );
      }}</Loaded>
    </div>
  );
}
