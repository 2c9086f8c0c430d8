// A field for a secret, whose stored value is never shown.
import { useId } from "preact/hooks";
import * as texts from "../../texts/tools";
import { Words } from "../../texts/tools";
import { Button } from "../../ui/button";
import { Copy } from "../../ui/copy";
import { faultSentence } from "../../ui/field";
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
        <input id={id} class="input code" value={kept ? "" : value} placeholder={kept ? hidden : Words.noneLower} spellcheck={false} autocomplete="off"
          aria-invalid={fault ? "true" : undefined} aria-describedby={[id + "-hint", fault && id + "-fault"].filter(Boolean).join(" ")}
          onInput={(e) => onChange(e.currentTarget.value === "" && saved ? hidden : e.currentTarget.value)} />
        <Button label={texts.generateLabel(label)} onClick={() => onChange(generate())}>{Words.generate}</Button>
        {typed && <Copy text={value} label={texts.copyLabel(label)} />}
        {value !== "" && <Button look="bare" label={texts.removeLabel(label)} onClick={() => onChange("")}>{Words.remove}</Button>}
      </div>
      <div class="hint" id={id + "-hint"}>
        {hint} {typed && Words.copyItNow}
        {kept && Words.secretIsSavedShown}
        {value === "" && saved && Words.secretIsRemoved}
      </div>
      {fault && <div class="fault" id={id + "-fault"}>{faultSentence(label, fault)}</div>}
    </div>
  );
}
