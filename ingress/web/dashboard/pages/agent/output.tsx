// The form of an agent's answers: text, or JSON that matches a schema. The schema can be tried
// before it is saved.
import { useState } from "preact/hooks";
import { ApiError, post } from "../../api";
import { Words } from "../../texts/agent";
import type { Run } from "../../types";
import { Button } from "../../ui/button";
import { TextArea, TextField } from "../../ui/field";
import { Problem, Section } from "../../ui/parts";
import { jsonFault } from "./draft";
import type { Editor } from "./editor";

const example = `{
  "type": "object",
  "properties": { "name": { "type": "string" } },
  "required": ["name"]
}`;

export function Answers({ editor }: { editor: Editor }) {
  const { draft, set, fault } = editor;
  const text = draft.outputSchema;
  const wrong = fault("outputSchema") ?? (text.trim() === "" ? undefined : jsonFault(text) || undefined);
  return (
    <Section title={Words.answers} intro={Words.textOrJson}>
      <div class="stack">
        <TextArea label={Words.jsonSchema} value={text} rows={8} mono placeholder={example} onChange={(v) => set("outputSchema", v)} fault={wrong}
          hint={Words.leaveEmptyForAnswers} />
        {text.trim() !== "" && <Try editor={editor} disabled={wrong !== undefined} />}
      </div>
    </Section>
  );
}

/**
 * Requests an answer that matches the schema in the form. The request uses the saved agent and its
 * own session.
 */
function Try({ editor, disabled }: { editor: Editor; disabled: boolean }) {
  const [message, setMessage] = useState("");
  const [error, setError] = useState<ApiError>();
  const [run, setRun] = useState<Run>();
  const send = async () => {
    setError(undefined);
    setRun(undefined);
    try {
      const body = { sessionId: `try-${crypto.randomUUID()}`, message, output: { schema: JSON.parse(editor.draft.outputSchema) as unknown } };
      setRun(await post<Run>("/api/agents", body, { action: "chat", id: editor.agent.id }));
    } catch (failed) {
      if (!(failed instanceof ApiError)) throw failed;
      setError(failed);
    }
  };
  return (
    <div class="stack">
      <TextField label={Words.messageToTry} value={message} onChange={setMessage}
        hint={Words.runsAgentAsItWasLast} />
      <div><Button disabled={disabled || message.trim() === ""} onClick={send}>{Words.tryWord}</Button></div>
      {error && <Problem error={error} />}
      <div aria-live="polite">
        {run?.output?.data !== undefined && <pre class="block" tabIndex={0} role="group" aria-label={Words.data}><code>{JSON.stringify(run.output.data, null, 2)}</code></pre>}
        {run?.error && <p class="fault">{run.error.message}</p>}
        {run && !run.error && run.output?.data === undefined && <p class="hint">{Words.runHasNotFinished}</p>}
      </div>
    </div>
  );
}
