import * as texts from "../texts/answer";
import { Words } from "../texts/answer";
import { statuses, wordFor } from "../texts/values";
import { toolLabel } from "../toolnames";
import type { ToolCall } from "../types";
import { Icon } from "../ui/icon";
import { duration, Status } from "../ui/parts";
import { Code, json } from "./code";
import { asFields, Files, filesIn } from "./files";

/** A tool call and its status on the page: a call that waits for a decision is not running. */
export interface ShownCall extends Omit<ToolCall, "status"> {
  status: ToolCall["status"] | "waiting";
}

/**
 * Lists the tool calls of a run. Failed calls of a completed run are not emphasized, because the
 * run has succeeded despite them.
 */
export function ToolCalls({ calls, completed }: { calls: ShownCall[]; completed: boolean }) {
  if (calls.length === 0) return null;
  return <div class="calls" role="group" aria-label={Words.toolCalls}>{calls.map((call) => <Call key={call.id} call={call} completed={completed} />)}</div>;
}

/** Summarizes a call's input in one line of at most 120 characters. */
export function gist(call: ShownCall): string {
  const input = asFields(call.input);
  const first = input["query"] ?? input["code"] ?? input["url"] ?? Object.values(input)[0];
  const said = typeof first === "string" ? first : first === undefined ? "" : JSON.stringify(first);
  const line = said.trim().split("\n", 1)[0] ?? "";
  return line.length > 120 ? line.slice(0, 119) + "…" : line;
}

function Call({ call, completed }: { call: ShownCall; completed: boolean }) {
  const plain = call.status === "completed" || (completed && call.status === "failed");
  const called = toolLabel(call.name);
  return (
    <details class="call">
      <summary>
        <Icon name="tool" />
        <span class="call-name">{called}</span>
        <span class="call-gist">{gist(call)}</span>
        <span class="call-end">
          {(call.status === "completed" || call.status === "failed") && <span class="quiet small number">{duration(call.durationMs)}</span>}
          {plain ? <span class="quiet small">{wordFor(statuses, call.status)}</span> : <Status of={call.status} />}
        </span>
      </summary>
      <CallBody call={call} />
    </details>
  );
}

/** Shows the complete input and output of a tool call. */
export function CallBody({ call }: { call: ShownCall }) {
  return (
    <div class="call-body stack">
      <Arguments name={call.name} input={call.input} />
      <Output call={call} />
    </div>
  );
}

/** Shows the complete input of a tool call. */
export function Arguments({ name, input }: { name: string; input: unknown }) {
  const { code, ...rest } = asFields(input);
  const program = name === "codeExecution" && typeof code === "string" ? code : null;
  if (program === null) return <Part head={Words.input}><Code text={json(input)} language="json" label={texts.inputOfName(name)} /></Part>;
  return (
    <>
      <Part head={Words.program}><Code text={program} language="python" label={Words.program} /></Part>
      {Object.keys(rest).length > 0 && <Part head={Words.otherInput}><Code text={json(rest)} language="json" label={Words.otherInput} /></Part>}
    </>
  );
}

function Output({ call }: { call: ShownCall }) {
  if (call.output === null || call.output === undefined) return call.status === "running" ? <p class="quiet small">{Words.noOutputYet}</p> : null;
  if (call.name !== "codeExecution") {
    return (
      <>
        <Part head={Words.output}><Code text={typeof call.output === "string" ? call.output : json(call.output)} language="json" label={texts.outputOfName(call.name)} /></Part>
        <Files files={filesIn(call)} images={[]} />
      </>
    );
  }
  const { stdout, stderr, value, error, limit: _, files: __, ...rest } = asFields(call.output);
  const outputs: [string, unknown][] = [[Words.value, value], [Words.standardOutput, stdout], [Words.error, error], [Words.standardError, stderr]];
  return (
    <>
      {outputs.map(([head, said]) => typeof said === "string" && said !== "" && <Part key={head} head={head}><Code text={said} label={head} /></Part>)}
      {Object.keys(rest).length > 0 && <Part head={Words.otherOutput}><Code text={json(rest)} language="json" label={Words.otherOutput} /></Part>}
      <Files files={filesIn(call)} images={[]} />
    </>
  );
}

function Part({ head, children }: { head: string; children: preact.ComponentChildren }) {
  return (
    <div class="call-part">
      <p class="quiet small">{head}</p>
      {children}
    </div>
  );
}
