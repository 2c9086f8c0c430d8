// A part of a run: its times, its cost, and what went in and came out.
import { address } from "../../api";
import { Code } from "../../answer/code";
import { CallBody, gist } from "../../answer/toolcalls";
import { toolNamed } from "../../toolnames";
import type { Run, Timeline } from "../../types";
import { Button } from "../../ui/button";
import { count, duration, money, Status } from "../../ui/parts";
import { messagesOf, requested, type Sent } from "./messages";
import { exact, type Part } from "./spans";

/** Shows everything that is known about a part: exact times, model, tokens, cost, input and output. */
export function Inspector({ part, trace, run, close }: { part: Part; trace: Timeline; run: Run; close: () => void }) {
  const { span, call } = part;
  return (
    <section class="inspector stack" aria-label={part.name}>
      <div class="row between">
        <h3>{part.name}</h3>
        <Button look="bare" icon="close" label={`Close ${part.name}`} onClick={close} />
      </div>
      <dl>
        <div><dt>Status</dt><dd><Status of={part.status} /></dd></div>
        <div><dt>Duration</dt><dd>{duration(part.took)}</dd></div>
        <div><dt>From</dt><dd>{exact.format(new Date(span.startedAt))}</dd></div>
        <div><dt>To</dt><dd>{span.finishedAt === null ? "now" : exact.format(new Date(span.finishedAt))}</dd></div>
        {span.model && <div><dt>Model</dt><dd class="code">{span.model}</dd></div>}
        {span.inputTokens !== undefined && <div><dt>Tokens in</dt><dd>{count(span.inputTokens)}</dd></div>}
        {span.outputTokens !== undefined && <div><dt>Tokens out</dt><dd>{count(span.outputTokens)}</dd></div>}
        {span.costMicros !== undefined && <div><dt>Cost</dt><dd>{money(span.costMicros)}</dd></div>}
        {span.message && <div><dt>{span.kind === "wait" ? "Decision" : "Reason"}</dt><dd>{part.notes.at(-1)}</dd></div>}
        {span.provider && <div><dt>Provider</dt><dd>{span.provider.status}{span.provider.message && `: ${span.provider.message}`}</dd></div>}
      </dl>
      {call && <CallBody call={call} />}
      {span.kind === "turn" && <Said part={part} run={run} />}
      {span.kind === "turn" && <Received messages={messagesOf(trace, span, run.toolCalls)} run={run} />}
    </section>
  );
}

/** Shows what the model returned in a turn. */
function Said({ part: { span }, run }: { part: Part; run: Run }) {
  const calls = requested(span, run.toolCalls);
  const unknown = span.status === "completed" ? "No text." : span.status === "running" ? "Not complete yet." : "Not stored, because the turn did not complete.";
  return (
    <section class="stack tight" aria-label="Output">
      <h4>Output</h4>
      {span.text && <Code text={span.text} label="Text of the model" />}
      {span.textCut && <p class="hint">Only the beginning is shown.</p>}
      {calls.map((call) => <p key={call.id} class="small">Calls <strong>{toolNamed(call.name)}</strong> <span class="quiet">{gist(call)}</span></p>)}
      {!span.text && calls.length === 0 && <p class="quiet small">{unknown}</p>}
    </section>
  );
}

/** Shows what the model received in a turn. The newest message is open. */
function Received({ messages, run }: { messages: Sent[]; run: Run }) {
  const session = address("/dashboard/runs", { session: run.sessionId, agent: run.agentId });
  return (
    <section class="stack tight" aria-label="Input">
      <h4>Input</h4>
      <p class="hint">
        The agent’s instructions{run.agentVersion ? `, version ${run.agentVersion}` : ""}, and earlier messages of <a href={session}>the session</a>, if it has any. Then:
      </p>
      {messages.map((m, i) => (
        <details key={`${i} ${m.head}`} class="fold" open={i === messages.length - 1}>
          <summary>{m.head}</summary>
          <div class="stack tight">
            <Code text={m.text} label={m.head} />
            {m.cut && <p class="hint">Only the beginning is shown.</p>}
          </div>
        </details>
      ))}
    </section>
  );
}
