// The conditions on which a delivery starts a run, and the coalescing of deliveries.
import { useId } from "preact/hooks";
import type { ApiError } from "../../api";
import type { FilterOp } from "../../types";
import { Button } from "../../ui/button";
import { faultOf, saidOf, Switch, TextField, type Choice } from "../../ui/field";
import { nextRow, type HookDraft, type Row } from "./draft";

const most = 20;

const ops: readonly Choice<FilterOp>[] = [
  { value: "eq", label: "is" }, { value: "ne", label: "is not" }, { value: "in", label: "is one of" },
  { value: "contains", label: "contains" }, { value: "exists", label: "exists" },
];

export function Filters({ rows, onChange, error, paths }: { rows: Row[]; onChange: (rows: Row[]) => void; error: ApiError | undefined; paths: string[] }) {
  const id = useId();
  const all = error?.errors.find((e) => e.field === "filter")?.message;
  return (
    <fieldset class="plain stack tight" aria-describedby={id}>
      <legend class="label">Start a run only if</legend>
      <p class="hint" id={id}>All conditions must match. Other deliveries appear in the log as filtered. <code>@event</code> is the sender’s name for the event.</p>
      {rows.length === 0 && <p class="quiet small">Every delivery starts a run.</p>}
      <datalist id={id + "-paths"}>{["@event", ...paths].map((p) => <option key={p} value={p} />)}</datalist>
      {rows.map((row, i) => (
        <Condition key={row.key} row={row} number={i + 1} list={id + "-paths"} fault={faultOf(error, `filter[${i}]`)}
          change={(part) => onChange(rows.with(i, { ...row, ...part }))} remove={() => onChange(rows.toSpliced(i, 1))} />
      ))}
      {all && <p class="fault">{saidOf("The filter", all)}</p>}
      {rows.length < most && <div><Button look="bare" icon="plus" onClick={() => onChange([...rows, nextRow()])}>Add a condition</Button></div>}
    </fieldset>
  );
}

function Condition({ row, number, list, fault, change, remove }: {
  row: Row; number: number; list: string; fault: string | undefined; change: (part: Partial<Row>) => void; remove: () => void;
}) {
  const id = useId();
  const invalid = fault ? { "aria-invalid": "true" as const, "aria-describedby": id } : {};
  return (
    <div class="condition">
      <input class="input code" aria-label={`Path of condition ${number}`} placeholder="data.status" list={list} value={row.path} spellcheck={false} autocomplete="off" {...invalid}
        onInput={(e) => change({ path: e.currentTarget.value })} />
      <select class="input" aria-label={`Comparison of condition ${number}`} value={row.op} 
        onChange={(e) => { const op = e.currentTarget.value as FilterOp; change({ op, ...(op === "exists" && { value: "true" }) }); }}>
        {ops.map((o) => <option key={o.value} value={o.value} selected={o.value === row.op}>{o.label}</option>)}
      </select>
      {row.op === "exists" ? (
        <select class="input" aria-label={`Value of condition ${number}`} value={row.value} onChange={(e) => change({ value: e.currentTarget.value })}>
          <option value="true" selected={row.value !== "false"}>yes</option>
          <option value="false" selected={row.value === "false"}>no</option>
        </select>
      ) : (
        <input class="input code" aria-label={`Value of condition ${number}`} placeholder={row.op === "in" ? "opened, reopened" : "paid"} value={row.value} spellcheck={false} autocomplete="off"
          onInput={(e) => change({ value: e.currentTarget.value })} />
      )}
      <Button look="bare" icon="close" label={`Remove condition ${number}`} onClick={remove} />
      {fault && <p class="fault" id={id}>{saidOf(`Condition ${number}:`, fault)}</p>}
    </div>
  );
}

export function Coalesce({ draft, set, error }: { draft: HookDraft; set: (part: Partial<HookDraft>) => void; error: ApiError | undefined }) {
  const fault = (field: string) => (draft.coalesces ? faultOf(error, `coalesce.${field}`) : undefined);
  const whole = draft.coalesces ? error?.errors.find((e) => e.field === "coalesce")?.message : undefined;
  return (
    <div class="stack tight">
      <Switch label="Coalesce deliveries into one run" checked={draft.coalesces} onChange={(coalesces) => set({ coalesces })}
        hint="For senders that report every small change. Deliveries with the same key wait for each other. One run gets the newest payload and a list of all deliveries." />
      {draft.coalesces && (
        <div class="set-up-form">
          <TextField label="Coalescing key" mono value={draft.coalesceKey} onChange={(coalesceKey) => set({ coalesceKey })} fault={fault("key")} hint="A template, like the message. Deliveries with the same key are coalesced." />
          <TextField label="Wait for more (seconds)" type="number" value={draft.windowSeconds} onChange={(windowSeconds) => set({ windowSeconds })} fault={fault("windowSeconds")} hint="After the newest delivery, 1 to 3,600." />
          <TextField label="Wait at most (seconds)" type="number" value={draft.maxWaitSeconds} onChange={(maxWaitSeconds) => set({ maxWaitSeconds })} fault={fault("maxWaitSeconds")} hint="After the first delivery, up to 3,600." />
        </div>
      )}
      {whole && <p class="fault">{saidOf("Coalescing", whole)}</p>}
    </div>
  );
}
