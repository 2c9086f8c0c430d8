// The basic settings of an agent: name, prompt, models and callers.
import { useId } from "preact/hooks";
import { firstQuestions } from "../../firstquestions";
import * as texts from "../../texts/agent";
import { Words } from "../../texts/agent";
import { Button } from "../../ui/button";
import { Check, faultSentence, Switch, TextArea, TextField } from "../../ui/field";
import { count, Section } from "../../ui/parts";
import type { Caller } from "./draft";
import type { Editor } from "./editor";
import { ModelPicker, useModels } from "./modelpicker";
import { PromptPreview } from "./preview";

const maxPromptCharacters = 32_000;

export function Basics({ editor }: { editor: Editor }) {
  const { draft, set, fault } = editor;
  const suggestions = fault("suggestions") ?? suggestionFault(fault);
  return (
    <Section title={Words.basics}>
      <div class="stack">
        <TextField label={Words.name} value={draft.name} maxLength={120} required onChange={(v) => set("name", v)} fault={fault("name")} />
        <TextField label={Words.description} value={draft.description} maxLength={2000} onChange={(v) => set("description", v)} fault={fault("description")}
          hint={Words.shownToPeople} />
        <TextArea label={Words.systemPrompt} value={draft.systemPrompt} rows={10} required onChange={(v) => set("systemPrompt", v)} fault={fault("systemPrompt")}
          hint={texts.agentsRoleHowItWorks(count([...draft.systemPrompt].length), count(maxPromptCharacters))} />
        {draft.systemPrompt.includes("{{") && <PromptPreview agentId={editor.agent.id} prompt={draft.systemPrompt} />}
        <TextArea label={Words.suggestedQuestions} value={draft.suggestions} rows={3} onChange={(v) => set("suggestions", v)} fault={suggestions}
          placeholder={firstQuestions({ name: draft.name, description: draft.description, tools: editor.agent.tools }).join("\n")} hint={Words.onePerLine} />
        <Switch label={Words.listOfSources} checked={draft.appendSources} onChange={(on) => set("appendSources", on)}
          hint={Words.forClientsOfOpenais} />
      </div>
    </Section>
  );
}

/** Returns the first error of a suggested question, with the question's number. */
function suggestionFault(fault: Editor["fault"]): string | undefined {
  const faults = Array.from({ length: 6 }, (_, i) => fault(`suggestions[${i}]`));
  const i = faults.findIndex((f) => f !== undefined);
  return i < 0 ? undefined : faultSentence(texts.questionN(i + 1), faults[i] ?? "");
}

export function Models({ editor }: { editor: Editor }) {
  const { draft, set, fault } = editor;
  const list = useId();
  const known = useModels(editor.mayEdit);
  const fallbacks = draft.fallbackModels;
  const change = (models: string[]) => {
    editor.clearFaults();
    set("fallbackModels", models);
  };
  return (
    <Section title={Words.model} intro={Words.languageModelThatAnswers}>
      <div class="stack">
        <datalist id={list}>{known?.models.map((m) => <option key={m} value={m} />)}</datalist>
        <ModelPicker value={draft.model} known={known} fault={fault("model")} onChange={(v) => set("model", v)} />
        <div class="field">
          <span class="label" id={list + "-f"}>{Words.fallbackModels}</span>
          <div class="hint">{Words.usedInThisOrder}</div>
          <ol class="entries plain" aria-labelledby={list + "-f"}>
            {fallbacks.map((model, i) => (
              <li key={i} class="with-buttons">
                <Fallback number={i + 1} model={model} list={list} fault={fault(`fallbackModels[${i}]`)} onChange={(v) => set("fallbackModels", fallbacks.with(i, v.trim()))} />
                <Button look="bare" icon="close" label={texts.removeFallbackModelN(i + 1)} onClick={() => change(fallbacks.toSpliced(i, 1))} />
              </li>
            ))}
          </ol>
          {fault("fallbackModels") && <div class="fault">{faultSentence(Words.theList, fault("fallbackModels") ?? "")}</div>}
          {fallbacks.length < 3 && <div><Button look="bare" icon="plus" onClick={() => change([...fallbacks, ""])}>{Words.addFallbackModel}</Button></div>}
        </div>
      </div>
    </Section>
  );
}

function Fallback({ number, model, list, fault, onChange }: { number: number; model: string; list: string; fault: string | undefined; onChange: (value: string) => void }) {
  const id = useId();
  return (
    <div class="grow">
      <input class="input code" aria-label={texts.fallbackModelNumber(number)} value={model} list={list} autocomplete="off" aria-invalid={fault ? "true" : undefined}
        aria-describedby={fault ? id : undefined} onInput={(e) => onChange(e.currentTarget.value)} />
      {fault && <div class="fault" id={id}>{faultSentence(Words.model, fault)}</div>}
    </div>
  );
}

const callers: { kind: Caller; label: string; hint: string }[] = [
  { kind: "user", label: Words.people, hint: Words.chatInDashboardOver },
  { kind: "system", label: Words.schedulersAndServices, hint: Words.runsStartedThroughRun },
];

export function Callers({ editor }: { editor: Editor }) {
  const { draft, set, fault } = editor;
  const chosen = draft.allowedCallers;
  const toggle = (kind: Caller, on: boolean) => set("allowedCallers", callers.map((c) => c.kind).filter((k) => (k === kind ? on : chosen.includes(k))));
  const wrong = fault("allowedCallers") ?? (chosen.length === 0 ? Words.noCallerIsAllowed : undefined);
  return (
    <Section title={Words.whoMayCallIt}>
      <fieldset class="stack plain">
        <legend class="visually-hidden">{Words.whoMayCallIt}</legend>
        {callers.map((c) => (
          <Check key={c.kind} checked={chosen.includes(c.kind)} onChange={(on) => toggle(c.kind, on)} label={<><strong>{c.label}</strong> <span class="hint below">{c.hint}</span></>} />
        ))}
        {wrong && <p class="fault">{faultSentence(Words.whoMayCallIt, wrong)}</p>}
      </fieldset>
    </Section>
  );
}
