// The notices on the home page, about runs that wait for a decision and about parts of the service
// that fail.
import type { ComponentChildren } from "preact";
import * as texts from "../../texts/home";
import { Words } from "../../texts/home";
import { periods, statuses, wordFor } from "../../texts/values";
import type { BudgetMetric, Overview } from "../../types";
import { Icon } from "../../ui/icon";
import { money } from "../../ui/money";
import { count, Section, Time } from "../../ui/parts";

/**
 * Shows the notices. If stale is true, the overview may be outdated. An overview without notices
 * then shows nothing instead of the sentence that nothing needs attention.
 */
export function Needs({ of: o, stale }: { of: Overview; stale: boolean }) {
  const nothing = o.approvals + o.webhooks.length + o.notifications.length + o.documents.count + o.budgets.length === 0;
  if (nothing && stale) return null;
  return (
    <Section title={Words.needsYou}>
      {nothing ? <p class="quiet">{Words.nothingAtMoment}</p> : (
        <ul class="needs">
          {o.approvals > 0 && (
            <Need href="/dashboard/inbox" words={o.approvals === 1 ? Words.runWaitsForYourDecision : texts.runsWaitForYourDecision(formatCount(o.approvals))} />
          )}
          {o.webhooks.map((h) => (
            <Need key={h.id} href={"/dashboard/automations/" + encodeURIComponent(h.id)} words={texts.webhookLastDeliveryWas(h.name, wordFor(statuses, h.status))}>
              {h.error && h.error.message + " · "}<Time at={h.receivedAt} />
            </Need>
          ))}
          {o.notifications.map((e) => (
            <Need key={e.id} href="/dashboard/org/notifications"
              words={texts.notificationEndpointDescriptionPart(e.description || e.url, e.disabledReason === null ? texts.failedTimesInRow(e.failures) : Words.wasDisabled)}>
              {e.disabledReason}
            </Need>
          ))}
          {o.documents.count > 0 && <Documents of={o.documents} />}
          {o.budgets.map((b) => (
            <Need key={b.id} href={"/dashboard/org/usage#" + b.id} words={texts.budgetOfSubjectUsed(b.subject ?? Words.theOrganization, Math.floor((b.used / b.limit) * 100))}>
              {texts.amountOfAmountPerPeriod(...amounts(b.metric, b.used, b.limit), wordFor(periods, b.period), <Time at={b.resetsAt} />)}
            </Need>
          ))}
        </ul>
      )}
    </Section>
  );
}

const maxCounted = 100; // the service counts waiting runs up to this number

const formatCount = (n: number): string => (n >= maxCounted ? texts.maxOrMore(maxCounted) : count(n));

const units: Record<Exclude<BudgetMetric, "costMicros">, string> = { tokens: Words.tokens, runs: Words.runsLower, sandboxSeconds: Words.sandboxSeconds };

/** Formats the used amount and the limit of a budget with the unit of its metric. */
function amounts(metric: BudgetMetric, used: number, limit: number): [string, string] {
  if (metric === "costMicros") return [money(used), money(limit)];
  return [count(used), texts.amountUnit(count(limit), units[metric])];
}

function Documents({ of: d }: { of: Overview["documents"] }) {
  const [first] = d.newest;
  const one = d.count === 1 && first !== undefined;
  return (
    <Need href={"/dashboard/knowledge" + (one ? "?id=" + encodeURIComponent(first.id) : "")} words={d.count === 1 ? Words.documentCouldNotBeRead : texts.documentsCouldNotBeRead(formatCount(d.count))}>
      {first && <>{first.name}{first.error && ": " + first.error.message}</>}
    </Need>
  );
}

function Need({ href, words, children }: { href: string; words: string; children?: ComponentChildren }) {
  return (
    <li>
      <Icon name="warn" />
      <div>
        <a href={href}>{words}</a>
        {children && <p class="small quiet">{children}</p>}
      </div>
    </li>
  );
}
