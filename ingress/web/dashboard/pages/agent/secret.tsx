// A field for a secret, whose stored value is never shown.
import { useId } from "preact/hooks";
import { Button } from "../../ui/button";
import { Copy } from "../../ui/copy";
import { saidOf } from "../../ui/field";
import { hidden } from "./draft";

/** Returns random bytes as hex or base64. */
export function random(bytes: number, as: "hex" | "base64"): string {
  const made = crypto.getRandomValues(new Uint8Array(bytes));
  return as === "hex" ? [...made].map((b) => b.toString(16).padStart(2, "0")).join("") : btoa(String.fromCharCode(...made));
}

export function Secret({ label, hint, fault, value, saved, generate, onChange }: {
  label: string; hint: string; fault: string | undefined; value: string; saved: boolean; generate: () => string; onChange: (value: string) => void;
}) {
  const id = useId();
  const kept = value === hidden;
  const typed = value !== "" && !kept;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <div class="with-buttons">
        <input id={id} class="input code" value={kept ? "" : value} placeholder={kept ? hidden : "none"} spellcheck={false} autocomplete="off"
          aria-invalid={fault ? "true" : undefined} aria-describedby={[id + "-hint", fault && id + "-fault"].filter(Boolean).join(" ")}
          onInput={(e) => onChange(e.currentTarget.value === "" && saved ? hidden : e.currentTarget.value)} />
        <Button label={`Generate: ${label}`} onClick={() => onChange(generate())}>Generate</Button>
        {typed && <Copy text={value} label={`Copy: ${label}`} />}
        {value !== "" && <Button look="bare" label={`Remove: ${label}`} onClick={() => onChange("")}>Remove</Button>}
      </div>
      <div class="hint" id={id + "-hint"}>
        {hint} {typed && "Copy it now. It is not shown again after saving."}
        {kept && "A secret is saved, shown as ***. Type to replace it."}
        {value === "" && saved && "The secret is removed when you save."}
      </div>
      {fault && <div class="fault" id={id + "-fault"}>{saidOf(label, fault)}</div>}
    </div>
  );
}
