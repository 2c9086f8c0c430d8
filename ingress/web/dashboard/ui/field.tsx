// Form controls with their labels, hints and errors. A field's error is the API's message about the
// field.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import type { ApiError } from "../api";

interface FieldProps {
  label: string;
  hint?: ComponentChildren;
  fault?: string | undefined;
}

/** Returns the API's messages about a field and its nested fields. */
export function fieldFault(error: ApiError | undefined, field: string): string | undefined {
  const found = error?.errors.filter((e) => e.field === field || e.field.startsWith(field + ".") || e.field.startsWith(field + "["));
  if (!found || found.length === 0) return undefined;
  return found.map((e) => (e.field === field ? e.message : `${e.field.slice(field.length).replace(/^\./, "")} ${e.message}`)).join("; ");
}

/**
 * Returns an error as a sentence with the label as its subject, because the API's messages begin
 * with the verb.
 */
export const faultSentence = (label: string, fault: string): string => (/^(must|is|are|has|have|holds|cannot|can|may|needs|contains|exceeds|appears|belongs|would|was|does)\b/.test(fault) ? `${label} ${fault}` : fault);

/**
 * Focuses the first field with an error, and scrolls it into view with its message. Returns false
 * if there is none.
 */
export function showFault(within: ParentNode | null): boolean {
  for (const fault of within?.querySelectorAll<HTMLElement>('[aria-invalid="true"], fieldset > .fault') ?? []) {
    const field = fault.matches(".fault") ? fault.parentElement?.querySelector("input") : fault;
    if (!field) continue;
    const fold = field.closest("details");
    if (fold) fold.open = true;
    (field.closest(".field") ?? field).scrollIntoView({ block: "center" });
    field.focus({ preventScroll: true });
    return true;
  }
  return false;
}

/** Shows the first field with an error in a page's form when the form was rejected. */
export function useFaults(error: ApiError | undefined): void {
  const before = useRef(0);
  useEffect(() => {
    const now = error?.errors.length ?? 0;
    if (now > before.current) showFault(document.querySelector("main")); // fewer errors mean that the person is correcting a field
    before.current = now;
  }, [error]);
}

function Around({ id, label, hint, fault, children }: FieldProps & { id: string; children: ComponentChildren }) {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children}
      {hint && <div class="hint" id={id + "-hint"}>{hint}</div>}
      {fault && <div class="fault" id={id + "-fault"}>{faultSentence(label, fault)}</div>}
    </div>
  );
}

const descriptionAttributes = (id: string, hint?: ComponentChildren, fault?: string) =>
  [hint ? id + "-hint" : "", fault ? id + "-fault" : ""].filter(Boolean).join(" ") || undefined;

interface TextProps extends FieldProps {
  value: string;
  onChange: (value: string) => void;
  placeholder?: string;
  required?: boolean;
  maxLength?: number;
  mono?: boolean;
}

export function TextField({ label, hint, fault, value, onChange, mono, type = "text", ...rest }: TextProps & {
  type?: "text" | "email" | "password" | "number" | "url" | "date" | "datetime-local" | "search"; autocomplete?: string; inputMode?: "decimal" | "numeric"; list?: string; disabled?: boolean; autofocus?: boolean;
}) {
  const id = useId();
  return (
    <Around id={id} label={label} hint={hint} fault={fault}>
      <input id={id} class={"input" + (mono ? " code" : "")} {...({ type } as object)} value={value} aria-invalid={fault ? "true" : undefined} aria-describedby={descriptionAttributes(id, hint, fault)}
        onInput={(e) => onChange(e.currentTarget.value)} {...(rest as object)} />
    </Around>
  );
}

export function TextArea({ label, hint, fault, value, onChange, mono, rows, ...rest }: TextProps & { rows?: number }) {
  const id = useId();
  return (
    <Around id={id} label={label} hint={hint} fault={fault}>
      <textarea id={id} class={"input" + (mono ? " code" : "")} rows={rows} value={value} aria-invalid={fault ? "true" : undefined} aria-describedby={descriptionAttributes(id, hint, fault)}
        onInput={(e) => onChange(e.currentTarget.value)} {...(rest as object)} />
    </Around>
  );
}

export interface Choice<T extends string> {
  value: T;
  label: string;
}

export function Select<T extends string>({ label, hint, fault, value, options, onChange, disabled }: FieldProps & {
  value: T; options: readonly Choice<T>[]; onChange: (value: T) => void; disabled?: boolean;
}) {
  const id = useId();
  return (
    <Around id={id} label={label} hint={hint} fault={fault}>
      <select id={id} class="input" value={value} disabled={disabled} aria-invalid={fault ? "true" : undefined} aria-describedby={descriptionAttributes(id, hint, fault)}
        onChange={(e) => onChange(e.currentTarget.value as T)}>
        {options.map((o) => <option key={o.value} value={o.value} selected={o.value === value}>{o.label}</option>)}
      </select>
    </Around>
  );
}

/** A switch. Its change applies immediately or when its form is sent. */
export function Switch({ label, hint, checked, onChange, disabled }: {
  label: string; hint?: ComponentChildren; checked: boolean; onChange: (on: boolean) => void; disabled?: boolean;
}) {
  const id = useId();
  return (
    <div class="switch">
      <input id={id} type="checkbox" role="switch" checked={checked} disabled={disabled} aria-describedby={hint ? id + "-hint" : undefined}
        onChange={(e) => onChange(e.currentTarget.checked)} />
      <div>
        <label for={id}>{label}</label>
        {hint && <span class="hint" id={id + "-hint"}>{hint}</span>}
      </div>
    </div>
  );
}

export function Check({ label, checked, onChange, disabled }: { label: ComponentChildren; checked: boolean; onChange: (on: boolean) => void; disabled?: boolean }) {
  const id = useId();
  return (
    <div class="check">
      <input id={id} type="checkbox" checked={checked} disabled={disabled} onChange={(e) => onChange(e.currentTarget.checked)} />
      <label for={id}>{label}</label>
    </div>
  );
}
