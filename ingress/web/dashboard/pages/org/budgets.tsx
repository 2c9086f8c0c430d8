// Budgets: hard caps on usage per day or month.
import { useEffect, useRef, useState } from "preact/hooks";
import { del, post, put, type ApiError } from "../../api";
import { useLive } from "../../live";
import { useList } from "../../query";
import type { Budget, BudgetMetric, BudgetPeriod, BudgetScope } from "../../types";
import { Button } from "../../ui/button";
import type { Request } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Confirm } from "../../ui/confirm";
import { Dialog } from "../../ui/dialog";
import { Select, TextField, faultOf } from "../../ui/field";
import { count, Empty, Loaded, money, More, Problem, Section, Time } from "../../ui/parts";
import { toast } from "../../ui/toast";
import { choicesOf, type Subjects } from "./subjects";

const scopes: { value: BudgetScope; label: string }[] = [
  { value: "organization", label: "The organization" }, { value: "agent", label: "An agent" }, { value: "key", label: "An API key" }, { value: "automation", label: "An automation" },
];
const metrics: { value: BudgetMetric; label: string }[] = [
  { value: "costMicros", label: "Cost" }, { value: "tokens", label: "Tokens" }, { value: "runs", label: "Runs" }, { value: "sandboxSeconds", label: "Sandbox seconds" },
];
const periods: { value: BudgetPeriod; label: string }[] = [{ value: "day", label: "Day" }, { value: "month", label: "Month" }];

const labelOf = <T extends string>(from: { value: T; label: string }[], value: T): string => from.find((c) => c.value === value)?.label ?? value;

/** Formats an amount of a metric. */
const amount = (metric: BudgetMetric, n: number): string => (metric === "costMicros" ? money(n) : count(n));

export function BudgetsSection({ subjects }: { subjects: Subjects }) {
  const budgets = useList<Budget>("/api/budgets", { limit: 100 });
  const [editing, setEditing] = useState<Budget | "new" | null>(null);
  const keyed = budgets.data?.some((b) => b.scope === "key") ?? false;
  useLive("runs", budgets.reload);
  useEffect(() => {
    if (keyed) subjects.want("key");
  }, [keyed]);
  return (
    <Section title="Budgets" intro="A call starts only if its worst case fits the budget: the amount is reserved before the call."
      actions={<><Curl what="List the budgets" request={{ method: "GET", path: "/api/budgets" }} /><Button look="primary" icon="plus" onClick={() => setEditing("new")}>New budget</Button></>}>
      <Loaded query={budgets} room="8rem">{(list) => list.length === 0 ? (
        <Empty title="No budgets yet" action={<Button onClick={() => setEditing("new")}>Create a budget</Button>}>
          Without a budget only the limits of a single run stop an agent, and nothing stops the next run. A budget caps usage per day or month. When the budget is used up, new runs are refused with 429 and the time of the reset.
        </Empty>
      ) : (
        <div class="stack">
          <ul class="budgets">{list.map((b) => <Entry key={b.id} budget={b} subjects={subjects} edit={() => setEditing(b)} reload={budgets.reload} />)}</ul>
          <More list={budgets} />
        </div>
      )}</Loaded>
      {editing !== null && <Edit budget={editing === "new" ? null : editing} subjects={subjects} onClose={() => setEditing(null)} onSaved={() => { setEditing(null); budgets.reload(); }} />}
    </Section>
  );
}

function titleOf(b: Budget, subjects: Subjects): string {
  const whose = b.scope === "organization" || b.subjectId === null ? "The organization" : subjects.nameOf(b.scope, b.subjectId);
  return `${whose}: ${labelOf(metrics, b.metric).toLowerCase()} per ${b.period}`;
}

function Entry({ budget: b, subjects, edit, reload }: { budget: Budget; subjects: Subjects; edit: () => void; reload: () => void }) {
  const title = titleOf(b, subjects);
  const request: Request = { method: "DELETE", path: "/api/budgets", params: { id: b.id } };
  const remove = () => del("/api/budgets", { id: b.id }).then(() => {
    toast("Budget deleted.");
    reload();
  });
  const entry = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (location.hash === "#" + b.id) entry.current?.focus(); // a refusal links to the budget
  }, []);
  return (
    <li id={b.id} ref={entry} tabIndex={-1}>
      <div class="row between">
        <h3>{title}</h3>
        <div class="actions">
          <Button look="bare" icon="edit" label={`Edit ${title}`} onClick={edit}>Edit</Button>
          <Confirm look="remove" action="Delete" label={`Delete ${title}`} request={request} question="Delete this budget?" detail={`${title}. This cap is removed.`} onConfirm={remove} />
        </div>
      </div>
      <Meter budget={b} title={title} />
    </li>
  );
}

function Meter({ budget: b, title }: { budget: Budget; title: string }) {
  const share = (n: number) => `${Math.min(100, b.limit === 0 ? 100 : (n / b.limit) * 100)}%`;
  const over = b.used >= b.limit;
  const said = `${amount(b.metric, b.used)} of ${amount(b.metric, b.limit)} used` + (b.reserved > 0 ? `, ${amount(b.metric, b.reserved)} reserved` : "");
  return (
    <>
      <div class={"meter" + (over ? " over" : "")} role="meter" aria-label={title} aria-valuemin={0} aria-valuemax={Math.max(1, b.limit)} aria-valuenow={Math.min(b.used, Math.max(1, b.limit))} aria-valuetext={said}>
        <i class="used" style={{ width: share(b.used) }} />
        <i class="reserved" style={{ width: share(b.reserved) }} />
      </div>
      <p class="row between small">
        <span class="number">{said}</span>
        <span class={over ? "fault" : "quiet"}>{over ? "Used up: new runs are refused. Resets " : "Resets "}<Time at={b.resetsAt} /></span>
      </p>
    </>
  );
}

/** Returns a limit as typed: a cost in the currency, any other metric as a whole number. */
const typedOf = (metric: BudgetMetric, limit: number): string => String(metric === "costMicros" ? limit / 1e6 : limit);

function limitOf(metric: BudgetMetric, typed: string): number | null {
  const n = typed.trim() === "" ? Number.NaN : Number(typed);
  if (!Number.isFinite(n) || n < 0) return null;
  if (metric === "costMicros") return Math.round(n * 1e6);
  return Number.isInteger(n) ? n : null;
}

function Edit({ budget, subjects, onClose, onSaved }: { budget: Budget | null; subjects: Subjects; onClose: () => void; onSaved: () => void }) {
  const [scope, setScope] = useState<BudgetScope>(budget?.scope ?? "organization");
  const [subject, setSubject] = useState(budget?.subjectId ?? "");
  const [metric, setMetric] = useState<BudgetMetric>(budget?.metric ?? "costMicros");
  const [period, setPeriod] = useState<BudgetPeriod>(budget?.period ?? "month");
  const [typed, setTyped] = useState(budget ? typedOf(budget.metric, budget.limit) : "");
  const [error, setError] = useState<ApiError>();

  const limit = limitOf(metric, typed);
  const choices = scope === "organization" ? [] : choicesOf(subjects, scope);
  const subjectId = scope === "organization" ? null : subject || (choices[0]?.value ?? "");

  const request: Request = budget
    ? { method: "PUT", path: "/api/budgets", params: { id: budget.id }, body: { limit } }
    : { method: "POST", path: "/api/budgets", body: { scope, ...(subjectId !== null && { subjectId }), metric, period, limit } };

  const save = () => (budget ? put<Budget>("/api/budgets", request.body, request.params) : post<Budget>("/api/budgets", request.body)).then(onSaved, (fault: ApiError) => setError(fault));
  const choose = (s: BudgetScope) => {
    if (s !== "organization") subjects.want(s);
    setScope(s);
    setSubject("");
  };

  const known = ["scope", "subjectId", "metric", "period", "limit"];
  return (
    <Dialog title={budget ? "Edit the budget" : "New budget"} onClose={onClose} foot={
      <>
        <Curl what={budget ? "Change the budget" : "Create the budget"} request={request} />
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" disabled={limit === null} onClick={save}>{budget ? "Save" : "Create budget"}</Button>
      </>
    }>
      <div class="stack">
        {budget ? <p>{titleOf(budget, subjects)}</p> : (
          <>
            <Select label="Applies to" value={scope} options={scopes} onChange={choose} fault={faultOf(error, "scope")} />
            {scope !== "organization" && scope !== "automation" && (
              <Select label={scope === "agent" ? "Agent" : "API key"} value={subjectId ?? ""} options={choices} onChange={setSubject} fault={faultOf(error, "subjectId")} />
            )}
            {scope === "automation" && (
              <>
                <TextField label="Automation" value={subjectId ?? ""} onChange={setSubject} maxLength={128} fault={faultOf(error, "subjectId")} hint="The automation’s x-automation-id, or the webhook’s name." list="automations-known" />
                <datalist id="automations-known">{choices.map((c) => <option key={c.value} value={c.value} />)}</datalist>
              </>
            )}
            <div class="columns">
              <Select label="Metric" value={metric} options={metrics} onChange={setMetric} fault={faultOf(error, "metric")} />
              <Select label="Period" value={period} options={periods} onChange={setPeriod} fault={faultOf(error, "period")} />
            </div>
          </>
        )}
        <TextField label="Limit" value={typed} onChange={setTyped} fault={typed !== "" && limit === null ? "must be a number" : faultOf(error, "limit")}
          hint={metric === "costMicros" ? "In the currency of the price table, for example 25 or 0.50. With 0, nothing may run. Days and months are in UTC." : "With 0, nothing may run. Days and months are in UTC."} />
        {error && !error.errors.some((e) => known.includes(e.field)) && <Problem error={error} />}
      </div>
    </Dialog>
  );
}
