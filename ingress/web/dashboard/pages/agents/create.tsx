// The dialog that creates an agent, empty or from a template.
import { useId, useState } from "preact/hooks";
import { ApiError, post } from "../../api";
import { firstQuestions } from "../../firstquestions";
import { useList } from "../../query";
import { go } from "../../router";
import { useSampleSwitch } from "../../samples";
import * as texts from "../../texts/agents";
import { Words } from "../../texts/agents";
import type { Agent, Template } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { Dialog } from "../../ui/dialog";
import { TextArea, TextField, fieldFault, faultSentence } from "../../ui/field";
import { Loaded, Problem } from "../../ui/parts";

const empty = "empty";

/** The id of the template that is selected initially. Any other text selects an empty agent. */
export function NewAgent({ template, onClose }: { template: string; onClose: () => void }) {
  const [from, setFrom] = useState(template.startsWith("tpl_") ? template : empty);
  const [name, setName] = useState("");
  const [systemPrompt, setPrompt] = useState("");
  const [questions, setQuestions] = useState("");
  const [error, setError] = useState<ApiError>();
  const templates = useList<Template>("/api/agents/templates", { limit: 100 });
  const chosen = templates.data?.find((t) => t.id === from);
  const samples = useSampleSwitch(chosen?.tools);

  const suggestions = splitLines(questions);
  const body = {
    ...(from === empty ? { name: name.trim(), systemPrompt } : { templateId: from, ...(name.trim() !== "" && { name: name.trim() }) }),
    ...(suggestions.length > 0 && { suggestions }),
  };
  const otherwise = chosen?.suggestedMessages ?? firstQuestions({ name, description: "", tools: {} }); // questions if none are typed

  const create = async () => {
    setError(undefined);
    try {
      const agent = await post<Agent>("/api/agents", body);
      await samples.add();
      onClose(); // going back leads to the list, not to this dialog
      go(`/dashboard/agents/${agent.id}`);
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      setError(cause);
    }
  };

  const choose = (id: string) => {
    setFrom(id);
    setError(undefined);
  };

  const elsewhere = error?.errors.some((e) => !/^(name|systemPrompt|suggestions)\b/.test(e.field)) || error?.errors.length === 0;
  return (
    <Dialog title={Words.newAgent} onClose={onClose} foot={
      <>
        <Curl what={Words.createTheAgent} request={{ method: "POST", path: "/api/agents", body }} />
        <Button onClick={onClose}>{Words.cancel}</Button>
        <Button look="primary" onClick={create}>{Words.createAgent}</Button>
      </>
    }>
      <div class="stack">
        <From templates={templates} from={from} choose={choose} />
        <TextField label={Words.name} value={name} maxLength={120} onChange={setName} fault={fieldFault(error, "name")} hint={from === empty ? Words.shownToPeopleYou : Words.ifEmptyTemplatesName} />
        {from === empty && (
          <TextArea label={Words.systemPrompt} rows={6} value={systemPrompt} onChange={setPrompt} fault={fieldFault(error, "systemPrompt")}
            placeholder={Words.youWriteShortReleaseNotes} hint={Words.agentsRoleHowItWorks} />
        )}
        <TextArea label={Words.suggestedQuestions} rows={4} value={questions} onChange={setQuestions} fault={questionFault(error)} placeholder={otherwise.join("\n")}
          hint={from === empty ? Words.onePerLine : Words.onePerLineElseTemplates} />
        {samples.field}
        {error && elsewhere && <Problem error={error} />}
      </div>
    </Dialog>
  );
}

/** Returns the lines of a text that are not blank, without white space around them. */
const splitLines = (text: string): string[] => text.split("\n").map((line) => line.trim()).filter((line) => line !== "");

/** Returns the first error of the suggested questions, with the question's number. */
function questionFault(error: ApiError | undefined): string | undefined {
  const fault = error?.errors.find((e) => e.field.startsWith("suggestions"));
  const at = /\[(\d+)\]/.exec(fault?.field ?? "")?.[1];
  return fault && at !== undefined ? faultSentence(texts.questionN(Number(at) + 1), fault.message) : fault?.message;
}

function From({ templates, from, choose }: { templates: ReturnType<typeof useList<Template>>; from: string; choose: (id: string) => void }) {
  const name = useId();
  return (
    <fieldset class="plain">
      <legend class="label">{Words.startFrom}</legend>
      <div class="beginnings">
        <Choice name={name} label={Words.anEmptyAgent} what={Words.youWriteInstructions} checked={from === empty} onChoose={() => choose(empty)} autofocus />
        <Loaded query={templates} room="13rem">
          {(found) => found.map((t) => <Choice key={t.id} name={name} label={t.name} what={t.description} checked={from === t.id} onChoose={() => choose(t.id)} />)}
        </Loaded>
      </div>
    </fieldset>
  );
}

function Choice({ name, label, what, checked, onChoose, autofocus }: { name: string; label: string; what: string; checked: boolean; onChoose: () => void; autofocus?: boolean }) {
  const id = useId();
  return (
    <div class="beginning">
      <input id={id} type="radio" name={name} checked={checked} onChange={onChoose} aria-describedby={id + "-what"} autofocus={autofocus} />
      <label for={id}>{label}</label>
      <span class="hint" id={id + "-what"}>{what}</span>
    </div>
  );
}
