// The editor of the JSON Schema that answers must match. A schema can be tried before it is saved.
import { useState } from "preact/hooks";
import { ApiError, post } from "../api";
import { Words } from "../texts/schema";
import type { Agent, Run } from "../types";
import { Button } from "./button";
import { TextArea, TextField } from "./field";
import { jsonFault } from "./json";
import { Problem } from "./parts";

const example = `{
  "type": "object",
  "properties": { "name": { "type": "string" } },
  "required": ["name"]
}`;

/**
 * The property value is the schema as typed. The property agent is the agent with which the schema
 * is tried.
 */
export function SchemaEditor({ value, onChange, fault, hint, agent }: {
  value: string; onChange: (value: string) => void; fault: string | undefined; hint: string; agent: Agent | undefined;
}) {
  const [message, setMessage] = useState(""); // the test message, kept while the schema is empty
  const blank = value.trim() === "";
  const wrong = (blank ? "" : jsonFault(value)) || fault || undefined;
  return (
    <div class="stack">
      <TextArea label={Words.jsonSchema} value={value} rows={8} mono placeholder={example} onChange={onChange} fault={wrong} hint={hint} />
      {!blank && agent && (agent.allowedCallers.includes("user") ? <Try schema={value} agent={agent} message={message} setMessage={setMessage} disabled={wrong !== undefined} />
        : <p class="hint">{Words.onlyAutomationsMayRun}</p>)}
    </div>
  );
}

/**
 * Requests an answer that matches the schema in the form. The request uses the agent as saved, in a
 * session of its own.
 */
function Try({ schema, agent, message, setMessage, disabled }: {
  schema: string; agent: Agent; message: string; setMessage: (message: string) => void; disabled: boolean;
}) {
  const [error, setError] = useState<ApiError>();
  const [run, setRun] = useState<Run>();
  const send = async () => {
    setError(undefined);
    setRun(undefined);
    try {
      const body = { sessionId: `try-${crypto.randomUUID()}`, message, output: { schema: JSON.parse(schema) as unknown } };
      setRun(await post<Run>("/api/agents", body, { action: "chat", id: agent.id }));
    } catch (failed) {
      if (!(failed instanceof ApiError)) throw failed;
      setError(failed);
    }
  };
  return (
    <div class="stack">
      <TextField label={Words.messageToTry} value={message} onChange={setMessage} hint={Words.runsAgentAsItWasLast} />
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
