// The page of a run: its message, its result, and its timeline, which is below them on a phone.
import { useRef } from "preact/hooks";
import "../shared";
import { Answer } from "../answer/answer";
import { Approval } from "../answer/approval";
import { SentAttachments } from "../answer/files";
import { ToolCalls } from "../answer/toolcalls";
import { Advice, RunErrorCode } from "../chat/trouble";
import { waitsForClient } from "../chat/turn";
import { useNarrow } from "../narrow";
import * as texts from "../texts/run";
import { Words } from "../texts/run";
import type { Run } from "../types";
import { LinkButton } from "../ui/button";
import { Copy, Snippet } from "../ui/copy";
import { Curl } from "../ui/curl";
import { Confirm } from "../ui/confirm";
import { money } from "../ui/money";
import { count, Empty, PageHeader, Problem, Section, Status, Loading } from "../ui/parts";
import { Facts } from "./run/facts";
import { useRun, type Followed } from "./run/follow";
import { Timeline } from "./run/timeline";
import { useNames, type Names } from "./runs/names";
import { cancelHint, cancelRun } from "./runs/rows";
import { ended, QueueTime, RunTime } from "./runs/times";

const back = <a href="/dashboard/runs">{Words.runs}</a>;

export function RunPage({ id = "" }: Record<string, string>) {
  const followed = useRun(id);
  const names = useNames();
  const { run, trace } = followed;
  // All parts of the page appear together, so that late data does not move other parts down.
  if (run.data !== undefined && (trace.data !== undefined || trace.error !== undefined)) return <RunParts run={run.data} followed={followed} names={names} />;
  if (run.error?.code === "erased") return <Erased id={id} />;
  if (run.error?.code === "not_found") return <Gone />;
  return (
    <>
      <PageHeader title={Words.run} above={back} />
      {run.error ? <Problem error={run.error} retry={run.reload} /> : <Loading />}
    </>
  );
}

function RunParts({ run, followed, names }: { run: Run; followed: Followed; names: Names }) {
  const asked = followed.trace.data?.input;
  const name = names.of(run);
  const narrow = useNarrow();
  const answer = useRef<HTMLDivElement>(null);
  const decided = (next: Run) => {
    followed.run.set(next);
    followed.trace.reload();
    answer.current?.focus(); // the button that had the focus has disappeared
  };
  const cancel = () => cancelRun(run.id).then(decided);
  const exchange = (
    <div class="stack run-exchange">
      <Section title={Words.message}>
        <div class="stack tight">
          {(asked?.message !== "" || !run.attachments) && <div class="asked-text">{asked?.message ?? " "}</div>}
          <SentAttachments list={run.attachments ?? []} readable />
          {asked?.data !== undefined && <Snippet text={JSON.stringify(asked.data, null, 2)} label={Words.dataOfMessage} />}
        </div>
      </Section>
      <div ref={answer} tabIndex={-1} class="run-outcome"><Outcome run={run} text={followed.text} /></div>
    </div>
  );
  const course = (
    <>
      <Measures run={run} />
      {followed.trace.data && <Timeline trace={followed.trace.data} run={run} />}
      {followed.trace.error && <Problem error={followed.trace.error} retry={followed.trace.reload} />}
    </>
  );
  const facts = <Facts run={run} name={name} known={names.of(run) !== (run.agentId ?? run.templateId)} />;
  const cancellation = { method: "POST", path: "/api/runs", params: { id: run.id, action: "cancel" } };
  return (
    <>
      <PageHeader guide="dashboard#parts-of-a-run" title={texts.runOfName(name)} above={back} actions={
        <>
          <span role="status"><Status of={waitsForClient(run) ? "waits_for_client" : run.status} /></span>
          <Copy text={location.origin + "/dashboard/runs/" + encodeURIComponent(run.id)} label={Words.copyLinkToThisRun} words={Words.link} />
          <Curl what={Words.readThisRun} request={{ method: "GET", path: "/api/runs", params: { id: run.id } }} />
          <Curl what={Words.followThisRun} request={{ method: "GET", path: "/api/runs", params: { id: run.id, stream: 1 } }} />
          {!ended(run) && <Curl what={Words.cancelThisRun} request={cancellation} />}
          {!ended(run) && <Confirm action={Words.cancelRun} question={Words.cancelThisRunQuestion} detail={cancelHint} request={cancellation} onConfirm={cancel} />}
        </>
      } />
      <div class="stack">
        {followed.run.error && <Problem error={followed.run.error} retry={followed.run.reload} />}
        {run.requiredAction && (
          <section aria-labelledby="decision">
            <h2 id="decision" class="visually-hidden">{waitsForClient(run) ? Words.resultsOfClient : Words.decisionIsNeeded}</h2>
            <Approval run={run} onDone={decided} />
          </section>
        )}
        {run.warnings && (
          <div class="note warn">
            <p>{Words.runContinuedWithoutThese}</p>
            <ul>{run.warnings.map((w) => <li key={w.kind + w.name}>{texts.mcpServerNameMessage(w.name, w.message)}</li>)}</ul>
          </div>
        )}
        {narrow ? <>{exchange}{course}{facts}</> : <>{course}<div class="run-halves">{exchange}{facts}</div></>}
        {run.toolCalls.length > 0 && <Section title={Words.toolCalls}><ToolCalls calls={run.toolCalls} completed={run.status === "completed"} /></Section>}
        <div class="sheet run-more">
          <details class="fold">
            <summary>{Words.runAsJson}</summary>
            <Snippet text={JSON.stringify(run, null, 2)} label={Words.theRunAsJson} />
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
    <dl class="measures">
      <div><dt>{Words.queueTime}</dt><dd><QueueTime run={run} /></dd></div>
      <div><dt>{Words.runTime}</dt><dd><RunTime run={run} /></dd></div>
      <div><dt>{Words.attempts}</dt><dd>{count(run.attempts)}</dd></div>
      {run.agentVersion && <div><dt>{Words.agentVersion}</dt><dd>{count(run.agentVersion)}</dd></div>}
      <div><dt>{Words.tokensIn}</dt><dd>{count(usage.inputTokens)}</dd></div>
      <div><dt>{Words.tokensOut}</dt><dd>{count(usage.outputTokens)}</dd></div>
      <div><dt>{Words.cost}</dt><dd>{money(usage.costMicros)}</dd></div>
    </dl>
  );
}

/** Shows the answer so far, or the reason why there is no answer. */
function Outcome({ run, text }: { run: Run; text: string }) {
  const open = !ended(run);
  const answer = run.message ?? text;
  return (
    <Section title={run.error && answer === "" ? Words.error : Words.answer}>
      <div class="stack">
        {run.error && (
          <div class="problem">
            <p><strong>{run.error.message}</strong></p>
            <p><RunErrorCode code={run.error.code} /></p>
            {run.error.provider && (
              <p class="small">{texts.providerRespondedStatusMessage(run.error.provider.status, run.error.provider.message && `: ${run.error.provider.message}`)}</p>
            )}
            <Advice code={run.error.code} message={run.error.message} agentId={run.agentId} />
          </div>
        )}
        {answer !== "" && <Answer text={answer} citations={run.citations} toolCalls={run.toolCalls} streaming={open} />}
        {answer === "" && !run.error && <p class="quiet">{nothingYet(run)}</p>}
        {ended(run) && run.message === null && answer !== "" && <p class="hint">{Words.partialOutputNotSaved}</p>}
        {run.finishReason === "length" && <p class="hint">{Words.answerIsIncompleteModel}</p>}
        {run.finishReason === "content_filter" && <p class="hint">{Words.answerIsIncompleteProvider}</p>}
        {run.citationsRemoved !== undefined && <p class="hint">{texts.citationsRemovedNotFound(run.citationsRemoved)}</p>}
        {run.omittedTurns !== undefined && <p class="hint">{texts.earlierTurnsInSession(run.omittedTurns)}</p>}
      </div>
    </Section>
  );
}

function nothingYet(run: Run): string {
  switch (run.status) {
    case "queued": return run.attempts > 0 ? Words.waitingForRetry : Words.waitingForWorker;
    case "running": return Words.agentIsWorking;
    case "requires_action": return waitsForClient(run) ? Words.runContinuesWhenItsClient : Words.runContinuesAfterDecision;
    case "cancelled": return Words.runWasCancelled;
    default: return Words.noAnswer;
  }
}

function Erased({ id }: { id: string }) {
  return (
    <>
      <PageHeader title={Words.runErased} above={back} />
      <Empty title={Words.thisRunWasErased} action={<LinkButton href="/dashboard/runs" look="primary">{Words.goToRuns}</LinkButton>}>
        {texts.yourOrganizationErasedContent(id)}
      </Empty>
    </>
  );
}

function Gone() {
  return (
    <>
      <PageHeader title={Words.runNotFound} above={back} />
      <Empty title={Words.thisRunDoesntExist} action={<LinkButton href="/dashboard/runs" look="primary">{Words.goToRuns}</LinkButton>}>
        {Words.linkMayBeIncomplete}
      </Empty>
    </>
  );
}
