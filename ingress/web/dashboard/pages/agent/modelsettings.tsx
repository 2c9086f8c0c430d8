// The settings of an agent's model, with what its models accept.
import { Check, saidOf, Select, TextArea, TextField } from "../../ui/field";
import { Section } from "../../ui/parts";
import type { Editor } from "./editor";
import { settingNames, settingWords, type SettingName } from "./draft";
import { supportFor, type ModelSupport, type Range } from "./modelsupport";

const efforts = ["none", "minimal", "low", "medium", "high", "xhigh"];

/** The models that must accept the settings. */
function modelsOf(editor: Editor): [string, ModelSupport][] {
  const { model, fallbackModels } = editor.draft;
  return [model, ...fallbackModels].filter((m) => m !== "").map((m) => [m, supportFor(m)]);
}

const rangeWords = (range: Range | null, most: number): string | undefined =>
  range === null ? "does not accept it" : range.min === range.max ? `accepts only ${range.min}` : range.max < most ? `accepts at most ${range.max}` : undefined;

/** Returns what a model says about a setting, or undefined if it accepts all values. */
function wordsOf(name: SettingName, model: ModelSupport): string | undefined {
  switch (name) {
    case "temperature":
      return rangeWords(model.temperature, 2) ?? (model.samplesWithoutEffort ? "accepts it only with the reasoning effort none" : undefined);
    case "topP":
      return rangeWords(model.topP, 1) ?? (model.samplesWithoutEffort ? "accepts it only with the reasoning effort none" : model.oneOfSampling ? "accepts it only without a temperature" : undefined);
    case "reasoningEffort": {
      const accepted = model.reasoningEffort ?? [];
      return accepted.length === 0 ? "does not accept it" : accepted.length < efforts.length ? `accepts ${accepted.join(", ")}` : undefined;
    }
    case "seed": return model.seed ? undefined : "does not accept it";
    case "stop": return model.stop ? undefined : "does not accept it";
    case "parallelToolCalls": return model.parallelToolCalls ? undefined : "does not accept it";
    case "maxOutputTokens": return undefined;
  }
}

export function ModelSettings({ editor }: { editor: Editor }) {
  const { draft, set, fault } = editor;
  const models = modelsOf(editor);
  const hint = (name: SettingName, words: string) => {
    const said = models.flatMap(([model, support]) => {
      const about = wordsOf(name, support);
      return about === undefined ? [] : [`${model} ${about}.`];
    });
    return [words, ...new Set(said)].join(" ");
  };
  const may = (name: SettingName, on: boolean) => set("overridable", settingNames.filter((n) => (n === name ? on : draft.overridable.includes(n))));
  const stop = fault("stop") ?? [0, 1, 2, 3].map((i) => fault(`stop[${i}]`)).find((f) => f !== undefined);
  return (
    <Section title="Model settings" intro="Leave a field empty for the model's default. What a model accepts is that of the provider's own service; other servers may accept more.">
      <div class="stack">
        <TextField label="Temperature" value={draft.temperature} onChange={(v) => set("temperature", v)} fault={fault("temperature")} hint={hint("temperature", "0 to 2. Low values give more predictable answers.")} />
        <TextField label="Top P" value={draft.topP} onChange={(v) => set("topP", v)} fault={fault("topP")} hint={hint("topP", "0 to 1. The model chooses among the likeliest tokens with this total probability.")} />
        <TextField label="Maximum output tokens" value={draft.maxOutputTokens} onChange={(v) => set("maxOutputTokens", v)} fault={fault("maxOutputTokens")} hint={hint("maxOutputTokens", "Of one answer of the model, with its reasoning. A longer answer is cut off.")} />
        <Select label="Reasoning effort" value={draft.reasoningEffort} onChange={(v) => set("reasoningEffort", v)} fault={fault("reasoningEffort")}
          options={[{ value: "", label: "The model's default" }, ...efforts.map((e) => ({ value: e, label: e }))]} hint={hint("reasoningEffort", "How much the model reasons before it answers.")} />
        <TextField label="Seed" value={draft.seed} onChange={(v) => set("seed", v)} fault={fault("seed")} hint={hint("seed", "A whole number. The same seed makes answers repeatable, as far as the provider supports this.")} />
        <TextArea label="Stop texts" value={draft.stop} rows={2} mono onChange={(v) => set("stop", v)} fault={stop} hint={hint("stop", "One per line, at most four. The answer ends before the first of them. \\n stands for a line break.")} />
        <Select label="Parallel tool calls" value={draft.parallelToolCalls} onChange={(v) => set("parallelToolCalls", v)} fault={fault("parallelToolCalls")}
          options={[{ value: "", label: "The model's default" }, { value: "true", label: "Allowed" }, { value: "false", label: "One tool at a time" }]} hint={hint("parallelToolCalls", "Whether the model may request several tools at once.")} />
        <fieldset class="stack plain">
          <legend class="label">Settings that requests may change</legend>
          {settingNames.map((name) => <Check key={name} label={settingWords[name]} checked={draft.overridable.includes(name)} onChange={(on) => may(name, on)} />)}
          {fault("overridable") && <p class="fault">{saidOf("The list", fault("overridable") ?? "")}</p>}
        </fieldset>
      </div>
    </Section>
  );
}
