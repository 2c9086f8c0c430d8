// What needs a person: runs that wait for a decision, and parts that fail.
import type { ComponentChildren } from "preact";
import type { BudgetMetric, Overview } from "../../types";
import { Icon } from "../../ui/icon";
import { count, many, money, Section, Time } from "../../ui/parts";

/** stale: the overview could not be loaded again, so that an empty one says nothing. */
export function Needs({ of: o, stale }: { of: Overview; stale: boolean }) {
  const nothing = o.approvals + o.webhooks.length + o.notifications.length + o.documents.count + o.budgets.length === 0;
  if (nothing && stale) return null;
  return (
    <Section title="Needs you">
      {nothing ? <p class="quiet">Nothing at the moment.</p> : (
        <ul class="needs">
          {o.approvals > 0 && (
            <Need href="/dashboard/inbox" words={o.approvals === 1 ? "1 run waits for your decision" : `${counted(o.approvals)} runs wait for your decision`} />
          )}
          {o.webhooks.map((h) => (
            <Need key={h.id} href={"/dashboard/automations/" + encodeURIComponent(h.id)} words={`Webhook ${h.name}: the last delivery was ${h.status}`}>
              {h.error?.message} <Time at={h.receivedAt} />
            </Need>
          ))}
          {o.notifications.map((e) => (
            <Need key={e.id} href="/dashboard/org/notifications"
              words={`Notification endpoint ${e.description || e.url} ${e.disabledReason === null ? `failed ${many(e.failures, "time")} in a row` : "was disabled"}`}>
              {e.disabledReason}
            </Need>
          ))}
          {o.documents.count > 0 && <Documents of={o.documents} />}
          {o.budgets.map((b) => (
            <Need key={b.id} href={"/dashboard/org/usage#" + b.id} words={`Budget of ${b.subject ?? "the organization"}: ${Math.floor((b.used / b.limit) * 100)} % used`}>
              {amount(b.metric, b.used)} of {amount(b.metric, b.limit)} {units[b.metric]} per {b.period}. Resets <Time at={b.resetsAt} />.
            </Need>
          ))}
        </ul>
      )}
    </Section>
  );
}

const most = 100; // the service counts no further

const counted = (n: number): string => (n >= most ? `${most} or more` : count(n));

const units: Record<BudgetMetric, string> = { costMicros: "of cost", tokens: "tokens", runs: "runs", sandboxSeconds: "sandbox seconds" };

const amount = (metric: BudgetMetric, n: number): string => (metric === "costMicros" ? money(n) : count(n));

function Documents({ of: d }: { of: Overview["documents"] }) {
  const [first] = d.newest;
  const one = d.count === 1 && first !== undefined;
  return (
    <Need href={"/dashboard/knowledge" + (one ? "?id=" + encodeURIComponent(first.id) : "")} words={d.count === 1 ? "1 document could not be read" : `${counted(d.count)} documents could not be read`}>
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
