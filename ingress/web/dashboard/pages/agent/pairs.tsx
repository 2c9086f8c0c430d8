// A list of names and values: headers, whose values are secrets, or metadata.
import { useId } from "preact/hooks";
import * as texts from "../../texts/tools";
import { Words } from "../../texts/tools";
import { Button } from "../../ui/button";
import { faultSentence } from "../../ui/field";
import { hidden, nextKey, type Pair } from "./draft";

export function Pairs({ legend, hint, rows, onChange, fault, at, nameLabel, add, secret }: {
  legend: string; hint?: string; rows: Pair[]; onChange: (rows: Pair[]) => void;
  /**
   * Returns the error of a field. The parameter at is the name of the field that contains the whole
   * list.
   */
  fault: (field: string) => string | undefined; at: string; nameLabel: string; add: string; secret?: boolean;
}) {
  const id = useId();
  const change = (key: number, part: Partial<Pair>) => onChange(rows.map((r) => (r.key === key ? { ...r, ...part } : r)));
  const all = fault(at);
  return (
    <fieldset class="pairs" aria-describedby={hint ? id + "-hint" : undefined}>
      <legend>{legend}</legend>
      {hint && <p class="hint" id={id + "-hint"}>{hint}</p>}
      {rows.map((row, i) => <Row key={row.key} row={row} number={i + 1} fault={fault(`${at}.${row.name}`)} nameLabel={nameLabel} secret={secret} change={(part) => change(row.key, part)}
        remove={() => onChange(rows.filter((r) => r.key !== row.key))} />)}
      {all && <p class="fault">{faultSentence(legend, all)}</p>}
      <div><Button look="bare" icon="plus" onClick={() => onChange([...rows, { key: nextKey(), name: "", value: "" }])}>{add}</Button></div>
    </fieldset>
  );
}

function Row({ row, number, fault, nameLabel, secret, change, remove }: {
  row: Pair; number: number; fault: string | undefined; nameLabel: string; secret?: boolean | undefined; change: (part: Partial<Pair>) => void; remove: () => void;
}) {
  const id = useId();
  const kept = row.value === hidden && row.saved;
  const invalid = fault ? { "aria-invalid": "true" as const, "aria-describedby": id } : {};
  return (
    <div class="pair">
      <input class="input code" aria-label={`${nameLabel} ${number}`} placeholder={nameLabel} value={row.name} spellcheck={false} autocomplete="off" readOnly={kept}
        onInput={(e) => change({ name: e.currentTarget.value })} />
      <input class="input code" aria-label={texts.valueOfName(row.name || `${nameLabel.toLowerCase()} ${number}`)} placeholder={kept ? hidden : Words.value} value={kept ? "" : row.value}
        spellcheck={false} autocomplete="off" {...invalid}
        onInput={(e) => change({ value: secret && row.saved && e.currentTarget.value === "" ? hidden : e.currentTarget.value })} />
      <Button look="bare" icon="close" label={texts.removeName(row.name || `${nameLabel.toLowerCase()} ${number}`)} onClick={remove} />
      {fault && <p class="fault" id={id}>{faultSentence(row.name || `${nameLabel} ${number}`, fault)}</p>}
    </div>
  );
}
