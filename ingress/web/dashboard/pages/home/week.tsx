// The runs, failures and cost of the last seven days.
import { get } from "../../api";
import { useQuery } from "../../query";
import type { Usage } from "../../types";
import { count, Loaded, money, Section } from "../../ui/parts";
import { Bars } from "../org/chart";
import { useCounted } from "../org/counted";

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

export function Week() {
  const usage = useQuery("usage of a week", (signal) => get<Usage>("/api/usage", { days: 7 }, signal));
  useCounted(usage.reload);
  return (
    <Section title="Last 7 days" actions={<a href="/dashboard/org/usage">Usage</a>}>
      <Loaded query={usage} room="16rem">{(u) => (
        <div class="stack week">
          <dl class="totals">
            <div><dt>Runs</dt><dd>{count(u.totals.runs)}</dd></div>
            <div><dt>Failed</dt><dd>{count(u.totals.failed + u.totals.timedOut)}</dd></div>
            <div><dt>Cost</dt><dd>{money(u.totals.costMicros)}</dd></div>
          </dl>
          <Bars title="Runs" unit="per day" empty="No runs in the last seven days. A bar is the number of runs of one day, by their result." points={u.data.map((p) => ({ label: day.format(new Date(p.startsAt)), parts: [
            { name: "completed", value: p.completed },
            { name: "failed", value: p.failed + p.timedOut },
            { name: "other", value: Math.max(0, p.runs - p.completed - p.failed - p.timedOut) },
          ] }))} />
        </div>
      )}</Loaded>
    </Section>
  );
}
