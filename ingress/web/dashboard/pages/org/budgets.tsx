// Budgets: hard caps on usage per day or month.
import { useEffect, useRef, useState } from "preact/hooks";
import { del, get, post, put, type ApiError } from "../../api";
import { useLive } from "../../live";
import { useList, useQuery } from "../../query";
import * as texts from "../../texts/org";
import { Words } from "../../texts/org";
import { periods as units, wordFor } from "../../texts/values";
import type { Budget, BudgetMetric, BudgetPeriod, BudgetScope, Usage } from "../../types";
import { Button } from "../../ui/button";
import type { Request } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Confirm } from "../../ui/confirm";
import { Dialog } from "../../ui/dialog";
import { Select, TextField, fieldFault } from "../../ui/field";
import { currency, money, parseMoney } from "../../ui/money";
import { count, Empty, Loaded, More, Prices, Problem, Section, Time } from "../../ui/parts";
import { toast } from "../../ui/toast";
import { choicesFor, type Subjects } from "./subjects";

const scopes: { value: BudgetScope; label: string }[] = [
  { value: "organization", label: Words.theOrganization }, { value: "agent", label: Words.anAgent }, { value: "key", label: Words.anApiKey }, { value: "automation", label: Words.anAutomation },
];
const metrics: { value: BudgetMetric; label: string }[] = [
  { value: "costMicros", label: Words.cost }, { value: "tokens", label: Words.tokens }, { value: "runs", label: Words.runs }, { value: "sandboxSeconds", label: Words.sandboxSeconds },
];
const periods: { value: BudgetPeriod; label: string }[] = [{ value: "day", label: Words.day }, { value: "month", label: Words.month }];

const labelFor = <T extends string>(from: { value: T; label: string }[], value: T): string => from.find((c) => c.value === value)?.label ?? value;

/** Formats an amount in the unit of a metric. */
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
    <Section title={Words.budgets} intro={Words.callStartsOnlyIfItsWorst}
      actions={<><Curl what={Words.listTheBudgets} request={{ method: "GET", path: "/api/budgets" }} /><Button look="primary" icon="plus" onClick={() => setEditing("new")}>{Words.newBudget}</Button></>}>
      <Loaded query={budgets} room="8rem">{(list) => list.length === 0 ? (
        <Empty title={Words.noBudgetsYet}>
          {Words.withoutBudgetOnlyLimits}
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

function budgetTitle(b: Budget, subjects: Subjects): string {
  const whose = b.scope === "organization" || b.subjectId === null ? Words.theOrganization : subjects.nameFor(b.scope, b.subjectId);
  return texts.whoseLabelPerPeriod(whose, labelFor(metrics, b.metric).toLowerCase(), wordFor(units, b.period));
}

function Entry({ budget: b, subjects, edit, reload }: { budget: Budget; subjects: Subjects; edit: () => void; reload: () => void }) {
  const title = budgetTitle(b, subjects);
  const request: Request = { method: "DELETE", path: "/api/budgets", params: { id: b.id } };
  const remove = () => del("/api/budgets", { id: b.id }).then(() => {
    toast(Words.budgetDeleted);
    reload();
  });
  const entry = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (location.hash === "#" + b.id) entry.current?.focus(); // the error of a refused run links to the budget
  }, []);
  return (
    <li id={b.id} ref={entry} tabIndex={-1}>
      <div class="row between">
        <h3>{title}</h3>
        <div class="actions">
          <Button look="bare" icon="edit" label={texts.editTitle(title)} onClick={edit}>{Words.edit}</Button>
          <Confirm look="remove" action={Words.deleteIt} label={texts.deleteTitle(title)} request={request} question={Words.deleteThisBudget} detail={texts.thisCapIsRemoved(title)} onConfirm={remove} />
        </div>
      </div>
      <Meter budget={b} title={title} />
    </li>
  );
}

function Meter({ budget: b, title }: { budget: Budget; title: string }) {
  const share = (n: number) => `${Math.min(100, b.limit === 0 ? 100 : (n / b.limit) * 100)}%`;
  const over = b.used >= b.limit;
  const said = texts.amountOfAmountUsed(amount(b.metric, b.used), amount(b.metric, b.limit)) + (b.reserved > 0 ? texts.amountReserved(amount(b.metric, b.reserved)) : "");
  return (
    <>
      <div class={"meter" + (over ? " over" : "")} role="meter" aria-label={title} aria-valuemin={0} aria-valuemax={Math.max(1, b.limit)} aria-valuenow={Math.min(b.used, Math.max(1, b.limit))} aria-valuetext={said}>
        <i class="used" style={{ width: share(b.used) }} />
        <i class="reserved" style={{ width: share(b.reserved) }} />
      </div>
      <p class="row between small">
        <span class="number">{said}</span>
        <span class={over ? "fault" : "quiet"}>{over ? Words.usedUpNewRuns : Words.resets}<Time at={b.resetsAt} /></span>
      </p>
    </>
  );
}

/** Returns a limit as typed: a cost in the currency, any other metric as a whole number. */
const formatLimit = (metric: BudgetMetric, limit: number): string => String(metric === "costMicros" ? limit / 1e6 : limit);

function parseLimit(metric: BudgetMetric, typed: string): number | null {
  if (metric === "costMicros") return parseMoney(typed);
  const n = typed.trim() === "" ? Number.NaN : Number(typed);
  return Number.isInteger(n) && n >= 0 ? n : null;
}

function Edit({ budget, subjects, onClose, onSaved }: { budget: Budget | null; subjects: Subjects; onClose: () => void; onSaved: () => void }) {
  const [scope, setScope] = useState<BudgetScope>(budget?.scope ?? "organization");
  const [subject, setSubject] = useState(budget?.subjectId ?? "");
  const [metric, setMetric] = useState<BudgetMetric>(budget?.metric ?? "costMicros");
  const [period, setPeriod] = useState<BudgetPeriod>(budget?.period ?? "month");
  const [typed, setTyped] = useState(budget ? formatLimit(budget.metric, budget.limit) : "");
  const [error, setError] = useState<ApiError>();

  const ofCost = metric === "costMicros";
  const usage = useQuery<Usage>(ofCost ? "usage of a month" : null, (signal) => get("/api/usage", { days: 30 }, signal));

  const limit = parseLimit(metric, typed);
  const choices = scope === "organization" ? [] : choicesFor(subjects, scope);
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
    <Dialog title={budget ? Words.editTheBudget : Words.newBudget} onClose={onClose} foot={
      <>
        <Curl what={budget ? Words.changeTheBudget : Words.createTheBudget} request={request} />
        <Button onClick={onClose}>{Words.cancel}</Button>
        <Button look="primary" disabled={limit === null} onClick={save}>{budget ? Words.save : Words.createBudget}</Button>
      </>
    }>
      <div class="stack">
        {budget ? <p>{budgetTitle(budget, subjects)}</p> : (
          <>
            <Select label={Words.appliesTo} value={scope} options={scopes} onChange={choose} fault={fieldFault(error, "scope")} />
            {scope !== "organization" && scope !== "automation" && (
              <Select label={scope === "agent" ? Words.agent : Words.apiKey} value={subjectId ?? ""} options={choices} onChange={setSubject} fault={fieldFault(error, "subjectId")} />
            )}
            {scope === "automation" && (
              <>
                <TextField label={Words.automation} value={subjectId ?? ""} onChange={setSubject} maxLength={128} fault={fieldFault(error, "subjectId")} hint={Words.automationsXAutomationId} list="automations-known" />
                <datalist id="automations-known">{choices.map((c) => <option key={c.value} value={c.value} />)}</datalist>
              </>
            )}
            <div class="columns">
              <Select label={Words.metric} value={metric} options={metrics} onChange={setMetric} fault={fieldFault(error, "metric")} />
              <Select label={Words.period} value={period} options={periods} onChange={setPeriod} fault={fieldFault(error, "period")} />
            </div>
          </>
        )}
        <TextField label={Words.limit} value={typed} onChange={setTyped} inputMode={ofCost ? "decimal" : "numeric"}
          fault={typed !== "" && limit === null ? (ofCost ? Words.mustBeAmount : Words.mustBeNumber) : fieldFault(error, "limit")} hint={ofCost ? texts.amountInCurrency(currency()) : Words.with0Nothing} />
        {ofCost && usage.data?.totals.costMicros === 0 && <p class="note">{texts.noRunHadCost(<Prices />)}</p>}
        {error && !error.errors.some((e) => known.includes(e.field)) && <Problem error={error} />}
      </div>
    </Dialog>
  );
}
