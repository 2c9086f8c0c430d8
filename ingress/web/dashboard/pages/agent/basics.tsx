// The basic settings of an agent: name, prompt, models and callers.
import { useId } from "preact/hooks";
import { Button } from "../../ui/button";
import { Check, saidOf, Switch, TextArea, TextField } from "../../ui/field";
import { count, Section } from "../../ui/parts";
import type { Caller } from "./draft";
import type { Editor } from "./editor";
import { ModelPicker, useModels } from "./modelpicker";
import { PromptPreview } from "./preview";

const promptMost = 32_000;

export function Basics({ editor }: { editor: Editor }) {
  const { draft, set, fault } = editor;
  const suggestions = fault("suggestions") ?? suggestionFault(fault);
  return (
    <Section title="Basics">
      <div class="stack">
        <TextField label="Name" value={draft.name} maxLength={120} required onChange={(v) => set("name", v)} fault={fault("name")} />
        <TextField label="Description" value={draft.description} maxLength={2000} onChange={(v) => set("description", v)} fault={fault("description")}
          hint="Shown to people in the list of agents. The model does not see it." />
        <TextArea label="System prompt" value={draft.systemPrompt} rows={10} required onChange={(v) => set("systemPrompt", v)} fault={fault("systemPrompt")}
          hint={<>The agent's role, how it works, and what it must not do. Variables such as <code>{"{{now}}"}</code> and <code>{"{{input.customer}}"}</code> are filled in each run. <span class="number">{count([...draft.systemPrompt].length)} of {count(promptMost)} characters</span></>} />
        {draft.systemPrompt.includes("{{") && <PromptPreview agentId={editor.agent.id} prompt={draft.systemPrompt} />}
        <TextArea label="Suggested questions" value={draft.suggestions} rows={3} onChange={(v) => set("suggestions", v)} fault={suggestions}
          hint="One per line, at most six. A chat without messages offers them. The model does not see them." />
        <Switch label="List of sources in the text" checked={draft.appendSources} onChange={(on) => set("appendSources", on)}
          hint="For clients of OpenAI's API that ignore annotations, for example Open WebUI and LibreChat. The text of answers on /v1 ends with the cited sources, and with links to the files that programs made." />
      </div>
    </Section>
  );
}

/** Returns the first error of a suggested question, with the question's number. */
function suggestionFault(fault: Editor["fault"]): string | undefined {
  const faults = Array.from({ length: 6 }, (_, i) => fault(`suggestions[${i}]`));
  const i = faults.findIndex((f) => f !== undefined);
  return i < 0 ? undefined : saidOf(`Question ${i + 1}`, faults[i] ?? "");
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
    <Section title="Model" intro="The language model that answers. The list contains the models of the providers that the service's settings configure. The offline model needs no key.">
      <div class="stack">
        <datalist id={list}>{known?.models.map((m) => <option key={m} value={m} />)}</datalist>
        <ModelPicker value={draft.model} known={known} fault={fault("model")} onChange={(v) => set("model", v)} />
        <div class="field">
          <span class="label" id={list + "-f"}>Fallback models</span>
          <div class="hint">Used in this order when the model is unavailable, out of quota, too slow or failing. At most three.</div>
          <ol class="entries plain" aria-labelledby={list + "-f"}>
            {fallbacks.map((model, i) => (
              <li key={i} class="with-buttons">
                <Fallback number={i + 1} model={model} list={list} fault={fault(`fallbackModels[${i}]`)} onChange={(v) => set("fallbackModels", fallbacks.with(i, v.trim()))} />
                <Button look="bare" icon="close" label={`Remove fallback model ${i + 1}`} onClick={() => change(fallbacks.toSpliced(i, 1))} />
              </li>
            ))}
          </ol>
          {fault("fallbackModels") && <div class="fault">{saidOf("The list", fault("fallbackModels") ?? "")}</div>}
          {fallbacks.length < 3 && <div><Button look="bare" icon="plus" onClick={() => change([...fallbacks, ""])}>Add a fallback model</Button></div>}
        </div>
      </div>
    </Section>
  );
}

function Fallback({ number, model, list, fault, onChange }: { number: number; model: string; list: string; fault: string | undefined; onChange: (value: string) => void }) {
  const id = useId();
  return (
    <div class="grow">
      <input class="input code" aria-label={`Fallback model ${number}`} value={model} list={list} autocomplete="off" aria-invalid={fault ? "true" : undefined}
        aria-describedby={fault ? id : undefined} onInput={(e) => onChange(e.currentTarget.value)} />
      {fault && <div class="fault" id={id}>{saidOf("Model", fault)}</div>}
    </div>
  );
}

const callers: { kind: Caller; label: string; hint: string }[] = [
  { kind: "user", label: "People", hint: "Chat in the dashboard, over the API and in the widget." },
  { kind: "system", label: "Schedulers and services", hint: "Runs started through run-automation with an API key, without a person." },
];

export function Callers({ editor }: { editor: Editor }) {
  const { draft, set, fault } = editor;
  const chosen = draft.allowedCallers;
  const toggle = (kind: Caller, on: boolean) => set("allowedCallers", callers.map((c) => c.kind).filter((k) => (k === kind ? on : chosen.includes(k))));
  const wrong = fault("allowedCallers") ?? (chosen.length === 0 ? "No caller is allowed. Choose at least one." : undefined);
  return (
    <Section title="Who may call it">
      <fieldset class="stack plain">
        <legend class="visually-hidden">Who may call it</legend>
        {callers.map((c) => (
          <Check key={c.kind} checked={chosen.includes(c.kind)} onChange={(on) => toggle(c.kind, on)} label={<><strong>{c.label}</strong> <span class="hint below">{c.hint}</span></>} />
        ))}
        {wrong && <p class="fault">{saidOf("Who may call it", wrong)}</p>}
      </fieldset>
    </Section>
  );
}
