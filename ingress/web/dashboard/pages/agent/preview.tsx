// A preview of a system prompt with the values of its variables.
import { useState } from "preact/hooks";
import { ApiError, post } from "../../api";
import { Button } from "../../ui/button";
import { faultOf, TextArea, TextField } from "../../ui/field";
import { jsonFault } from "./draft";

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
      <summary>Preview the prompt</summary>
      <div class="stack">
        <TextArea label="Input" value={input} rows={3} mono onChange={setInput} fault={wrong || faultOf(error, "input")} hint="The input of a trigger, as JSON." />
        <TextField label="Session" value={session} onChange={setSession} fault={faultOf(error, "sessionId")} />
        <div><Button onClick={fill} disabled={wrong !== ""}>Preview</Button></div>
        {error && faultOf(error, "systemPrompt") && <p class="fault" role="alert">System prompt {faultOf(error, "systemPrompt")}</p>}
        {error && error.errors.length === 0 && <p class="fault" role="alert">{error.detail}</p>}
        {filled !== undefined && <TextArea label="Prompt as the model gets it" value={filled} rows={8} onChange={() => {}} />}
      </div>
    </details>
  );
}
