// A preview of a system prompt with the values of its variables.
import { useState } from "preact/hooks";
import { ApiError, post } from "../../api";
import * as texts from "../../texts/agent";
import { Words } from "../../texts/agent";
import { Button } from "../../ui/button";
import { fieldFault, TextArea, TextField } from "../../ui/field";
import { jsonFault } from "../../ui/json";

export function PromptPreview({ agentId, prompt }: { agentId: string; prompt: string }) {
  const [input, setInput] = useState("{}");
  const [session, setSession] = useState("");
  const [filled, setFilled] = useState<string>();
  const [error, setError] = useState<ApiError>();
  const fill = async () => {
    setError(undefined);
    try {
      const body = { systemPrompt: prompt, input: JSON.parse(input) as unknown, ...(session !== "" && { sessionId: session }) };
      setFilled((await post<{ systemPrompt: string }>("/api/agents", body, { id: agentId, action: "preview" })).systemPrompt);
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      setFilled(undefined);
      setError(cause);
    }
  };
  const wrong = jsonFault(input);
  return (
    <details>
      <summary>{Words.previewThePrompt}</summary>
      <div class="stack">
        <TextArea label={Words.input} value={input} rows={3} mono onChange={setInput} fault={wrong || fieldFault(error, "input")} hint={Words.inputOfTrigger} />
        <TextField label={Words.session} value={session} onChange={setSession} fault={fieldFault(error, "sessionId")} />
        <div><Button onClick={fill} disabled={wrong !== ""}>{Words.preview}</Button></div>
        {error && fieldFault(error, "systemPrompt") && <p class="fault" role="alert">{texts.systemPromptFault(fieldFault(error, "systemPrompt"))}</p>}
        {error && error.errors.length === 0 && <p class="fault" role="alert">{error.detail}</p>}
        {filled !== undefined && <TextArea label={Words.promptAsModelGets} value={filled} rows={8} onChange={() => {}} />}
      </div>
    </details>
  );
}
