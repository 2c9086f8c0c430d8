// Shows one part of a run: its times, its cost, its input and its output.
import { address } from "../../api";
import { Code } from "../../answer/code";
import { CallBody, gist } from "../../answer/toolcalls";
import * as texts from "../../texts/run";
import { Words } from "../../texts/run";
import { toolLabel } from "../../toolnames";
import type { Run, Timeline } from "../../types";
import { Button } from "../../ui/button";
import { money } from "../../ui/money";
import { count, duration, Status } from "../../ui/parts";
import { turnMessages, requestedCalls, type Sent } from "./messages";
import { exact, type Part } from "./spans";

/** Shows all details of a part: exact times, model, tokens, cost, input and output. */
export function Inspector({ part, trace, run, close }: { part: Part; trace: Timeline; run: Run; close: () => void }) {
  const { span, call } = part;
  return (
    <section class="inspector stack" aria-label={part.name}>
      <div class="row between">
        <h3>{part.name}</h3>
        <Button look="bare" icon="close" label={texts.closeName(part.name)} onClick={close} />
      </div>
      <dl>
        <div><dt>{Words.status}</dt><dd><Status of={part.status} /></dd></div>
        <div><dt>{Words.duration}</dt><dd>{duration(part.shown)}</dd></div>
        <div><dt>{Words.from}</dt><dd>{exact.format(part.at)}</dd></div>
        <div><dt>{Words.to}</dt><dd>{span.finishedAt === null ? Words.now : exact.format(part.at + part.took)}</dd></div>
        {span.model && <div><dt>{Words.model}</dt><dd class="code">{span.model}</dd></div>}
        {span.inputTokens !== undefined && <div><dt>{Words.tokensIn}</dt><dd>{count(span.inputTokens)}</dd></div>}
        {span.outputTokens !== undefined && <div><dt>{Words.tokensOut}</dt><dd>{count(span.outputTokens)}</dd></div>}
        {span.costMicros !== undefined && <div><dt>{Words.cost}</dt><dd>{money(span.costMicros)}</dd></div>}
        {span.message && <div><dt>{span.kind === "wait" ? Words.decision : Words.reason}</dt><dd>{part.notes.at(-1)}</dd></div>}
        {span.provider && <div><dt>{Words.provider}</dt><dd>{span.provider.status}{span.provider.message && `: ${span.provider.message}`}</dd></div>}
      </dl>
      {call && <CallBody call={call} />}
      {span.kind === "turn" && <Said part={part} run={run} />}
      {span.kind === "turn" && <Received messages={turnMessages(trace, span, run.toolCalls)} run={run} />}
    </section>
  );
}

/** Shows what the model returned in a turn. */
function Said({ part: { span }, run }: { part: Part; run: Run }) {
  const calls = requestedCalls(span, run.toolCalls);
  const unknown = span.status === "completed" ? Words.noText : span.status === "running" ? Words.notCompleteYet : Words.notStoredBecauseTurn;
  return (
    <section class="stack tight" aria-label={Words.output}>
      <h4>{Words.output}</h4>
      {span.text && <Code text={span.text} label={Words.textOfModel} />}
      {span.textCut && <p class="hint">{Words.onlyBeginningIsShown}</p>}
      {calls.map((call) => <p key={call.id} class="small">{texts.callsToolNamedGist(toolLabel(call.name), gist(call))}</p>)}
      {!span.text && calls.length === 0 && <p class="quiet small">{unknown}</p>}
    </section>
  );
}

/** Shows what the model received in a turn. The newest message is open. */
function Received({ messages, run }: { messages: Sent[]; run: Run }) {
  const session = address("/dashboard/runs", { session: run.sessionId, agent: run.agentId });
  return (
    <section class="stack tight" aria-label={Words.input}>
      <h4>{Words.input}</h4>
      <p class="hint">
        {texts.agentsInstructionsAndEarlier(run.agentVersion ? texts.versionAgentVersion(run.agentVersion) : "", session)}
      </p>
      {messages.map((m, i) => (
        <details key={`${i} ${m.head}`} class="fold" open={i === messages.length - 1}>
          <summary>{m.head}</summary>
          <div class="stack tight">
            <Code text={m.text} label={m.head} />
            {m.cut && <p class="hint">{Words.onlyBeginningIsShown}</p>}
          </div>
        </details>
      ))}
    </section>
  );
}
