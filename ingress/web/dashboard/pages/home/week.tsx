// The runs, failures and cost of the last seven days.
import { get } from "../../api";
import { useQuery } from "../../query";
import * as texts from "../../texts/home";
import { Words } from "../../texts/home";
import type { Usage } from "../../types";
import { currency, money, plainMoney } from "../../ui/money";
import { count, Loaded, Prices, Section } from "../../ui/parts";
import { Bars } from "../org/chart";
import { useCounted } from "../org/counted";

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

export function Week() {
  const usage = useQuery("usage of a week", (signal) => get<Usage>("/api/usage", { days: 7 }, signal));
  useCounted(usage.reload);
  return (
    <Section title={Words.last7Days} actions={<a href="/dashboard/org/usage">{Words.usage}</a>}>
      <Loaded query={usage} room="28rem">{(u) => (
        <div class="stack week">
          <dl class="totals">
            <div><dt>{Words.runs}</dt><dd>{count(u.totals.runs)}</dd></div>
            <div><dt>{Words.failed}</dt><dd>{count(u.totals.failed + u.totals.timedOut)}</dd></div>
            <div><dt>{Words.cost}</dt><dd>{money(u.totals.costMicros)}</dd></div>
          </dl>
          <Bars title={Words.runs} unit={Words.perDay} empty={Words.noRunsInLast} points={u.data.map((p) => ({ label: day.format(new Date(p.startsAt)), parts: [
            { name: "completed", value: p.completed },
            { name: "failed", value: p.failed + p.timedOut },
            { name: "other", value: Math.max(0, p.runs - p.completed - p.failed - p.timedOut) },
          ] }))} />
          <Bars title={Words.cost} unit={texts.currencyPerDay(currency())} empty={texts.noCostInLast(<Prices />)} format={money} tick={plainMoney} typical={1_000_000}
            points={u.data.map((p) => ({ label: day.format(new Date(p.startsAt)), parts: [{ name: "cost", value: p.costMicros }] }))} />
        </div>
      )}</Loaded>
    </Section>
  );
}
