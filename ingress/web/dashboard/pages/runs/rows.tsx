// The rows of the list of runs.
import { post } from "../../api";
import { messageTitle, waitsForClient } from "../../chat/turn";
import { plainText } from "../../plaintext";
import * as texts from "../../texts/runs";
import { Words } from "../../texts/runs";
import { triggers, wordFor } from "../../texts/values";
import type { Run, RunSummary } from "../../types";
import { Confirm } from "../../ui/confirm";
import { money } from "../../ui/money";
import { count, Status, Time } from "../../ui/parts";
import { openRow } from "../../ui/table";
import { toolLabel } from "../../toolnames";
import type { Names } from "./names";
import { ended, QueueTime, RunTime } from "./times";

export const runHref = (run: { id: string }): string => "/dashboard/runs/" + encodeURIComponent(run.id);

const aside = /^\s*\([^\n]*\)[ \t]*\n+(?=\s*\S)/; // a first line in parentheses is a note, for example by the offline model

/**
 * Returns the message that started a run, in one line. The list of runs contains long messages only
 * in part.
 */
export const runQuestion = (run: RunSummary): string => messageTitle(run.input?.message ?? "", run.attachments).slice(0, 300);

/** Describes the state or result of a run in one line. */
export function gist(run: RunSummary): string {
  const asks = run.requiredAction;
  if (asks?.kind === "client_tools") return Words.waitingForResults;
  if (asks) return asks.kind === "approval" ? texts.allowToolNamed(toolLabel(asks.name ?? "")) : texts.didCallToGo(toolLabel(asks.name ?? ""));
  if (run.error) return run.error.message;
  if (run.message) return plainText(run.message.slice(0, 400).replace(aside, ""));
  const last = run.toolCalls.at(-1);
  if (last && !ended(run)) return texts.callingToolNamed(toolLabel(last.name));
  switch (run.status) {
    case "queued": return run.attempts > 0 ? Words.waitingForRetry : Words.waitingForWorker;
    case "running": return Words.working;
    case "cancelled": return Words.cancelled;
    case "timed_out": return Words.timedOut;
    default: return Words.noAnswer;
  }
}

/** Explains the effect of cancelling. */
export const cancelHint = Words.runIsCancelledWithin;

export async function cancelRun(id: string): Promise<Run> {
  return post<Run>("/api/runs", undefined, { id, action: "cancel" });
}

const heads = [Words.status, Words.run, Words.trigger, Words.created, Words.queue, Words.runTime, Words.tokens, Words.cost];
const numbers = new Set([Words.queue, Words.runTime, Words.tokens, Words.cost]);

/** A table of runs. Each row links to its run. */
export function RunRows({ rows, names, onCancelled }: { rows: RunSummary[]; names: Names; onCancelled: (run: RunSummary) => void }) {
  return (
    <div class="table-box run-rows">
      <table>
        <caption class="visually-hidden">{Words.runsNewestFirst}</caption>
        <thead>
          <tr>
            {heads.map((head) => <th key={head} scope="col" class={numbers.has(head) ? "end" : undefined}>{head}</th>)}
            <th scope="col"><span class="visually-hidden">{Words.cancel}</span></th>
          </tr>
        </thead>
        <tbody>{rows.map((run) => <Row key={run.id} run={run} name={names.of(run)} onCancelled={onCancelled} />)}</tbody>
      </table>
    </div>
  );
}

function Row({ run, name, onCancelled }: { run: RunSummary; name: string; onCancelled: (run: RunSummary) => void }) {
  const href = runHref(run);
  const tokens = run.usage.inputTokens + run.usage.outputTokens;
  return (
    <tr class={run.status === "requires_action" && !waitsForClient(run) ? "asks-you" : undefined} onClick={openRow}>
      <td class="run-status"><Status of={waitsForClient(run) ? "waits_for_client" : run.status} /></td>
      <th scope="row" class="run-what">
        <a href={href}>{name}</a>
        {run.input && <span class="run-question">{runQuestion(run)}</span>}
        <span class="run-gist">{gist(run)}</span>
      </th>
      <td class="run-trigger"><Trigger run={run} /></td>
      <td class="run-created"><Time at={run.createdAt} /></td>
      <td class="end run-queue"><QueueTime run={run} /></td>
      <td class="end run-took"><RunTime run={run} /></td>
      <td class="end run-tokens" title={texts.tokensInAndOut(count(run.usage.inputTokens), count(run.usage.outputTokens))}>{count(tokens)}</td>
      <td class="end run-cost">{money(run.usage.costMicros)}</td>
      <td class="tight run-cancel">
        {!ended(run) && (
          <Confirm look="remove" action={Words.cancel} label={texts.cancelThisRunOf(name)} question={texts.cancelThisRunOfQuestion(name)}
            detail={cancelHint} request={{ method: "POST", path: "/api/runs", params: { id: run.id, action: "cancel" } }}
            onConfirm={() => cancelRun(run.id).then(onCancelled)} />
        )}
      </td>
    </tr>
  );
}

/** Shows the type of a run's trigger and its automation. */
export function Trigger({ run }: { run: RunSummary }) {
  const { type, automationId } = run.trigger;
  return <>{wordFor(triggers, type)}{automationId !== null && <span class="run-automation" title={automationId}>{automationId}</span>}</>;
}
