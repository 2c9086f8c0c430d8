// The conditions on which a delivery starts a run, and the coalescing of deliveries.
import { useId } from "preact/hooks";
import type { ApiError } from "../../api";
import * as texts from "../../texts/hooks";
import { Words } from "../../texts/hooks";
import type { HookFilter } from "../../types";
import { Button } from "../../ui/button";
import { fieldFault, faultSentence, Switch, TextField, type Choice } from "../../ui/field";
import { nextRow, type HookDraft, type Row } from "./draft";

const maxConditions = 20;

const ops: readonly Choice<HookFilter["op"]>[] = [
  { value: "eq", label: Words.is }, { value: "ne", label: Words.isNot }, { value: "in", label: Words.isOneOf },
  { value: "contains", label: Words.contains }, { value: "exists", label: Words.exists },
];

export function Filters({ rows, onChange, error, paths }: { rows: Row[]; onChange: (rows: Row[]) => void; error: ApiError | undefined; paths: string[] }) {
  const id = useId();
  const all = error?.errors.find((e) => e.field === "filter")?.message;
  return (
    <fieldset class="plain stack tight" aria-describedby={id}>
      <legend class="label">{Words.startRunOnlyIf}</legend>
      <p class="hint" id={id}>{texts.allConditionsMustMatch()}</p>
      {rows.length === 0 && <p class="quiet small">{Words.everyDeliveryStartsRun}</p>}
      <datalist id={id + "-paths"}>{["@event", ...paths].map((p) => <option key={p} value={p} />)}</datalist>
      {rows.map((row, i) => (
        <Condition key={row.key} row={row} number={i + 1} list={id + "-paths"} fault={fieldFault(error, `filter[${i}]`)}
          change={(part) => onChange(rows.with(i, { ...row, ...part }))} remove={() => onChange(rows.toSpliced(i, 1))} />
      ))}
      {all && <p class="fault">{faultSentence(Words.theFilter, all)}</p>}
      {rows.length < maxConditions && <div><Button look="bare" icon="plus" onClick={() => onChange([...rows, nextRow()])}>{Words.addACondition}</Button></div>}
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
      <input class="input code" aria-label={texts.pathOfConditionNumber(number)} placeholder={Words.dataStatus} list={list} value={row.path} spellcheck={false} autocomplete="off" {...invalid}
        onInput={(e) => change({ path: e.currentTarget.value })} />
      <select class="input" aria-label={texts.comparisonOfConditionNumber(number)} value={row.op} 
        onChange={(e) => { const op = e.currentTarget.value as HookFilter["op"]; change({ op, ...(op === "exists" && { value: "true" }) }); }}>
        {ops.map((o) => <option key={o.value} value={o.value} selected={o.value === row.op}>{o.label}</option>)}
      </select>
      {row.op === "exists" ? (
        <select class="input" aria-label={texts.valueOfConditionNumber(number)} value={row.value} onChange={(e) => change({ value: e.currentTarget.value })}>
          <option value="true" selected={row.value !== "false"}>{Words.yes}</option>
          <option value="false" selected={row.value === "false"}>{Words.no}</option>
        </select>
      ) : (
        <input class="input code" aria-label={texts.valueOfConditionNumber(number)} placeholder={row.op === "in" ? Words.openedReopened : Words.paid} value={row.value} spellcheck={false} autocomplete="off"
          onInput={(e) => change({ value: e.currentTarget.value })} />
      )}
      <Button look="bare" icon="close" label={texts.removeConditionNumber(number)} onClick={remove} />
      {fault && <p class="fault" id={id}>{faultSentence(texts.conditionNumber(number), fault)}</p>}
    </div>
  );
}

export function Coalesce({ draft, set, error }: { draft: HookDraft; set: (part: Partial<HookDraft>) => void; error: ApiError | undefined }) {
  const fault = (field: string) => (draft.coalesces ? fieldFault(error, `coalesce.${field}`) : undefined);
  const whole = draft.coalesces ? error?.errors.find((e) => e.field === "coalesce")?.message : undefined;
  return (
    <div class="stack tight">
      <Switch label={Words.coalesceDeliveriesIntoOneRun} checked={draft.coalesces} onChange={(coalesces) => set({ coalesces })}
        hint={Words.forSendersThatReport} />
      {draft.coalesces && (
        <div class="set-up-form">
          <TextField label={Words.coalescingKey} mono value={draft.coalesceKey} onChange={(coalesceKey) => set({ coalesceKey })} fault={fault("key")} hint={Words.templateLikeMessageDeliveries} />
          <TextField label={Words.waitForMoreSeconds} type="number" value={draft.windowSeconds} onChange={(windowSeconds) => set({ windowSeconds })} fault={fault("windowSeconds")} hint={Words.afterNewestDelivery1} />
          <TextField label={Words.waitAtMostSeconds} type="number" value={draft.maxWaitSeconds} onChange={(maxWaitSeconds) => set({ maxWaitSeconds })} fault={fault("maxWaitSeconds")} hint={Words.afterFirstDelivery} />
        </div>
      )}
      {whole && <p class="fault">{faultSentence(Words.coalescing, whole)}</p>}
    </div>
  );
}
