// The page of a run: its message, its result, and its timeline.
import { useRef } from "preact/hooks";
import { Answer } from "../answer/answer";
import { Approval } from "../answer/approval";
import { SentAttachments } from "../answer/files";
import { ToolCalls } from "../answer/toolcalls";
import { Advice } from "../chat/trouble";
import type { Run } from "../types";
import { LinkButton } from "../ui/button";
import { Copy, Snippet } from "../ui/copy";
import { Curl } from "../ui/curl";
import { Confirm } from "../ui/confirm";
import { count, Empty, many, money, PageHeader, Problem, Section, Status, Waiting } from "../ui/parts";
import { Facts } from "./run/facts";
import { useRun, type Followed } from "./run/follow";
import { Timeline } from "./run/timeline";
import { useNames, type Names } from "./runs/names";
import { cancelling, cancelRun, waitsForClient } from "./runs/rows";
import { ended, QueueTime, RunTime } from "./runs/times";

const back = <a href="/dashboard/runs">Runs</a>;

export function RunPage({ id = "" }: Record<string, string>) {
  const followed = useRun(id);
  const names = useNames();
  const { run, trace } = followed;
  // Everything appears together, so that late data moves nothing down.
  if (run.data !== undefined && (trace.data !== undefined || trace.error !== undefined)) return <RunParts run={run.data} followed={followed} names={names} />;
  if (run.error?.code === "erased") return <Erased id={id} />;
  if (run.error?.code === "not_found") return <Gone />;
  return (
    <>
      <PageHeader title="Run" above={back} />
      {run.error ? <Problem error={run.error} retry={run.reload} /> : <Waiting />}
    </>
  );
}

function RunParts({ run, followed, names }: { run: Run; followed: Followed; names: Names }) {
  const asked = followed.trace.data?.input;
  const name = names.of(run);
  const answer = useRef<HTMLDivElement>(null);
  const decided = (next: Run) => {
    followed.run.set(next);
    followed.trace.reload();
    answer.current?.focus(); // the buttons that had the focus are gone
  };
  const cancel = () => cancelRun(run.id).then(decided);
  const cancellation = { method: "POST", path: "/api/runs", params: { id: run.id, action: "cancel" } };
  return (
    <>
      <PageHeader guide="traces" title={`Run of ${name}`} above={back} actions={
        <>
          <span role="status"><Status of={waitsForClient(run) ? "waits for client" : run.status} /></span>
          <Copy text={location.origin + "/dashboard/runs/" + encodeURIComponent(run.id)} label="Copy the link to this run" words="Link" />
          <Curl what="Read this run" request={{ method: "GET", path: "/api/runs", params: { id: run.id } }} />
          <Curl what="Follow this run" request={{ method: "GET", path: "/api/runs", params: { id: run.id, stream: 1 } }} />
          {!ended(run) && <Curl what="Cancel this run" request={cancellation} />}
          {!ended(run) && <Confirm action="Cancel run" question="Cancel this run?" detail={cancelling} request={cancellation} onConfirm={cancel} />}
        </>
      } />
      <div class="stack">
        {followed.run.error && <Problem error={followed.run.error} retry={followed.run.reload} />}
        {run.requiredAction && (
          <section aria-labelledby="decision">
            <h2 id="decision" class="visually-hidden">{waitsForClient(run) ? "Results of the client are needed" : "A decision is needed"}</h2>
            <Approval run={run} onDone={decided} />
          </section>
        )}
        {run.warnings && (
          <div class="note warn">
            <p>The run continued without these connections:</p>
            <ul>{run.warnings.map((w) => <li key={w.kind + w.name}>MCP server <code>{w.name}</code>: {w.message}</li>)}</ul>
          </div>
        )}
        <Measures run={run} />
        {followed.trace.data && <Timeline trace={followed.trace.data} status={run.status} calls={run.toolCalls} />}
        {followed.trace.error && <Problem error={followed.trace.error} retry={followed.trace.reload} />}
        <div class="run-halves">
          <div class="stack">
            <Section title="Message">
              {(asked?.message !== "" || !run.attachments) && <div class="asked-text">{asked?.message ?? " "}</div>}
              <SentAttachments list={run.attachments ?? []} readable />
              {asked?.data !== undefined && <Snippet text={JSON.stringify(asked.data, null, 2)} label="the data of the message" />}
            </Section>
            <div ref={answer} tabIndex={-1} class="run-outcome"><Outcome run={run} text={followed.text} /></div>
          </div>
          <Facts run={run} name={name} known={names.of(run) !== (run.agentId ?? run.templateId)} />
        </div>
        {run.toolCalls.length > 0 && <Section title="Tool calls"><ToolCalls calls={run.toolCalls} completed={run.status === "completed"} /></Section>}
        <div class="sheet run-more">
          <details class="fold">
            <summary>Run as JSON</summary>
            <Snippet text={JSON.stringify(run, null, 2)} label="the run as JSON" />
          </details>
        </div>
      </div>
    </>
  );
}

/** The main figures of a run. */
function Measures({ run }: { run: Run }) {
  const { usage } = run;
  return (
    <>
    <dl class="measures">
      <div><dt>Queue time</dt><dd><QueueTime run={run} /></dd></div>
      <div><dt>Run time</dt><dd><RunTime run={run} /></dd></div>
      <div><dt>Attempts</dt><dd>{count(run.attempts)}</dd></div>
      {run.agentVersion && <div><dt>Agent version</dt><dd>{count(run.agentVersion)}</dd></div>}
      <div><dt>Tokens in</dt><dd>{count(usage.inputTokens)}</dd></div>
      <div><dt>Tokens out</dt><dd>{count(usage.outputTokens)}</dd></div>
      <div><dt>Cost</dt><dd>{money(usage.costMicros)}</dd></div>
    </dl>
    {usage.costMicros > 0 && <p class="hint">Costs are in the currency of the prices in <code>MODEL_PRICES</code>.</p>}
    </>
  );
}

/** Shows the answer so far, or the reason why there is no answer. */
function Outcome({ run, text }: { run: Run; text: string }) {
  const open = !ended(run);
  const answer = run.message ?? text;
  return (
    <Section title={run.error && answer === "" ? "Error" : "Answer"}>
      <div class="stack">
        {run.error && (
          <div class="problem">
            <p><strong>{run.error.message}</strong></p>
            <p class="small"><code>{run.error.code}</code></p>
            {run.error.provider && (
              <p class="small">The provider responded {run.error.provider.status}{run.error.provider.message && `: ${run.error.provider.message}`}</p>
            )}
            <Advice code={run.error.code} message={run.error.message} agentId={run.agentId} />
          </div>
        )}
        {answer !== "" && <Answer text={answer} citations={run.citations} toolCalls={run.toolCalls} streaming={open} />}
        {answer === "" && !run.error && <p class="quiet">{nothingYet(run)}</p>}
        {ended(run) && run.message === null && answer !== "" && <p class="hint">Partial output, not saved.</p>}
        {run.finishReason === "length" && <p class="hint">The answer is incomplete: the model reached its output limit.</p>}
        {run.finishReason === "content_filter" && <p class="hint">The answer is incomplete: the provider withheld the rest.</p>}
        {run.citationsRemoved !== undefined && <p class="hint">{many(run.citationsRemoved, "citation")} removed: not found in the source.</p>}
        {run.omittedTurns !== undefined && <p class="hint">{many(run.omittedTurns, "earlier turn")} in the session omitted: the model’s context is too small.</p>}
      </div>
    </Section>
  );
}

function nothingYet(run: Run): string {
  switch (run.status) {
    case "queued": return run.attempts > 0 ? "Waiting for a retry." : "Waiting for a worker.";
    case "running": return "The agent is working.";
    case "requires_action": return waitsForClient(run) ? "The run continues when its client sends the results." : "The run continues after the decision.";
    case "cancelled": return "The run was cancelled before there was an answer.";
    default: return "No answer.";
  }
}

function Erased({ id }: { id: string }) {
  return (
    <>
      <PageHeader title="Run erased" above={back} />
      <Empty title="This run was erased" action={<LinkButton href="/dashboard/runs" look="primary">Go to runs</LinkButton>}>
        Your organization erased the content of <code>{id}</code>. Only the fact that it ran is stored. A
        request with its idempotency key gets 410.
      </Empty>
    </>
  );
}

function Gone() {
  return (
    <>
      <PageHeader title="Run not found" above={back} />
      <Empty title="This run doesn’t exist here" action={<LinkButton href="/dashboard/runs" look="primary">Go to runs</LinkButton>}>
        The link may be incomplete, the run may have expired, or it belongs to another person or organization.
        Results are stored for 24 hours after a run finishes, unless its request asked for more.
      </Empty>
    </>
  );
}
