// The model settings of an agent, with the restrictions of its models.
import * as texts from "../../texts/agent";
import { Words } from "../../texts/agent";
import { efforts, wordFor } from "../../texts/values";
import { Check, faultSentence, Select, TextArea, TextField } from "../../ui/field";
import { Section } from "../../ui/parts";
import type { Editor } from "./editor";
import { settingNames, settingWords, type SettingName } from "./draft";
import { supportFor, type ModelSupport, type Range } from "./modelsupport";

/** Returns the models that must accept the settings: the agent's model and its fallbacks. */
function usedModels(editor: Editor): [string, ModelSupport][] {
  const { model, fallbackModels } = editor.draft;
  return [model, ...fallbackModels].filter((m) => m !== "").map((m) => [m, supportFor(m)]);
}

const rangeWords = (range: Range | null, max: number): string | undefined =>
  range === null ? Words.doesNotAcceptIt : range.min === range.max ? texts.acceptsOnlyMin(range.min) : range.max < max ? texts.acceptsAtMostMax(range.max) : undefined;

/**
 * Returns the restriction that a model has for a setting, or undefined if it accepts all values.
 */
function restriction(name: SettingName, model: ModelSupport): string | undefined {
  switch (name) {
    case "temperature":
      return rangeWords(model.temperature, 2) ?? (model.samplesWithoutEffort ? Words.acceptsItOnlyWithReasoning : undefined);
    case "topP":
      return rangeWords(model.topP, 1) ?? (model.samplesWithoutEffort ? Words.acceptsItOnlyWithReasoning : model.oneOfSampling ? Words.acceptsItOnlyWithoutTemperature : undefined);
    case "reasoningEffort": {
      const accepted = model.reasoningEffort ?? [];
      return accepted.length === 0 ? Words.doesNotAcceptIt : accepted.length < Object.keys(efforts).length ? texts.acceptsAccepted(accepted.map((e) => wordFor(efforts, e)).join(", ")) : undefined;
    }
    case "seed": return model.seed ? undefined : Words.doesNotAcceptIt;
    case "stop": return model.stop ? undefined : Words.doesNotAcceptIt;
    case "parallelToolCalls": return model.parallelToolCalls ? undefined : Words.doesNotAcceptIt;
    case "maxOutputTokens": return undefined;
  }
}

export function ModelSettings({ editor }: { editor: Editor }) {
  const { draft, set, fault } = editor;
  const models = usedModels(editor);
  const hint = (name: SettingName, words: string) => {
    const said = models.flatMap(([model, support]) => {
      const about = restriction(name, support);
      return about === undefined ? [] : [`${model} ${about}.`];
    });
    return [words, ...new Set(said)].join(" ");
  };
  const may = (name: SettingName, on: boolean) => set("overridable", settingNames.filter((n) => (n === name ? on : draft.overridable.includes(n))));
  const stop = fault("stop") ?? [0, 1, 2, 3].map((i) => fault(`stop[${i}]`)).find((f) => f !== undefined);
  return (
    <Section title={Words.modelSettings} intro={Words.leaveFieldEmpty}>
      <div class="stack">
        <TextField label={Words.temperature} value={draft.temperature} onChange={(v) => set("temperature", v)} fault={fault("temperature")} hint={hint("temperature", Words.to2LowValues)} />
        <TextField label={Words.topP} value={draft.topP} onChange={(v) => set("topP", v)} fault={fault("topP")} hint={hint("topP", Words.to1ModelChooses)} />
        <TextField label={Words.maximumOutputTokens} value={draft.maxOutputTokens} onChange={(v) => set("maxOutputTokens", v)} fault={fault("maxOutputTokens")} hint={hint("maxOutputTokens", Words.ofOneAnswer)} />
        <Select label={Words.reasoningEffort} value={draft.reasoningEffort} onChange={(v) => set("reasoningEffort", v)} fault={fault("reasoningEffort")}
          options={[{ value: "", label: Words.theModelsDefault }, ...Object.entries(efforts).map(([value, label]) => ({ value, label }))]} hint={hint("reasoningEffort", Words.howMuchModelReasons)} />
        <TextField label={Words.seed} value={draft.seed} onChange={(v) => set("seed", v)} fault={fault("seed")} hint={hint("seed", Words.wholeNumberSameSeed)} />
        <TextArea label={Words.stopTexts} value={draft.stop} rows={2} mono onChange={(v) => set("stop", v)} fault={stop} hint={hint("stop", Words.onePerLineAtMost)} />
        <Select label={Words.parallelToolCalls} value={draft.parallelToolCalls} onChange={(v) => set("parallelToolCalls", v)} fault={fault("parallelToolCalls")}
          options={[{ value: "", label: Words.theModelsDefault }, { value: "true", label: Words.allowed }, { value: "false", label: Words.oneToolAtTime }]} hint={hint("parallelToolCalls", Words.whetherModelMayRequest)} />
        <fieldset class="stack plain">
          <legend class="label">{Words.settingsThatRequests}</legend>
          {settingNames.map((name) => <Check key={name} label={settingWords[name]} checked={draft.overridable.includes(name)} onChange={(on) => may(name, on)} />)}
          {fault("overridable") && <p class="fault">{faultSentence(Words.theList, fault("overridable") ?? "")}</p>}
        </fieldset>
      </div>
    </Section>
  );
}
